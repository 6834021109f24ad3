package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// newFollower is a node with Redis whose sequencer is auto.
func newFollower(t testing.TB, store persist.Store, redis *redisModel, change func(*Settings)) *Following {
	t.Helper()
	settings := DefaultSettings()
	if change != nil {
		change(&settings)
	}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
	o, err := originOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, "order")
	if err != nil {
		t.Fatal(err)
	}
	f := newFollowing(o, redis)
	if err := f.Init(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return f
}

// A new counter is sequenced by Redis if there is one, and stays so; one that the store sequences
// stays there, although this node has Redis.
func TestFollowingFindsTheSequencer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		f := newFollower(t, store, redis, nil)
		last := numbers(t, f, 10)[9]
		if epoch := counter(t, store).Epoch; len(epoch) != 32 {
			t.Errorf("the epoch is %q", epoch)
		}
		_ = f.Close(t.Context())

		s, _ := newStored(t, store, redis.Drop, byStore)
		last = max(last, numbers(t, s, 1)[0])
		_ = s.Close(t.Context())
		f = newFollower(t, store, redis, nil)
		redis.change(func(r *redisModel) { r.down = errDown })
		if got := numbers(t, f, 1)[0]; got != last+1 {
			t.Errorf("got %d after %d", got, last)
		}
		if epoch := counter(t, store).Epoch; epoch != persist.StoreEpoch {
			t.Errorf("the epoch is %q", epoch)
		}
		if f.Health() != nil || f.Degraded() != nil || f.knows().issued != last+1 {
			t.Errorf("health %v, degraded %v, knows %+v", f.Health(), f.Degraded(), f.knows())
		}
		_ = f.Close(t.Context())
	})
}

// Nodes that get Redis one by one do not split the order: whoever is first decides, the others
// follow.
func TestFollowingOfBothKinds(t *testing.T) {
	for seed := range uint64(longtest.Or(6, 500)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				store, redis, h := newHooked(), &redisModel{}, ordercheck.New()
				slow(store, redis, seed)
				a, b := newFollower(t, store, redis, nil), newFollower(t, store, redis, nil)
				plain, _ := newStored(t, store, nil, nil)
				var wg sync.WaitGroup
				for i, s := range []counting{a, b, plain} {
					first := time.Duration(random.IntN(20)) * time.Millisecond
					wg.Go(func() {
						time.Sleep(first)
						for range 50 {
							askOne(t, h, s, fmt.Sprint(i))
						}
					})
				}
				wg.Wait()
				if err := h.Check(); err != nil {
					t.Error(err)
				}
				if h.Numbers() < 100 {
					t.Errorf("two nodes at least issue, and there are %d numbers", h.Numbers())
				}
				for _, s := range []counting{a, b, plain} {
					_ = s.Close(t.Context())
				}
			})
		})
	}
}

// slow lets each operation take a while.
func slow(store *hookedStore, redis *redisModel, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 4))
	nap := func(string) error {
		mu.Lock()
		d := time.Duration(random.IntN(2000)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d)
		return nil
	}
	store.change(func(s *hookedStore) { s.before, s.after = nap, nap })
	redis.change(func(r *redisModel) { r.before = nap })
}

// askOne asks for one number and records it if it came.
func askOne(t testing.TB, h *ordercheck.Record, s seqd.Strategy, who string) (ok bool) {
	t.Helper()
	var seq seqd.Sequence
	began := h.Now()
	if err := s.Generate(t.Context(), 1, &seq); err != nil {
		return false
	}
	h.Add(began, who, slices.Collect(seq.Numbers()))
	return true
}

// liveNode is a node whose definition changes while callers come.
type liveNode struct {
	t     testing.TB
	env   strategy.Env
	redis *redisModel
	// calls holds a token for each call that may be under way. A mutex would stop the time of the
	// bubble.
	calls   chan struct{}
	s       counting
	without storetake.RuleSet
}

const mostCalls = 8

func newLive(t testing.TB, env strategy.Env, redis *redisModel) *liveNode {
	n := &liveNode{t: t, env: env, redis: redis, calls: make(chan struct{}, mostCalls)}
	for range mostCalls {
		n.calls <- struct{}{}
	}
	return n
}

