package segment

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

var (
	seeds   = flag.Int("segment.seeds", longtest.Or(1, 20), "how many seeds the test with random faults runs, each with onRedisDown degrade and reject")
	oneSeed = flag.Int("segment.seed", -1, "run only this seed, with its log")
)

// Nodes over one Redis and one store, all of which fail in every way that callers of theirs can
// meet, in a bubble of time: whole hours pass in a second. No number twice, ever; each life of a
// node in order; all nodes in order while nobody may issue on its own, and again when all faults
// are over.
func TestSharedRandomFaults(t *testing.T) {
	for _, mode := range []string{Degrade, Reject} {
		t.Run(mode, func(t *testing.T) {
			if *oneSeed >= 0 {
				runFaults(t, uint64(*oneSeed), mode)
				return
			}
			for seed := range *seeds {
				t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); runFaults(t, uint64(seed), mode) })
			}
		})
	}
}

// faults is the random world of one seed.
type faults struct {
	mu     sync.Mutex
	rng    *rand.Rand
	over   atomic.Bool // no more faults
	redis  *redisModel
	store  persist.Store
	away   atomic.Bool // the store
	events observer
}

func (f *faults) n(most int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(most)
}

// chance is true in one of n cases while faults last.
func (f *faults) chance(n int) bool { return !f.over.Load() && f.n(n) == 0 }

// call passes one call on, late, without its reply, or not at all. Each of that happens to one call
// in rarely.
func call[T any](f *faults, limit time.Duration, rarely int, gone func() bool, do func() (T, error)) (none T, err error) {
	time.Sleep(time.Duration(f.n(3000)) * time.Microsecond)
	switch {
	case gone():
		return none, errDown
	case f.chance(rarely):
		return none, errDown
	case f.chance(rarely): // the caller gives up, and the call happens sooner or later
		late := time.Duration(f.n(1<<f.n(13))) * time.Millisecond
		go func() { time.Sleep(late); _, _ = do() }()
		time.Sleep(limit)
		return none, context.DeadlineExceeded
	case f.chance(rarely):
		_, _ = do()
		return none, errFlaky
	}
	return do()
}

// quiet returns 0 while a node issues on its own, else a number that changes when one has done so.
func (f *faults) quiet(nodes []atomic.Pointer[nodeLife]) int {
	for i := range nodes {
		if nodes[i].Load().onItsOwn() {
			return 0
		}
	}
	return 1 + f.events.count(seqd.EventRedisAway)
}

// onItsOwn reports whether the order over the nodes is suspended because of this one.
func (n *nodeLife) onItsOwn() bool {
	reason := n.s.Degraded()
	return reason != nil && reason.Code == seqd.CodeRedisUnavailable
}

// checkOrder checks that calls which began and ended while nobody was on its own got larger numbers
// than everybody before them, those included that nodes had issued on their own, except nodes that
// ended without having come back.
func checkOrder(all, ordered *ordercheck.Record, lives []*nodeLife) error {
	lost := map[string]bool{}
	for _, n := range lives {
		lost[n.name] = n.onItsOwn()
	}
	var before []ordercheck.Call
	all.Each(func(c ordercheck.Call) {
		if !lost[c.Who] {
			before = append(before, c)
		}
	})
	slices.SortFunc(before, func(a, b ordercheck.Call) int { return cmp.Compare(a.End, b.End) })
	var calls []ordercheck.Call
	ordered.Each(func(c ordercheck.Call) { calls = append(calls, c) })
	slices.SortFunc(calls, func(a, b ordercheck.Call) int { return cmp.Compare(a.Start, b.Start) })
	var highest ordercheck.Call
	var top int64
	for _, c := range calls {
		for len(before) > 0 && before[0].End < c.Start {
			if last := slices.Max(before[0].Numbers); last > top {
				top, highest = last, before[0]
			}
			before = before[1:]
		}
		if c.Numbers[0] <= top {
			return fmt.Errorf("%v began after %v had ended", c, highest)
		}
	}
	return nil
}

