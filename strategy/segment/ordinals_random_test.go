package segment

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// TestOrdinalCursor takes from a cursor with many increments in turn, at random: what is taken is
// never taken again, has the right remainder, is as much as was wanted while there is enough, and
// the ceil in Redis is never above what was installed.
func TestOrdinalCursor(t *testing.T) {
	for seed := range uint64(longtest.Or(200, 20_000)) {
		random := rand.New(rand.NewPCG(seed, 9))
		redis, increments := &redisModel{}, []int64{1 + random.Int64N(5), 1 + random.Int64N(70)}
		if seed%2 == 0 {
			increments = increments[:1] // no change by force
		}
		store, seen := int64(0), make(map[int64]bool)
		gen, hand := "", int64(0)
		allocations, forgotten := make([]allocated, 2), false
		for step := range 200 {
			k := step * len(increments) / 200
			p := (&Settings{Increment: increments[k], Offset: int64(seed) % increments[k]}).ordinals()
			c := ordinalCursor{redis, p, &allocations[k]}
			if gen != "" && random.IntN(3) == 0 {
				size := 1 + random.Int64N(20)
				from := store + 1
				r := p.rangeOf(persist.Range{First: from, Last: store + p.numbers(size)})
				store += p.numbers(size)
				if random.IntN(10) > 0 { // else it was forgotten
					allocations[k].add(allocatedRange{r, from, store - p.number(r.Last)})
				} else {
					forgotten = true
				}
				in := rediscursor.Install{Mode: rediscursor.Append, Gen: gen, Epoch: "e", Range: r, Reserve: 3}
				if redis.hash == nil || redis.hash.epoch == "" {
					in.Mode = rediscursor.Seed
				}
				answer, err := c.Install(t.Context(), in)
				if err != nil || answer.Verdict == rediscursor.Moved {
					t.Fatal(answer, err)
				}
				if answer.Verdict == rediscursor.Installed {
					gen, hand = answer.Gen, hand+size
				}
				if redis.hash.ceil > store {
					t.Fatalf("the ceil %d is above %d in the store", redis.hash.ceil, store)
				}
				if random.IntN(10) == 0 {
					store += random.Int64N(9) // somebody raised it
				}
				continue
			}
			want := random.Int64N(12)
			taken := must.Get(c.Take(t.Context(), rediscursor.Take{Count: want, Threshold: 0.2, Reserve: 3, UseReserve: true, Epoch: "e"}))(t)
			if taken.Gen != "" {
				gen = taken.Gen
			}
			var got int64
			for _, r := range taken.Runs {
				got += r.Size()
				for ordinal := r.First; ordinal <= r.Last; ordinal++ {
					n := p.number(ordinal)
					if seen[n] || n > store || ordinal > taken.Ceil {
						t.Fatalf("seed %d: %d is taken again, or above %d or %d", seed, n, store, p.number(taken.Ceil))
					}
					seen[n] = true
				}
			}
			if got > want {
				t.Fatalf("%d instead of %d", got, want)
			}
			if len(increments) == 1 && !forgotten {
				if got != min(want, hand) {
					t.Fatalf("seed %d: %d of %d, %d are there", seed, got, want, hand)
				}
				hand -= got
				if (want == 0 || got < want) && taken.Epoch != "" && !taken.Stub && taken.Hand != hand {
					t.Fatalf("seed %d: %d in hand, want %d", seed, taken.Hand, hand)
				}
			}
		}
	}
}

