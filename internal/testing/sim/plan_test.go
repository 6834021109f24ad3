package sim

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// Of one seed the plan is always the same, two faults that use the same part never overlap, and every
// kind that a world can have occurs in one of some plans: none is too long, or collides with itself.
func TestPlan(t *testing.T) {
	for _, mode := range []storesim.Mode{storesim.Unfenced, storesim.Lossy, storesim.Lossless} {
		for _, redis := range []bool{false, true} {
			seen := make(map[string]bool)
			for seed := range uint64(100) {
				o := Options{Seed: seed, Length: 10 * time.Minute, Mode: mode, Redis: redis}
				plan := newPlan(o)
				if !reflect.DeepEqual(plan, newPlan(o)) {
					t.Fatalf("%v: two plans", o)
				}
				for i, p := range plan {
					seen[p.kind.name] = true
					for _, other := range plan[:i] {
						if shared := p.at < other.ends() && slices.ContainsFunc(p.locks(), func(lock string) bool { return slices.Contains(other.locks(), lock) }); shared {
							t.Errorf("%v: %v overlaps %v", o, p, other)
						}
					}
				}
			}
			for _, k := range kindsOf(Options{Mode: mode, Redis: redis}) {
				if !seen[k.name] {
					t.Errorf("%v: %s is in no plan", Options{Mode: mode, Redis: redis}, k.name)
				}
			}
		}
	}
}
