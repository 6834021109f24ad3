package segment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// At the end of all numbers GenerateSome returns those that are left, and nothing counts as
// skipped.
func TestSomeAtTheEndOfAllNumbers(t *testing.T) {
	eachShape(t, func(t *testing.T, _ *world, node func(change func(*Settings)) (allKinds, *observer)) {
		s, o := node(func(s *Settings) { small(s); s.Start = seqd.MaxNumber - 9 })
		var seq seqd.Sequence
		must.Code(t, s.GenerateSome(t.Context(), 64, &seq), seqd.CodeExhausted)
		if got := slices.Collect(seq.Numbers()); len(got) != 10 || got[9] != seqd.MaxNumber {
			t.Errorf("got %v", got)
		}
		if o.numbers(seqd.EventAbandoned) > 0 {
			t.Errorf("events %v", o.counts)
		}
		seq.Reset()
		must.Code(t, s.GenerateSome(t.Context(), 1, &seq), seqd.CodeExhausted)
		end(t, s)
	})
}

// A run is found in what is left, although the larger take that looks for it fails.
func TestConsecutiveAtTheEndOfAllNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		const first = seqd.MaxNumber - 49
		s, o := newStrategy(t, store, func(s *Settings) { small(s); s.Start = first })
		start(t, s, true)
		_ = numbers(t, s, 2) // now 20 numbers have left the store
		synctest.Wait()
		if r := rangeOf(t, s, 1); r.First != first+20 {
			t.Fatalf("got %v", r)
		}
		got, err := consecutive.get(t.Context(), t, s, 20)
		if err != nil || got[0] <= first+20 {
			t.Errorf("got %v, %v", got, err)
		}
		must.Code(t, must.Err(consecutive.get(t.Context(), t, s, 20)), seqd.CodeExhausted)
		end(t, s)
		must.Equal(t, o.numbers(seqd.EventAbandoned), 50-2-1-20, "the numbers of 50 skipped")
	})
}

func TestCountsOfKindsAreChecked(t *testing.T) {
	eachShape(t, func(t *testing.T, _ *world, node func(change func(*Settings)) (allKinds, *observer)) {
		s, _ := node(small)
		for _, n := range []int{0, -1, seqd.MaxCount + 1} {
			for k := whole; k < ranged; k++ {
				must.Code(t, must.Err(k.get(t.Context(), t, s, n)), seqd.CodeInvalidCount, "kind %d of %d", k, n)
			}
		}
		must.Report(t, must.Err(consecutive.get(t.Context(), t, s, seqd.MaxCount)))
		end(t, s)
	})
}

// crowded is a store in which others take a range before each Allocate, so that no two ranges are
// next to each other.
type crowded struct{ *hookedStore }

func newCrowded() crowded {
	c := crowded{newHooked()}
	c.change(func(h *hookedStore) {
		h.before = func(op string) error {
			if op == "allocate" {
				_, _ = h.Store.Counters().Allocate(context.Background(), persist.Request{BizTag: "order", Size: 1, To: persist.Beside})
			}
			return nil
		}
	})
	return c
}

// However small the step, and although ranges are never next to each other, consecutive numbers are
// found in a few takes. All numbers are in order and accounted for.
func TestConsecutiveAmongOthers(t *testing.T) {
	for _, step := range []int64{1, 3, 10} {
		for name, make := range shapes {
			t.Run(fmt.Sprint(name, " ", step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, o := make(t, &world{store: newCrowded(), redis: &redisModel{}}, func(s *Settings) {
						s.Step, s.MaxStep, s.ReserveSegments = step, step, 100
					})
					random := rand.New(rand.NewPCG(uint64(step), 1))
					var last int64
					asked := 0
					for range 50 {
						n := 1 + random.IntN(200)
						kind := kind(2 * random.IntN(2)) // whole or consecutive
						got := must.Get(kind.get(t.Context(), t, s, n))(t)
						if got[0] <= last {
							t.Fatalf("%d after %d", got[0], last)
						}
						asked, last = asked+n, got[n-1]
					}
					synctest.Wait()
					if skipped := o.numbers(seqd.EventAbandoned); skipped > int64(10*asked) {
						t.Errorf("%d numbers were skipped for %d", skipped, asked)
					}
					end(t, s)
				})
			})
		}
	}
}

// If runs are too short whatever is asked for, the caller is refused, and all numbers are reported.
func TestNoRunIsFound(t *testing.T) {
	s := &shortRuns{}
	var seq seqd.Sequence
	must.Code(t, generateConsecutive(t.Context(), 4, &seq, s), seqd.CodeOverloaded)
	if seq.Len() > 0 || s.taken == 0 || s.lost != s.taken {
		t.Errorf("%d of %d numbers were skipped, %d returned", s.lost, s.taken, seq.Len())
	}
}

// shortRuns has no two numbers that follow each other.
type shortRuns struct{ taken, lost int64 }

func (s *shortRuns) some(_ context.Context, n int, seq *seqd.Sequence) error {
	for range n {
		s.taken++
		seq.Add(2*s.taken, 1, 1)
	}
	return nil
}

func (s *shortRuns) skipped(n int64, _ error) { s.lost += n }

// Consecutive numbers of a day are of that day.
func TestConsecutiveNumbersOfADay(t *testing.T) {
	c := clockAt("2026-11-23T23:59:00Z")
	store := memory.New(c.Now)
	s := periodic(t, store, c.Now, nil, daily)
	for range 4 {
		var seq seqd.Sequence
		must.Do(t, s.Generate(t.Context(), 1, &seq))
		// the run is broken
		broken := persist.Request{BizTag: seq.Period().Counter("order"), Size: 1, To: persist.Beside}
		must.Get(store.Counters().Allocate(t.Context(), broken))(t)
		seq.Reset()
		if err := s.GenerateConsecutive(t.Context(), 25, &seq); err != nil || !seq.Consecutive() {
			t.Fatal(seq.Runs(), err)
		}
		must.Equal(t, seq.Period(), s.Calendar.Now(c.Now()), "the period")
		c.turn(30 * time.Second)
	}
	closed(t, s)
}

// No kind of numbers allocates on the way.
func TestKindsDoNotAllocate(t *testing.T) {
	s, _ := newStrategy(t, memory.New(time.Now), func(s *Settings) { s.Step = s.MaxStep })
	start(t, s, true)
	generate(t, s, 1)
	var seq seqd.Sequence
	for name, take := range map[string]func(context.Context, int, *seqd.Sequence) error{
		"whole": s.Generate, "some": s.GenerateSome, "consecutive": s.GenerateConsecutive,
	} {
		if n := must.Allocs(100, func() {
			seq.Reset()
			must.Report(t, take(t.Context(), 64, &seq))
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
