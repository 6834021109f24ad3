package counters

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// Every setting is checked, and the defaults are good.
func TestSettings(t *testing.T) {
	must.Equal(t, (&Settings{TimeZone: "nowhere"}).Traits().Calendar.Zone, time.UTC, "the zone of wrong settings")
	for key, test := range map[string]struct {
		least, most int64
		set         func(s *Settings, n int64)
	}{
		"maxKeys":           {1, 1e9, func(s *Settings, n int64) { s.MaxKeys = n }},
		"newKeysPerCaller":  {0, 1e9, func(s *Settings, n int64) { s.NewKeysPerCaller = n }},
		"liveKeys":          {1, 1e6, func(s *Settings, n int64) { s.LiveKeys = int(n) }},
		"liveKeysPerCaller": {0, 1e6, func(s *Settings, n int64) { s.LiveKeysPerCaller = int(n) }},
		"acquireTimeout":    {int64(10 * time.Millisecond), int64(time.Minute), func(s *Settings, n int64) { s.AcquireTimeout = time.Duration(n) }},
		"reset":             {0, 0, func(s *Settings, n int64) { s.Reset = []seqd.Reset{"x", "daily", ""}[n+1] }},
		"timeZone":          {0, 0, func(s *Settings, n int64) { s.TimeZone = []string{"Local", "Asia/Aden", ""}[n+1] }},
	} {
		for n, good := range map[int64]bool{test.least - 1: false, test.least: true, test.most: true, test.most + 1: false} {
			s := DefaultSettings()
			test.set(&s, n)
			if got := s.Validate(); good != (got == nil) || !good && (len(got) != 1 || got[0].Key != key || got[0].Text == "") {
				t.Errorf("%s %d: problems %v", key, n, got)
			}
		}
	}
}