// nodeLife is one life of a node.
type nodeLife struct {
	*faults
	name string
	s    *Shared
	dead atomic.Bool // crashed: whatever it still does reaches nobody
	cut  atomic.Bool // from Redis
	h    *ordercheck.Record
}

func (n *nodeLife) gone() bool { return n.dead.Load() || n.cut.Load() }

// Take implements cursor.
func (n *nodeLife) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	return call(n.faults, time.Second, 100, n.gone, func() (rediscursor.Taken, error) { return n.redis.Take(ctx, t) })
}

// Install implements cursor.
func (n *nodeLife) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	return call(n.faults, time.Second, 10, n.gone, func() (rediscursor.Answer, error) { return n.redis.Install(ctx, in) })
}

// storeOf is the store as one node sees it.
type storeOf struct {
	persist.Store
	node *nodeLife
}

func (s storeOf) Counters() persist.Counters { return countersOf{s.Store.Counters(), s.node} }

type countersOf struct {
	persist.Counters
	node *nodeLife
}

func (c countersOf) gone() bool { return c.node.dead.Load() || c.node.away.Load() }

func (c countersOf) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	ctx = context.WithoutCancel(ctx) // it may happen after its caller gave up
	return call(c.node.faults, 2*time.Second, 20, c.gone, func() (persist.Range, error) { return c.Counters.Allocate(ctx, req) })
}

func (c countersOf) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	ctx = context.WithoutCancel(ctx)
	return call(c.node.faults, 2*time.Second, 20, c.gone, func() (bool, error) { return c.Counters.GiveBack(ctx, bizTag, r) })
}

