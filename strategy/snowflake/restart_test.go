package snowflake

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// far is a registry whose operations take a while.
type far struct{ *registry }

func (f *far) Slots() persist.SlotStore { return f }

func (f *far) Look(ctx context.Context, name string, ids ...int64) (persist.SlotTable, error) {
	time.Sleep(5 * time.Millisecond)
	return f.registry.Look(ctx, name, ids...)
}

func (f *far) Swap(ctx context.Context, name string, swap persist.SlotSwap) (bool, error) {
	time.Sleep(5 * time.Millisecond)
	return f.registry.Swap(ctx, name, swap)
}

// A node of an embedded store, whose registry has the clock of the node, was stopped or killed, and
// starts again with another clock. It issues nothing until the clock has passed what was used.
func TestRestartWithAnotherClock(t *testing.T) {
	turns := []struct{ before, after time.Duration }{
		{0, -time.Millisecond}, {0, -2 * time.Second}, {0, -time.Hour}, {time.Hour, 0},
	}
	for how, end := range map[string]func(*Strategy){"stopped": func(s *Strategy) { _ = s.Close(context.Background()) }, "killed": crash} {
		for _, fixed := range []string{"5", ""} {
			for _, turn := range turns {
				t.Run(strings.Join([]string{how, fixed, turn.before.String(), turn.after.String()}, ", "), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { restartsWithAnotherClock(t, end, fixed, turn.before, turn.after) })
				})
			}
		}
	}
}

func restartsWithAnotherClock(t *testing.T, end func(*Strategy), fixed string, before, after time.Duration) {
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	offset.Store(int64(before))
	store, dir := memory.New(now), t.TempDir()
	start := func() *Strategy {
		s := instanceWith(t, store, now, "1", func(s *Settings) {
			s.StateDir, s.BitsMachine = dir, 4
			if fixed != "" {
				s.MachineID = Plain(fixed)
			}
		})
		_ = s.Init(t.Context(), true)
		return s
	}
	s := start()
	time.Sleep(3 * time.Second)
	used := make(map[int64]bool)
	for range 100 {
		used[one(t, s)] = true
	}
	highest := one(t, s)
	end(s)
	offset.Store(int64(after))
	s = start()
	closes(t, s)
	if n, err := try(s); fixed != "" && after < before-time.Second && err == nil {
		t.Errorf("it issues %d after %d", n, highest)
	}
	offset.Store(int64(before))
	time.Sleep(15 * time.Second) // the lease of the process that was killed has ended
	for range 100 {
		n := one(t, s)
		if used[n] || fixed != "" && n <= highest {
			t.Errorf("it issued %d after %d", n, highest)
		}
	}
}
