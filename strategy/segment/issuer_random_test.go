package segment

import (
	"context"
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
	"github.com/seqd/seqd/strategy"
)

// Issuers of several nodes issue pipelines and ranges while definitions change, biz types are
// removed and come back, nodes crash, callers leave, and the store and Redis lose answers: no number
// comes twice.
func TestRandomIssuers(t *testing.T) {
	for seed := range uint64(longtest.Or(6, 300)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { randomIssuers(t, seed) })
		})
	}
}

func randomIssuers(t *testing.T, seed uint64) {
	store, redis, h := newHooked(), &redisModel{}, newBoth()
	var mu sync.Mutex
	faults := rand.New(rand.NewPCG(seed, 1))
	fault := func(string) error {
		mu.Lock()
		d, fails := time.Duration(faults.IntN(3000))*time.Microsecond, faults.IntN(60) == 0
		mu.Unlock()
		time.Sleep(d)
		if fails {
			return errDown
		}
		return nil
	}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
	build := func(random *rand.Rand) func() (seqd.Definition, error) {
		settings := DefaultSettings()
		settings.Step = int64(1 + random.IntN(30))
		settings.MaxStep, settings.AcquireTimeout = 4*settings.Step, 300*time.Millisecond
		settings.Start = int64(1 + random.IntN(2)*random.IntN(3000))
		settings.Ordering = []string{Strict, Strict, PerNode}[random.IntN(3)]
		settings.Sequencer = []string{SequencerAuto, SequencerRedis, SequencerStore}[random.IntN(3)]
		if seed%2 == 1 { // increments that were changed by force
			settings.Increment = []int64{1, 2, 3, 64}[random.IntN(4)]
			settings.Offset = random.Int64N(settings.Increment)
		}
		bizType := seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}
		return func() (d seqd.Definition, err error) {
			d.BizType = bizType
			d.Strategy, err = anyOf(env, bizType, redis)
			return d, err
		}
	}
	open := func(random *rand.Rand) *seqd.Issuer {
		d, err := build(random)()
		if err != nil {
			t.Fatal(err)
		}
		d.Claim = counterClaim{store}
		is, err := seqd.NewIssuer([]seqd.Definition{d}, seqd.Options{Log: env.Log, Observer: env.Observer})
		if err != nil {
			t.Fatal(err)
		}
		is.Init(context.Background())
		return is
	}
	nodes := make([]*seqd.Issuer, 3)
	var all []*seqd.Issuer
	random := rand.New(rand.NewPCG(seed, 2))
	for k := range nodes {
		nodes[k] = open(random)
		all = append(all, nodes[k])
	}
	store.change(func(s *hookedStore) { s.before, s.after = fault, fault })
	redis.change(func(r *redisModel) { r.before = fault })
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for caller := range 6 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(10+caller)))
			calls, errs := make([]*seqd.Call, 20), make([]error, 20)
			for k := range calls {
				calls[k] = &seqd.Call{}
			}
			for ctx.Err() == nil {
				n := 1 + random.IntN(len(calls))
				for _, call := range calls[:n] {
					call.BizType, call.Count, call.Want = "order", 1+random.IntN(20), seqd.Want(random.IntN(3))
				}
				mu.Lock()
				is := nodes[random.IntN(len(nodes))]
				mu.Unlock()
				limited, leave := context.WithTimeout(context.Background(), time.Duration(1+random.IntN(300))*time.Millisecond)
				began := h.ordered.Now()
				is.IssueAll(limited, calls[:n], errs[:n])
				leave()
				for k, call := range calls[:n] {
					got := slices.Collect(call.Sequence.Numbers())
					if (errs[k] == nil) != (len(got) == call.Count) {
						t.Errorf("%d of %d numbers: %v", len(got), call.Count, errs[k])
					}
					h.ranges.Add(began, fmt.Sprint(caller), got)
				}
				time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
			}
		})
	}
	for range 60 {
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		k := random.IntN(len(nodes))
		limited, end := context.WithTimeout(context.Background(), time.Duration(random.IntN(3000))*time.Millisecond)
		switch random.IntN(8) {
		case 0: // it crashes: nobody closes it, and a new process knows nothing
			next := open(random)
			mu.Lock()
			nodes[k], all = next, append(all, next)
			mu.Unlock()
		case 1:
			_ = nodes[k].Remove(limited, "order", nil)
			time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
			_ = nodes[k].Put(limited, "order", build(random))
		case 2:
			redis.lose()
		default:
			_ = nodes[k].Put(limited, "order", build(random))
		}
		end()
	}
	cancel()
	wg.Wait()
	for _, is := range all {
		limited, end := context.WithTimeout(context.Background(), 20*time.Second)
		_ = is.Close(limited)
		end()
	}
	if err := h.duplicates(); err != nil {
		t.Error(err)
	}
	if n := h.ranges.Numbers(); n < 5000 {
		t.Errorf("only %d numbers were issued", n)
	}
}

// counterClaim says that a biz type is new while it has no counter.
type counterClaim struct{ store *hookedStore }

func (c counterClaim) Check(ctx context.Context) (fresh bool, err error) {
	_, err = c.store.Store.Counters().Read(ctx, "order")
	return err != nil, nil
}

func (counterClaim) Record(context.Context) error { return nil }
