package seqd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

func TestResets(t *testing.T) {
	for _, r := range []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
		if !r.Valid() {
			t.Errorf("%s is not valid", r)
		}
	}
	for _, r := range []seqd.Reset{"", "hourly", "Daily"} {
		if r.Valid() {
			t.Errorf("%q is valid", r)
		}
	}
	for p, fits := range map[seqd.Period]seqd.Reset{0: seqd.ResetNever, 20260000: seqd.ResetYearly, 20261100: seqd.ResetMonthly, 20261120: seqd.ResetDaily} {
		for _, r := range []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
			must.Equal(t, r.Fits(p), r == fits, "%s is a period of %s", p, r)
		}
	}
	if p, ok := seqd.ResetNever.Parse("2026"); ok || p != 0 {
		t.Errorf("%s was read although there are no periods", p)
	}
}

// TestYearsOfDates checks the bounds of the years in which numbers have dates.
func TestYearsOfDates(t *testing.T) {
	for year, want := range map[int]seqd.Code{1999: seqd.CodeClockRollback, 2000: "", 2099: "", 2100: seqd.CodeClockRollback} {
		at := time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		must.Code(t, seqd.CheckDate(at), want)
		err := seqd.ResetDaily.Of(at).Check()
		must.Code(t, err, want)
		if err != nil && !strings.Contains(err.Error(), at.Format(time.DateOnly)) {
			t.Errorf("the error %v does not name the date", err)
		}
	}
	must.Code(t, seqd.Period(0).Check(), "")
}

// TestCalendar checks that periods are those of the zone, and that later ones are larger.
func TestCalendar(t *testing.T) {
	east := time.FixedZone("east", 9*3600)
	at := time.Date(2026, 12, 31, 15, 0, 0, 0, time.UTC) // midnight in the east
	var last seqd.Period
	for _, test := range []struct {
		at   time.Time
		want seqd.Period
	}{{at.Add(-time.Second), 20261231}, {at, 20270101}, {at.AddDate(0, 1, 0), 20270201}} {
		p := seqd.Calendar{Reset: seqd.ResetDaily, Zone: east}.Now(test.at)
		if p != test.want || p <= last {
			t.Errorf("at %s it is %d, want %d", test.at, p, test.want)
		}
		last = p
	}
	// A night when clocks were set back to the day before, a minute after midnight.
	canada := seqd.Calendar{Reset: seqd.ResetDaily, Zone: must.Get(time.LoadLocation("America/St_Johns"))(t)}
	for at, want := range map[string]seqd.Period{"2010-11-07T02:29:00Z": 20101106, "2010-11-07T02:30:30Z": 20101107, "2010-11-07T03:00:00Z": 20101107, "2010-12-01T12:00:00Z": 20101201} {
		must.Equal(t, canada.Now(must.Get(time.Parse(time.RFC3339, at))(t)), want, "at %s it", at)
	}
	must.Equal(t, (seqd.Calendar{Reset: seqd.ResetNever}).Now(at), 0, "the numbers never reset, and it")
	for p, want := range map[seqd.Period]string{20260203: "2026-02-03", 20260200: "2026-02-01", 20260000: "2026-01-01"} {
		if got := p.Date(); got.Format(time.DateOnly) != want || got.Hour() != 12 || got.Location() != time.UTC {
			t.Errorf("the date of %s is %s", p, got)
		}
	}
}