// put replaces the definition, as an Issuer does: callers wait meanwhile.
func (n *liveNode) put(ordering, sequencer string) {
	for range mostCalls {
		<-n.calls
		defer func() { n.calls <- struct{}{} }()
	}
	settings := DefaultSettings()
	settings.Ordering, settings.Sequencer, settings.Step, settings.MaxStep = ordering, sequencer, 10, 40
	settings.AcquireTimeout = 300 * time.Millisecond
	bizType := seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}
	o, err := originOf(n.env, bizType, "order")
	if err != nil {
		n.t.Fatal(err)
	}
	var next counting
	switch {
	case ordering == PerNode:
		next = buffered(o)
	case sequencer == SequencerStore:
		s := stored(o, n.redis.Drop, nil)
		s.machine = storetake.New(storetake.Config{Start: 1, Cursor: storetake.TakeOver, Patience: settings.AcquireTimeout, Without: n.without})
		next = s
	case sequencer == SequencerRedis:
		next = shared(o, n.redis, nil)
	default:
		next = newFollowing(o, n.redis)
	}
	if n.s != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_ = n.s.Close(ctx)
		cancel()
		inherit(next.(inheriting), n.s)
	}
	for next.Init(context.Background(), true) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	n.s = next
}

// in returns the present strategy. The caller must put the token back.
func (n *liveNode) in() allKinds {
	<-n.calls
	return n.s.(allKinds)
}

func (n *liveNode) out() { n.calls <- struct{}{} }

func (n *liveNode) Generate(ctx context.Context, count int, seq *seqd.Sequence) error {
	defer n.out()
	return n.in().Generate(ctx, count, seq)
}

func (n *liveNode) GenerateSome(ctx context.Context, count int, seq *seqd.Sequence) error {
	defer n.out()
	return n.in().GenerateSome(ctx, count, seq)
}

func (n *liveNode) GenerateConsecutive(ctx context.Context, count int, seq *seqd.Sequence) error {
	defer n.out()
	return n.in().GenerateConsecutive(ctx, count, seq)
}

func (n *liveNode) GenerateRange(ctx context.Context, count int64, seq *seqd.Sequence) error {
	defer n.out()
	return n.in().GenerateRange(ctx, count, seq)
}

func (n *liveNode) Init(context.Context, bool) error { return nil }
func (n *liveNode) Close(ctx context.Context) error  { return n.s.Close(ctx) }

