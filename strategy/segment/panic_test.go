package segment

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// The store's driver panics in every third operation, before or after it takes effect. Callers wait
// or get an error, and no number comes twice.
func TestDriverThatPanics(t *testing.T) {
	for _, ordering := range []string{PerNode, Strict} {
		for _, early := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				h := newHooked()
				strategies := make([]seqd.Strategy, 2)
				for i := range strategies {
					change := func(s *Settings) { s.Ordering, s.Step, s.MaxStep = ordering, 3, 3 }
					if ordering == PerNode {
						s, _ := newStrategy(t, persist.Guard(h), change)
						start(t, s, i == 0)
						strategies[i] = s
					} else {
						strategies[i], _ = newStored(t, persist.Guard(h), nil, change)
					}
				}
				var calls atomic.Int64
				bug := func(string) error {
					if calls.Add(1)%3 == 0 {
						panic("a bug")
					}
					return nil
				}
				h.change(func(h *hookedStore) {
					if h.after = bug; early {
						h.before, h.after = bug, nil
					}
				})
				given := make(map[int64]bool)
				for range 50 {
					for _, s := range strategies {
						var seq seqd.Sequence
						if s.Generate(t.Context(), 1, &seq) != nil {
							continue
						}
						for n := range seq.Numbers() {
							if given[n] {
								t.Errorf("%d was given twice", n)
							}
							given[n] = true
						}
					}
				}
				if len(given) < 50 {
					t.Errorf("%s: only %d numbers were given", ordering, len(given))
				}
				for _, s := range strategies {
					_ = s.Close(t.Context())
				}
			})
		}
	}
}
