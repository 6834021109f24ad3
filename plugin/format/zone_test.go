package format

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
)

// TestOffsetWithoutHour uses templates with an offset, and AM and PM for the time of day. They were
// once accepted although IDs issued on days with clock changes could not be read back, because only
// noon of each day was tried.
func TestOffsetWithoutHour(t *testing.T) {
	for _, layout := range []string{"20060102PM-0700", "20060102PMMST"} {
		var clock time.Time
		p, err := New(Settings{Template: "{date:" + layout + "}-{seq}"}, calendar(t, seqd.ResetNever, "America/New_York"), 0, func() time.Time { return clock })
		if err != nil {
			continue // refusing the layout is fine
		}
		for _, start := range []time.Time{time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 4, 0, 0, 0, time.UTC)} {
			for i := range 24 {
				clock = start.Add(time.Duration(i) * time.Hour)
				id := show(t, p, 0, 5)
				if _, err := p.Read(t.Context(), id, seqd.Counter{}); err != nil {
					t.Errorf("%s, issued at %s: %v", id, clock, err)
					break
				}
			}
		}
	}
}