// The sequencer changes under load, and each node applies every change when it comes to it. No
// number comes twice, and as long as the ordering is strict and Redis serves all nodes, the order
// holds throughout.
func TestSequencerChangesUnderLoad(t *testing.T) {
	strict := func(sequencer string) []string { return []string{Strict, sequencer} }
	perNode := []string{PerNode, SequencerAuto}
	tests := map[string]struct {
		definitions [][]string
		ordered     bool
	}{
		"redis, store":            {thereAndBack, true},
		"redis, auto, store":      {[][]string{strict("redis"), strict("auto"), strict("store"), strict("auto"), strict("redis")}, true},
		"store, per-node":         {[][]string{strict("store"), perNode, strict("store"), perNode, strict("store")}, false},
		"all, and there and back": {[][]string{strict("auto"), strict("store"), perNode, strict("redis"), perNode, strict("auto")}, false},
	}
	for name, test := range tests {
		for seed := range uint64(longtest.Or(1, 5)) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if err := changeUnderLoad(t, test.definitions, test.ordered, seed, 0); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

var thereAndBack = [][]string{{Strict, "redis"}, {Strict, "store"}, {Strict, "redis"}, {Strict, "store"}, {Strict, "redis"}}

// Each rule of a change is needed: without it the order breaks, or a node is left behind.
func TestRulesOfChangesAreNeeded(t *testing.T) {
	for _, rule := range []storetake.Rule{storetake.RuleNamesEpoch, storetake.RuleRetireFirst} {
		t.Run(rule.String(), func(t *testing.T) {
			for seed := range uint64(20) {
				var err error
				synctest.Test(t, func(t *testing.T) { err = changeUnderLoad(t, thereAndBack, true, seed, storetake.Rules(rule)) })
				if err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("nothing fails without the rule")
		})
	}
}

// changeUnderLoad lets two nodes apply definitions one after the other, each in its own time, under
// load.
func changeUnderLoad(t *testing.T, definitions [][]string, ordered bool, seed uint64, without storetake.RuleSet) (err error) {
	store, redis, all := newHooked(), &redisModel{}, newBoth()
	h := all.ordered
	slow(store, redis, seed)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
	var nodes []*liveNode
	for range 2 {
		n := newLive(t, env, redis)
		n.without = without
		n.put(definitions[0][0], definitions[0][1])
		nodes = append(nodes, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var callers, changes sync.WaitGroup
	for i := range 6 {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(10+i)))
			for ctx.Err() == nil {
				if all.ask(t.Context(), t, nodes[i%2], anyKind(random), 1+random.IntN(3), fmt.Sprint(i%2)) != nil {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	for i, n := range nodes {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		changes.Go(func() {
			for _, d := range definitions[1:] {
				time.Sleep(time.Duration(500+random.IntN(3000)) * time.Millisecond)
				n.put(d[0], d[1])
			}
		})
	}
	changes.Wait()
	time.Sleep(7 * time.Second) // all have the last definition now
	settled := h.Now()
	for i, n := range nodes {
		if !askOne(t, h, n, fmt.Sprint(i)) {
			err = fmt.Errorf("node %d issues nothing after all changes: %v", i, n.s.Health())
		}
	}
	time.Sleep(time.Second)
	cancel()
	callers.Wait()
	windows := []ordercheck.Window{{From: 0, To: settled}}
	if ordered {
		windows = nil
	}
	for _, n := range nodes {
		_ = n.Close(context.Background())
	}
	return errors.Join(err, all.duplicates(), h.OrderOutside(windows...))
}

// A caller who comes while the node moves to the other sequencer waits, and is not refused.
func TestFollowingCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		f := newFollower(t, store, redis, nil)
		last := numbers(t, f, 10)[9]
		synctest.Wait()
		s, _ := newStored(t, store, redis.Drop, byStore)
		last = max(last, numbers(t, s, 1)[0])
		var wg sync.WaitGroup
		h := ordercheck.New()
		for i := range 20 {
			wg.Go(func() {
				if !askOne(t, h, f, fmt.Sprint(i)) {
					t.Error("a caller was refused")
				}
			})
		}
		wg.Wait()
		if err := h.Check(); err != nil || h.Highest() <= last {
			t.Errorf("the highest number is %d after %d; %v", h.Highest(), last, err)
		}
		if f.present.Load().sequencer() != SequencerStore {
			t.Error("it did not follow")
		}
		_ = s.Close(t.Context())
		// and back, although nobody asks this node
		c := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		last = numbers(t, c, 1)[0]
		if got := numbers(t, f, 1)[0]; got <= last || f.present.Load().sequencer() != SequencerRedis {
			t.Errorf("got %d after %d from %s", got, last, f.present.Load().sequencer())
		}
		closeAll(t, c)
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if _, code := try(t, f, 1); code != seqd.CodeStopping {
			t.Errorf("code %q", code)
		}
	})
}

// A caller who has got some of its numbers when the node moves to the other sequencer gets the others
// from there.
func TestFollowingCallersKeepWhatTheyHave(t *testing.T) {
	for k := range ranged {
		t.Run(fmt.Sprint("kind ", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := newHooked(), &redisModel{}
				f := newFollower(t, store, redis, func(s *Settings) { s.Step, s.MaxStep = 10, 10 })
				last := numbers(t, f, 3)[2]
				synctest.Wait()
				taken := false
				redis.change(func(r *redisModel) {
					r.before = func(call string) error { // the store takes over while the cursor is mended
						if call != "take" && call != "drop" && !taken {
							taken = true
							s, _ := newStored(t, store, redis.Drop, byStore)
							_ = numbers(t, s, 1)
							_ = s.Close(t.Context())
						}
						return nil
					}
				})
				got, err := k.get(t.Context(), t, f, 500)
				if err != nil || len(got) != 500 || got[0] <= last || !slices.IsSorted(got) {
					t.Errorf("got %d numbers: %v", len(got), err)
				}
				if !taken || f.present.Load().sequencer() != SequencerStore {
					t.Error("it did not follow")
				}
				end(t, f)
			})
		})
	}
}