func runFaults(t *testing.T, seed uint64, mode string) {
	synctest.Test(t, func(t *testing.T) {
		f := &faults{rng: rand.New(rand.NewPCG(seed, 1)), redis: &redisModel{}, store: memory.New(time.Now)}
		log := slog.New(slog.DiscardHandler)
		if *oneSeed >= 0 {
			log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		all := ordercheck.New() // its clock is everybody's
		var lives []*nodeLife
		live := func(i int, before *nodeLife) *nodeLife {
			settings := DefaultSettings()
			settings.OnRedisDown = mode
			settings.Step = int64(1 + f.n(30))
			settings.MaxStep = settings.Step * int64(1+f.n(4))
			settings.ReserveSegments = f.n(3)
			settings.AcquireTimeout = time.Duration(50+f.n(2000)) * time.Millisecond
			n := &nodeLife{faults: f, name: fmt.Sprintf("%d.%d", i, len(lives)), h: ordercheck.New()}
			env := strategy.Env{Store: storeOf{f.store, n}, Now: time.Now, Log: log.With("node", n.name), Observer: &f.events}
			s, err := NewShared(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, n)
			if err != nil {
				t.Fatal(err)
			}
			if before != nil { // it is the same process: its order continues
				s.Inherit(before.s)
				n.h = before.h
			}
			for s.Init(t.Context(), true) != nil {
				time.Sleep(100 * time.Millisecond)
			}
			n.s = s
			lives = append(lives, n)
			return n
		}
		nodes := make([]atomic.Pointer[nodeLife], 3)
		for i := range nodes {
			nodes[i].Store(live(i, nil))
		}

		// Callers.
		stop := make(chan struct{})
		var callers sync.WaitGroup
		var settled atomic.Bool
		after, ordered, ranges := ordercheck.New(), ordercheck.New(), ordercheck.New()
		for i := range nodes {
			for range 4 {
				callers.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(f.n(40)) * time.Millisecond):
						}
						n := nodes[i].Load()
						count := 1
						if f.n(4) == 0 {
							count += f.n(100)
						}
						counts, quiet := settled.Load(), f.quiet(nodes[:])
						began := all.Now()
						kind := kind(max(0, f.n(2*int(allOfThem)-1)-int(allOfThem)+1))
						got, err := kind.get(context.Background(), t, n.s, count)
						if err != nil || n.dead.Load() {
							continue
						}
						call := ordercheck.Call{Start: began, End: all.Now(), Who: n.name, Numbers: got}
						if kind == ranged {
							ranges.AddCall(call)
							continue
						}
						if quiet > 0 && quiet == f.quiet(nodes[:]) {
							ordered.AddCall(call)
						}
						n.h.AddCall(call)
						all.AddCall(call)
						if counts {
							after.AddCall(call)
						}
					}
				})
			}
		}

		// Faults.
		var background sync.WaitGroup
		for range 40 {
			time.Sleep(time.Duration(f.n(3000)) * time.Millisecond)
			i := f.n(len(nodes))
			n := nodes[i].Load()
			lasts := time.Duration(f.n(6000)) * time.Millisecond
			what := f.n(9)
			log.Info("fault", "what", what, "node", n.name, "lasts", lasts)
			switch what {
			case 0:
				f.redis.lose()
			case 1:
				f.redis.change(func(r *redisModel) { r.hash = nil })
			case 2:
				f.redis.change(func(r *redisModel) { r.replid++ })
			case 3:
				f.redis.change(func(r *redisModel) { r.down = errDown })
				background.Go(func() { time.Sleep(lasts); f.redis.change(func(r *redisModel) { r.down = nil }) })
			case 4:
				n.cut.Store(true)
				background.Go(func() { time.Sleep(lasts); n.cut.Store(false) })
			case 5:
				f.away.Store(true)
				background.Go(func() { time.Sleep(4 * lasts); f.away.Store(false) })
			case 6:
				n.dead.Store(true)
				nodes[i].Store(live(i, nil))
				// its goroutines must end with the bubble
				background.Go(func() { _ = n.s.Close(context.Background()) })
			case 7:
				next := live(i, nil)
				nodes[i].Store(next)
				background.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
					defer cancel()
					_ = n.s.Close(ctx)
				})
			case 8:
				// another definition in the same process, which may issue on its own just now; its
				// heir finds Redis
				if f.n(2) == 0 {
					n.cut.Store(true)
					time.Sleep(lasts)
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(f.n(5000))*time.Millisecond)
				_ = n.s.Close(ctx)
				cancel()
				nodes[i].Store(live(i, n))
			}
		}
		f.over.Store(true)
		background.Wait()
		f.redis.change(func(r *redisModel) { r.down = nil })
		f.away.Store(false)
		time.Sleep(3 * cursor.LastHold)
		for i := range nodes {
			n := nodes[i].Load()
			n.cut.Store(false)
			if n.s.Health() != nil || n.s.Degraded() != nil {
				t.Errorf("seed %d: node %s is not well: %v, %v", seed, n.name, n.s.Health(), n.s.Degraded())
			}
		}
		settled.Store(true)
		time.Sleep(5 * time.Second)
		close(stop)
		callers.Wait()
		for i := range nodes {
			if err := nodes[i].Load().s.Close(t.Context()); err != nil {
				t.Errorf("seed %d: close: %v", seed, err)
			}
		}
		time.Sleep(time.Minute) // late calls
		if *oneSeed >= 0 {
			t.Log(f.events.counts, all.Numbers(), ordered.Numbers())
		}

		for _, n := range lives {
			if err := n.h.Order(); err != nil {
				t.Errorf("seed %d: node %s: %v", seed, n.name, err)
			}
		}
		check := all.Duplicates
		if mode == Reject {
			check = all.Check
		}
		if err := errors.Join(check(), both{all, ranges}.duplicates()); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := checkOrder(all, ordered, lives); err != nil {
			t.Errorf("seed %d: order over the nodes: %v", seed, err)
		}
		if ordered.Numbers() < all.Numbers()/10 {
			t.Errorf("seed %d: only %d of %d numbers were issued while nobody was on its own", seed, ordered.Numbers(), all.Numbers())
		}
		if err := after.Check(); err != nil {
			t.Errorf("seed %d, after all faults: %v", seed, err)
		}
		if after.Numbers() < 100 {
			t.Errorf("seed %d: only %d numbers after all faults", seed, after.Numbers())
		}
	})
}
