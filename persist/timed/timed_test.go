package timed_test

import (
	"maps"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/persist/timed"
)

func TestConformance(t *testing.T) {
	persisttest.Run(t, func(_ *testing.T, now func() time.Time) persist.Store {
		return timed.Store(memory.New(now), func(string, time.Duration) {})
	})
}

// Operations are measured under their names, also those that fail.
func TestOperations(t *testing.T) {
	seen := map[string]int{}
	s := timed.Store(memory.New(time.Now), func(operation string, took time.Duration) {
		if took < 0 {
			t.Errorf("%s took %s", operation, took)
		}
		seen[operation]++
	})
	_, err := s.Counters().Read(t.Context(), "none")
	must.Is(t, err, persist.ErrNotFound)
	_ = must.Get(s.Documents().List(t.Context(), "kind", "", 1))(t)
	_ = must.Get(s.Now(t.Context()))(t)
	if want := map[string]int{"counters.read": 1, "documents.list": 1, "clock.now": 1}; !maps.Equal(seen, want) {
		t.Errorf("measured %v, want %v", seen, want)
	}
}
