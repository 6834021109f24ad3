package segment

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
)

func from(start int64) func(*Settings) { return func(s *Settings) { s.Start = start } }

// A start that was raised is what comes next, at once, and numbers above it that the cursor has in
// hand are not lost.
func TestSharedStartIsRaised(t *testing.T) {
	tests := []struct {
		name         string
		first, later func(*Settings)
		want         []int64
		skipped      int64
		advanced     int
	}{
		{"into buffer 1", from(1), from(100), []int64{100, 101, 102}, 94, 0},
		{"to the next number", from(1), from(7), []int64{7, 8, 9}, 1, 0},
		{"below it", from(1), from(6), []int64{6, 7, 8}, 0, 0},
		{"below what was issued", from(1), from(3), []int64{6, 7, 8}, 0, 0},
		{"to where it was", from(100), from(100), []int64{105, 106, 107}, 0, 0},
		{"above all that was allocated", from(1), from(1_000_000), []int64{1_000_000, 1_000_001, 1_000_002}, 0, 1},
		{"into buffer 2", small, func(s *Settings) { small(s); s.Start = 15 }, []int64{15, 16, 17}, 0, 0},
		{"into the reserve", small, func(s *Settings) { small(s); s.Start = 25 }, []int64{25, 26, 27}, 0, 0},
		{"to the last number in hand", small, func(s *Settings) { small(s); s.Start = 30 }, nil, 0, 0},
		{"to the first number that is not", small, func(s *Settings) { small(s); s.Start = 41 }, nil, 0, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := memory.New(time.Now), &redisModel{}
				// Without ranges of the nodes' own, all numbers are in the cursor, without gaps.
				reject := func(change func(*Settings)) func(*Settings) {
					return func(s *Settings) { change(s); s.OnRedisDown = Reject }
				}
				old, _ := newShared(t, store, redis, reject(test.first))
				issued := numbers(t, old, 5)
				synctest.Wait()
				closeAll(t, old)
				s, o := newShared(t, store, redis, reject(test.later))
				var log bytes.Buffer
				s.env.Log = slog.New(slog.NewTextHandler(&log, nil))
				got := numbers(t, s, 1)
				got = append(got, numbers(t, s, 2)...)
				if test.want != nil && !slices.Equal(got, test.want) {
					t.Errorf("got %d, want %d", got, test.want)
				}
				if got[0] < s.settings.Start || got[0] <= issued[4] || got[0] > max(s.settings.Start, issued[4]+1) {
					t.Errorf("got %d after %d, with start %d", got, issued, s.settings.Start)
				}
				synctest.Wait()
				if o.count(seqd.EventGuard) != 0 || o.count(seqd.EventStoreBehind) != 0 {
					t.Errorf("false alarms: %v", o.counts)
				}
				if skipped := o.numbers(seqd.EventAbandoned); test.skipped > 0 && skipped+1 != test.skipped && skipped != test.skipped {
					t.Errorf("%d numbers were skipped, want %d", skipped, test.skipped)
				}
				if got := o.count(seqd.EventAdvanced); test.want != nil && got != test.advanced {
					t.Errorf("the cursor was moved up %d times, want %d", got, test.advanced)
				}
				lines := strings.Count(log.String(), "numbers in the cursor are skipped")
				if raised := s.settings.Start > issued[4]+1; raised && lines != 1 || !raised && lines != 0 {
					t.Errorf("the log says so %d times:\n%s", lines, log.String())
				}
				closeAll(t, s)
			})
		})
	}
}

// In a period that has begun, a raised start counts too.
func TestPeriodStartIsRaised(t *testing.T) {
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, c := memory.New(time.Now), clockAt("2026-11-20T12:00:00Z")
			var redis map[string]*redisModel
			if strict {
				redis = make(map[string]*redisModel)
			}
			s := periodic(t, store, c.Now, redis, daily)
			wantDated(t, s, 3, "2026-11-20[1 2 3]")
			synctest.Wait()
			closed(t, s)
			s = periodic(t, store, c.Now, redis, func(s *Settings) { daily(s); s.Start = 500 })
			wantDated(t, s, 3, "2026-11-20[500 501 502]")
			c.turn(24 * time.Hour)
			wantDated(t, s, 1, "2026-11-21[500]")
			synctest.Wait()
			closed(t, s)
		})
	}
}