// TestOrdinalCounters runs operations at random on a counter in ordinals and on its model: how many
// ordinals were given away.
func TestOrdinalCounters(t *testing.T) {
	for seed := range uint64(longtest.Or(300, 20_000)) {
		random := rand.New(rand.NewPCG(seed, 18))
		increment := 1 + random.Int64N(9)
		settings := Settings{Increment: increment, Offset: random.Int64N(increment)}
		p, raw := settings.ordinals(), memory.New(time.Now)
		counters := ordinalStore{raw, p, &allocated{}}.Counters()
		model := random.Int64N(3) * random.Int64N(50) // the highest ordinal that is gone
		// what is given back is from first on, and nobody has raised the counter since
		first, raised := int64(1), false
		must.Do(t, counters.Create(t.Context(), persist.Counter{BizTag: "order", Max: model, Step: 7}))
		if c, err := raw.Counters().Read(t.Context(), "order"); err != nil || c.Max != p.number(model+1)-1 {
			t.Fatalf("%d mod %d: ordinal %d is gone at %d, %v", settings.Offset, increment, model, c.Max, err)
		}
		for range 60 {
			switch random.IntN(5) {
			case 0: // somebody raises it, by number
				c, _ := raw.Counters().Read(t.Context(), "order")
				to := c.Max + random.Int64N(2*increment)
				must.Get(raw.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Floor: to, To: persist.Beside}))(t)
				model, raised = p.upTo(to), raised || to > c.Max
			case 1:
				r := persist.Range{First: max(1, model-random.Int64N(4)), Last: model - random.Int64N(2)}
				given, err := counters.GiveBack(t.Context(), "order", r)
				if r.Validate() != nil {
					continue
				}
				if err != nil || given != (r.Last == model && !raised && r.First >= first) {
					t.Fatalf("seed %d: %+v is given back to %d: %v, %v", seed, r, model, given, err)
				}
				if given {
					model = r.First - 1
				}
			default:
				req := persist.Request{BizTag: "order", Size: random.Int64N(9), To: persist.Beside}
				base := model
				if random.IntN(3) == 0 {
					req.Floor, req.Gap = max(0, model+random.Int64N(9)-4), random.Int64N(5)
					if base < req.Floor {
						base = req.Floor + req.Gap
					}
				}
				c, _ := counters.Read(t.Context(), "order")
				if c.Max != model || p.begins(c, req) != base {
					t.Fatalf("seed %d: the counter is at %d, want %d; it begins at %d, want %d", seed, c.Max, model, p.begins(c, req), base)
				}
				r, err := counters.Allocate(t.Context(), req)
				if err != nil || r != (persist.Range{First: base + 1, Last: base + req.Size}) {
					t.Fatalf("seed %d: %+v brings %+v, %v above %d", seed, req, r, err, base)
				}
				if req.Size > 0 {
					if raised || base > model {
						first = base + 1
					}
					raised = false
				} else if base > model {
					raised = true
				}
				model = base + req.Size
			}
		}
	}
}

// Near the end of all numbers, nodes with any increments take what is left and give it back: no
// number is taken twice, and the last one of an increment is issued.
func TestOrdinalsAtTheEnd(t *testing.T) {
	for seed := range uint64(longtest.Or(2000, 50_000)) {
		random := rand.New(rand.NewPCG(seed, 2))
		store := memory.New(time.Now)
		ctx, taken := t.Context(), make(map[int64]bool)
		must.Do(t, store.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 1, Max: seqd.MaxNumber - random.Int64N(60)}))
		nodes := make([]ordinalCounters, 2)
		for i := range nodes {
			increment := 2 + random.Int64N(6)
			nodes[i] = ordinalCounters{store.Counters(), (&Settings{Increment: increment, Offset: random.Int64N(increment)}).ordinals(), &allocated{}}
		}
		for range 40 {
			c := nodes[random.IntN(len(nodes))]
			before := must.Get(c.Read(ctx, "order"))(t)
			left := c.ordinals.last() - before.Max
			size := 1 + random.Int64N(5)
			r, err := c.Allocate(ctx, persist.Request{BizTag: "order", Size: size})
			if exhausted := errors.Is(err, persist.ErrExhausted); exhausted != (left < size) || err == nil && r.Size() != size {
				t.Fatalf("seed %d: %d of %d ordinals are %+v, %v", seed, size, left, r, err)
			}
			if err != nil {
				continue
			}
			back := persist.Range{First: r.First + random.Int64N(size), Last: r.Last}
			given, err := false, error(nil)
			if random.IntN(2) == 0 {
				given, err = c.GiveBack(ctx, "order", back)
			}
			must.Do(t, err)
			for ordinal := r.First; ordinal <= r.Last && !(given && ordinal >= back.First); ordinal++ {
				n := c.ordinals.number(ordinal)
				if taken[n] || n > seqd.MaxNumber {
					t.Fatalf("seed %d: %d is taken again", seed, n)
				}
				taken[n] = true
			}
		}
	}
}
