package segment

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Many callers of several nodes mix calls, pipelines, consecutive numbers and ranges: no number
// twice, all but ranges in order over all nodes and within a pipeline, and every number that left
// the store was issued, abandoned or given back.
func TestRandomPipelines(t *testing.T) {
	stores := map[string]struct {
		open   func(t *testing.T) persist.Store
		rounds int
	}{
		"memory": {func(*testing.T) persist.Store { return memory.New(time.Now) }, longtest.Or(60, 2000)},
		"bolt":   {func(t *testing.T) persist.Store { return newBolt(t) }, longtest.Or(4, 200)}, // it syncs
	}
	for of, store := range stores {
		for shape := range shapes {
			t.Run(shape+" on "+of, func(t *testing.T) {
				nodes := 3
				if shape == "alone" {
					nodes = 1 // buffers of their own are in order on one node
				}
				w := &world{store: store.open(t), redis: &redisModel{}}
				randomPipelines(t, w, shape, nodes, store.rounds)
			})
		}
	}
}

func randomPipelines(t *testing.T, w *world, shape string, nodes, rounds int) {
	h := newBoth()
	var observed []*observer
	var issuers []*seqd.Issuer
	var issued atomic.Int64
	for range nodes {
		s, o := shapes[shape](t, w, func(s *Settings) { s.Step, s.MaxStep, s.AcquireTimeout = 20, 200, time.Minute })
		d := seqd.Definition{BizType: seqd.BizType{Name: "order", Strategy: Name}, Strategy: s}
		is, err := seqd.NewIssuer([]seqd.Definition{d}, seqd.Options{Log: slog.New(slog.DiscardHandler), Observer: o})
		if err != nil {
			t.Fatal(err)
		}
		issuers, observed = append(issuers, is), append(observed, o)
	}
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 5))
			calls, errs := make([]*seqd.Call, 70), make([]error, 70)
			for k := range calls {
				calls[k] = &seqd.Call{BizType: "order"}
			}
			for range rounds {
				n := 1 + random.IntN(random.IntN(len(calls))+1)
				for _, call := range calls[:n] {
					call.Count, call.Want = 1, seqd.AnyNumbers
					switch random.IntN(20) {
					case 0:
						call.Count = 1 + random.IntN(60)
					case 1, 2:
						call.Count, call.Want = 1+random.IntN(30), seqd.Consecutive
					case 3:
						call.Count, call.Want = random.IntN(300), seqd.OneRange
					}
				}
				is, began := issuers[random.IntN(nodes)], h.ordered.Now()
				is.IssueAll(t.Context(), calls[:n], errs[:n])
				var got []int64
				for k, call := range calls[:n] {
					if errs[k] != nil {
						t.Error(errs[k])
					}
					numbers := slices.Collect(call.Sequence.Numbers())
					issued.Add(int64(len(numbers)))
					if call.Want != seqd.AnyNumbers && !call.Sequence.Consecutive() {
						t.Errorf("kind %d: %v", call.Want, call.Sequence.Runs())
					}
					if call.Want == seqd.OneRange {
						h.ranges.Add(began, fmt.Sprint(caller), numbers)
						continue
					}
					got = append(got, numbers...)
				}
				h.ordered.AddCall(ordercheck.Call{Start: began, End: h.ordered.Now(), Who: fmt.Sprint(caller), Numbers: got})
			}
		})
	}
	wg.Wait()
	for _, is := range issuers {
		must.Report(t, is.Close(t.Context()))
	}
	must.Report(t, h.duplicates())
	must.Report(t, h.ordered.Order())
	var refilled, gone int64
	for _, o := range observed {
		refilled += o.numbers(seqd.EventRefilled)
		gone += o.numbers(seqd.EventAbandoned) + o.numbers(seqd.EventGivenBack)
	}
	if sum := issued.Load() + gone + w.redis.left(); refilled != sum {
		t.Errorf("%d were fetched, but %d issued, abandoned, given back or in the cursor", refilled, sum)
	}
}
