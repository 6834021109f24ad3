package counters

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// A period ends when the next one begins, also where clocks change at midnight.
func TestPeriodEnds(t *testing.T) {
	for _, test := range []struct {
		reset seqd.Reset
		zone  string
		p     seqd.Period
		want  string
	}{
		{seqd.ResetYearly, "UTC", 20260000, "2027-01-01T00:00:00Z"},
		{seqd.ResetMonthly, "Asia/Shanghai", 20261200, "2027-01-01T00:00:00+08:00"},
		{seqd.ResetDaily, "UTC", 20261231, "2027-01-01T00:00:00Z"},
		{seqd.ResetDaily, "America/Santiago", 20260905, "2026-09-06T01:00:00-03:00"}, // no midnight
	} {
		c := &Calendar{Calendar: seqd.Calendar{Reset: test.reset, Zone: must.Get(time.LoadLocation(test.zone))(t)}}
		want := must.Get(time.Parse(time.RFC3339, test.want))(t)
		if got := time.UnixMilli(c.Ends(test.p)); !got.Equal(want) {
			t.Errorf("%s in %s ends at %s, want %s", test.p, test.zone, got, want)
		}
		must.Equal(t, c.Before(c.Now(want)), test.p, "what comes before %s", c.Now(want))
		must.Equal(t, c.Ends(0), 0, "the end of what never resets")
		// What is remembered holds from the first look until the end, also if the clock is set back.
		half := want.Add(-12 * time.Hour)
		for _, now := range []time.Time{half, want.Add(-1), want, half, want.Add(-1), half.Add(-1)} {
			span := c.Present(now)
			left := want
			if !now.Before(want) {
				left = time.UnixMilli(c.Ends(c.Now(want)))
			}
			if span.Period != c.Now(now) || span.Left(now) != left.Sub(now) || span.Holds(half.UnixMilli()) == (span.Period != test.p) {
				t.Errorf("at %s it is %+v", now, span)
			}
		}
	}
}

// In every zone, at every change of its clocks, periods follow each other, also if a day never was,
// or comes twice, or midnight does.
func TestPeriodsOfEveryZone(t *testing.T) {
	root := must.Get(exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output())(t) // unknown in builds with -trimpath
	names := must.Get(zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib", "time", "zoneinfo.zip")))(t)
	defer func() { _ = names.Close() }()
	resets := []seqd.Reset{seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly}
	seen := make(map[[3]int64]bool) // zones with other names have the same changes
	for _, f := range names.File {
		zone, err := time.LoadLocation(f.Name)
		if err != nil || strings.HasSuffix(f.Name, "/") {
			continue // a folder
		}
		c := &Calendar{Calendar: seqd.Calendar{Zone: zone}}
		for at := time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC); at.Year() < 2040; {
			_, change := at.In(zone).ZoneBounds()
			if change.IsZero() {
				break
			}
			if !change.After(at) { // package time takes the end of some years for a change
				at = at.Add(24 * time.Hour)
				continue
			}
			at = change
			_, before := at.Add(-1).Zone()
			_, after := at.Zone()
			key := [3]int64{at.Unix(), int64(before), int64(after)}
			if seen[key] {
				continue
			}
			seen[key] = true
			for _, c.Reset = range resets {
				var last seqd.Period
				for near := at.Add(-26 * time.Hour); near.Before(at.Add(26 * time.Hour)); near = near.Add(29 * time.Minute) {
					p := c.Now(near)
					if p == last {
						continue
					}
					end := time.UnixMilli(c.Ends(p))
					if p < last || c.Now(end) <= p || c.Now(end.Add(-time.Millisecond)) > p {
						t.Fatalf("%s: at %s it is %s, which ends at %s; before it was %s", zone, near, p, end.In(zone), last)
					}
					last = p
				}
			}
		}
	}
	if len(seen) < 1000 {
		t.Errorf("%d changes of clocks: there are more", len(seen))
	}
}
