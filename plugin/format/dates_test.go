package format

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestDates(t *testing.T) {
	for _, test := range []struct {
		reset    seqd.Reset
		zone     string
		template string
		want     string // part of the error; empty for a valid template
	}{
		{seqd.ResetDaily, "UTC", "{date:20060102}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:060102}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:2006002}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:02Jan2006}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:Mon-2006-01-02}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:Mon-06-01-02}{seq}", ""},
		{seqd.ResetDaily, "UTC", "{date:2006}-{seq}-{date:0102}", ""},
		{seqd.ResetMonthly, "UTC", "{date:2006-01}{seq}", ""},
		{seqd.ResetMonthly, "UTC", "{date:Jan06}{seq}", ""},
		{seqd.ResetYearly, "UTC", "{date:06}{seq}", ""},
		{seqd.ResetDaily, "UTC", "A{date:200601}{seq}",
			"byte 1: daily needs year, month and day in the date; {date:200601} shows the same for 2000-01-01 and 2000-01-02"},
		{seqd.ResetDaily, "UTC", "{date:0102}{seq}", "shows the same for 2000-01-01 and 2001-01-01"},
		{seqd.ResetDaily, "UTC", "{date:01}{seq}{date:2006}", "{date:01} and {date:2006} shows the same for 2000-01-01 and 2000-01-02"},
		{seqd.ResetMonthly, "UTC", "{date:2006}{seq}", "monthly needs year and month in the date"},
		{seqd.ResetMonthly, "UTC", "{date:20060102}{seq}", "{date:20060102} shows more than the month"},
		{seqd.ResetYearly, "UTC", "{date:2006}{seq}{date:01}", "byte 16: {date:01} shows more than the year"},
		{seqd.ResetDaily, "UTC", "{date:2006010215}{seq}", "shows more than the day"},
		{seqd.ResetDaily, "UTC", "{date:20060102PM}{seq}", "shows more than the day"},
		{seqd.ResetDaily, "UTC", "{date:20060102MST}{seq}", "shows more than the day"},
		{seqd.ResetDaily, "UTC", "{date:20060102-0700}{seq}", "shows more than the day"},
		{seqd.ResetDaily, "UTC", "{date:20060102.000}{seq}", "shows more than the day"},
		{seqd.ResetDaily, "UTC", "{date:2006-1-2}{seq}", "{date:2006-1-2} shows 2000-1-1 and 2000-1-10, which differ in length"},
		{seqd.ResetNever, "UTC", "{date:January}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:Monday}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:3pm}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:20060102T4}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:20060102T5}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:05.999}{seq}", "shows fractions of a second"},
		{seqd.ResetNever, "UTC", "{date:05.000}{seq}", "shows fractions of a second"},
		{seqd.ResetNever, "UTC", "{date:200601_2}{seq}", "cannot stand in an ID"},
		{seqd.ResetNever, "Europe/London", "{date:20060102Z07}{seq}", "differ in length"},
		{seqd.ResetNever, "Europe/Lisbon", "{date:20060102MST}{seq}", "differ in length"},
		{seqd.ResetNever, "UTC", "{date:Mon}{seq}", "cannot be read back"},
		{seqd.ResetNever, "UTC", "{date:05.2006}{seq}", "cannot be read back"},
		{seqd.ResetNever, "Europe/London", "{date:20060102150405-0700}{seq}", ""},
		{seqd.ResetNever, "Europe/London", "{date:2006010215MST}{seq}", ""},
		{seqd.ResetNever, "Asia/Kathmandu", "{date:2006-01-02T15:04:05Z07:00}{seq}", ""},
		{seqd.ResetNever, "UTC", "{date:03PM}{seq}", ""},
		{seqd.ResetNever, "UTC", "{date:0102}{seq}", ""},
	} {
		_, err := New(Settings{Template: test.template}, calendar(t, test.reset, test.zone), 0, time.Now)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s, %s: %v, want %q", test.reset, test.template, err, test.want)
		}
	}
}

// TestPeriodDates checks that the date is that of the period, even at midnight in any zone, at the
// ends of years and on leap days.
func TestPeriodDates(t *testing.T) {
	for _, test := range []struct {
		reset    seqd.Reset
		template string
		period   seqd.Period
		want     string
	}{
		{seqd.ResetDaily, "{date:20060102}-{seq}", 20261121, "20261121-7"},
		{seqd.ResetDaily, "{date:060102}-{seq}", 20240229, "240229-7"},
		{seqd.ResetDaily, "{date:060102}-{seq}", 20991231, "991231-7"},
		{seqd.ResetDaily, "{date:2006}-{seq}-{date:0102}", 20240229, "2024-7-0229"},
		{seqd.ResetDaily, "{date:Mon-06-01-02}-{seq}", 20701231, "Wed-70-12-31-7"},
		{seqd.ResetDaily, "{date:20060102}-{seq}", 20000101, "20000101-7"},
		{seqd.ResetDaily, "{date:20060102}-{seq}", 20991231, "20991231-7"},
		{seqd.ResetMonthly, "{date:2006-01}-{seq}", 20261200, "2026-12-7"},
		{seqd.ResetYearly, "{date:2006}-{seq}", 20270000, "2027-7"},
	} {
		for _, zone := range []string{"UTC", "Pacific/Kiritimati", "America/New_York"} {
			p := mustPlugin(t, Settings{Template: test.template}, calendar(t, test.reset, zone), 0)
			must.Equal(t, show(t, p, test.period, 7), test.want, "%s of %s shows", test.template, test.period)
			if r, err := p.Read(t.Context(), test.want, seqd.Counter{}); err != nil || r.Period != test.period || r.Shown != "7" {
				t.Errorf("%s: %s reads as %+v, %v", test.template, test.want, r, err)
			}
		}
	}
}

