package storeclock

import (
	"context"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// slow is a store whose answers are long on their way.
type slow struct {
	now      func() time.Time
	elapse   func(time.Duration)
	way, ret time.Duration
}

func (s slow) Now(context.Context) (time.Time, error) {
	s.elapse(s.way)
	defer s.elapse(s.ret)
	return s.now(), nil
}

// However long an answer was on its way, nothing looks due before it is, and the bound is no earlier than
// the store's clock.
func TestNeverAhead(t *testing.T) {
	began := time.UnixMilli(1_800_000_000_000)
	for _, ways := range [][2]time.Duration{{0, 0}, {time.Second, 0}, {0, time.Second}, {time.Second, time.Second}} {
		passed := time.Duration(0)
		now := func() time.Time { return began.Add(passed) }
		s := slow{now, func(d time.Duration) { passed += d }, ways[0], ways[1]}
		c := New(s, now, func() time.Duration { return passed })
		for range 3 {
			must.Do(t, c.Ask(t.Context()))
			passed += 10 * time.Second
			told := must.Get(c.Times(t.Context()))(t)
			if behind := now().UnixMilli() - told.Store; behind < 0 || behind > ways[1].Milliseconds() {
				t.Errorf("answers take %v: %d ms behind", ways, behind)
			}
			both := (ways[0] + ways[1]).Milliseconds()
			if ahead := told.Bound - now().UnixMilli(); ahead < 0 || ahead > both+3 {
				t.Errorf("answers take %v: the bound is %d ms ahead", ways, ahead)
			}
		}
	}
}
