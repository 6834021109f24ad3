package segment

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

func newShared(t testing.TB, store persist.Store, redis *redisModel, change func(*Settings)) (*Shared, *observer) {
	t.Helper()
	settings := DefaultSettings()
	if change != nil {
		change(&settings)
	}
	if problems := settings.Validate(); problems != nil {
		t.Fatal(problems)
	}
	o := &observer{}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
	s, err := NewShared(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, redis)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return s, o
}

// numbers asks for n numbers, which must come.
func numbers(t testing.TB, s seqd.Strategy, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	if err := s.Generate(t.Context(), n, &seq); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(seq.Numbers())
}

func TestSharedNodesCountTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		small := func(s *Settings) { s.Start, s.Step, s.MaxStep = 100, 10, 10 }
		a, _ := newShared(t, store, redis, small)
		b, _ := newShared(t, store, redis, small)
		var last int64 = 99
		for i := range 50 {
			for _, s := range []*Shared{a, b} {
				for _, n := range numbers(t, s, 1+i%3) {
					if n <= last {
						t.Fatalf("%d came after %d", n, last)
					}
					last = n
				}
			}
			synctest.Wait()
		}
		if err := a.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