// TestIssuingDates checks that, if numbers never reset, the date is the current one in the zone of
// the biz type.
func TestIssuingDates(t *testing.T) {
	clock := time.Date(2026, 11, 21, 15, 59, 59, 0, time.UTC)
	p := must.Get(New(Settings{Template: "{date:20060102150405}-{seq}"}, calendar(t, seqd.ResetNever, "Asia/Shanghai"), 0, func() time.Time { return clock }))(t)
	for _, want := range []string{"20261121235959-1", "20261122000000-2", "20261122000001-3"} {
		must.Equal(t, show(t, p, 0, int64(want[len(want)-1]-'0')), want)
		clock = clock.Add(time.Second)
	}
}

// TestOtherCenturies checks that a year for which the dates are not proven is refused before a
// number is taken, and is never part of an ID. A clock that is a century off would repeat the IDs
// of a date with a two-digit year.
func TestOtherCenturies(t *testing.T) {
	clock := time.Date(2026, 11, 21, 15, 59, 59, 0, time.UTC)
	for _, layout := range []string{"060102", "20060102"} {
		reset := mustPlugin(t, Settings{Template: "{date:" + layout + "}-{seq}"}, calendar(t, seqd.ResetDaily, "UTC"), 0)
		never, err := New(Settings{Template: "{date:" + layout + "}-{seq}"}, calendar(t, seqd.ResetNever, "Asia/Shanghai"), 0, func() time.Time { return clock })
		must.Do(t, err)
		for _, test := range []struct {
			at   string
			good bool
		}{
			{"1926-11-21T09:00:00Z", false}, {"1999-12-31T15:59:59Z", false}, {"1999-12-31T16:00:00Z", true}, {"2026-11-21T09:00:00Z", true},
			{"2099-12-31T15:59:59Z", true}, {"2099-12-31T16:00:00Z", false}, {"2126-11-21T09:00:00Z", false}, {"9999-12-31T09:00:00Z", false},
			{"1970-01-01T00:00:00Z", false},
		} {
			if clock, err = time.Parse(time.RFC3339, test.at); err != nil {
				t.Fatal(err)
			}
			period := seqd.ResetDaily.Of(clock.In(never.dates.calendar.Zone))
			for p, period := range map[*Plugin]seqd.Period{reset: period, never: 0} {
				call := seqd.Call{Count: 1}
				call.Sequence.Add(1, 1, 1)
				call.Sequence.In(period)
				before, after := p.Before(t.Context(), &call), p.After(t.Context(), &call)
				if p == never && seqd.CodeOf(before) != seqd.CodeOf(after) {
					t.Errorf("%s: %v, and once numbers are used up %v", test.at, before, after)
				}
				if good := after == nil; good != test.good || !good && seqd.CodeOf(after) != seqd.CodeClockRollback {
					t.Errorf("%s in %s: %v", test.at, layout, after)
				}
			}
		}
	}
	for _, id := range []string{"19991231-7", "21000101-7", "00000101-7", "19260229-7"} {
		for _, reset := range []seqd.Reset{seqd.ResetDaily, seqd.ResetNever} {
			p := mustPlugin(t, Settings{Template: "{date:20060102}-{seq}"}, calendar(t, reset, "UTC"), 0)
			must.Code(t, must.Err(p.Read(t.Context(), id, seqd.Counter{})), seqd.CodeInvalidID, "%s reads with", id)
		}
	}
}

// TestDateWithoutYear checks that a date without a year is read in any year.
func TestDateWithoutYear(t *testing.T) {
	p := mustPlugin(t, Settings{Template: "{date:0102}-{seq}"}, calendar(t, seqd.ResetNever, "America/New_York"), 0)
	for _, id := range []string{"0101-7", "0229-7", "1231-7"} {
		if r, err := p.Read(t.Context(), id, seqd.Counter{}); err != nil || r.Shown != "7" {
			t.Errorf("%s reads as %+v, %v", id, r, err)
		}
	}
}

// TestClockChanges checks days on which the clocks change: what was shown can be read, and what was
// never shown cannot.
func TestClockChanges(t *testing.T) {
	var clock time.Time
	p := must.Get(New(Settings{Template: "{date:20060102T1504}-{seq}"}, calendar(t, seqd.ResetNever, "America/New_York"), 0, func() time.Time { return clock }))(t)
	for _, start := range []time.Time{time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)} {
		for i := range 24 * 4 {
			clock = start.Add(time.Duration(i) * 15 * time.Minute)
			id := show(t, p, 0, 5)
			if _, err := p.Read(t.Context(), id, seqd.Counter{}); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	must.Code(t, must.Err(p.Read(t.Context(), "20260308T0230-5", seqd.Counter{})), seqd.CodeInvalidID, "a time that New York left out gives")
}
