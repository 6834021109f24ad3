package segment

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// seeds is how many seeds tests with random faults run.
var seeds = longtest.Or(1, 20)

// chaos is a store that is slow by chance and loses requests and replies, or of which one operation
// fails.
type chaos struct {
	persist.Store
	mu    sync.Mutex
	rnd   *rand.Rand
	calls int
	fails int // the number of the operation that fails, from 1, 0 for chance
}

func (c *chaos) do(ctx context.Context, f func() error) error {
	c.mu.Lock()
	if c.calls++; c.fails > 0 {
		fails := c.calls == c.fails
		c.mu.Unlock()
		if fails {
			return persist.ErrUnavailable
		}
		return f()
	}
	before, after, fate := time.Duration(c.rnd.IntN(30))*time.Millisecond, time.Duration(c.rnd.IntN(30))*time.Millisecond, c.rnd.IntN(40)
	if c.rnd.IntN(20) == 0 {
		before = time.Duration(c.rnd.IntN(3000)) * time.Millisecond
	}
	c.mu.Unlock()
	time.Sleep(before)
	if fate == 0 || ctx.Err() != nil {
		return persist.ErrUnavailable
	}
	err := f()
	time.Sleep(after)
	if fate == 1 {
		return persist.ErrUnavailable
	}
	return err
}

type chaosCounters struct {
	persist.Counters
	c *chaos
}

func (c *chaos) Counters() persist.Counters   { return chaosCounters{c.Store.Counters(), c} }
func (c *chaos) Documents() persist.Documents { return chaosDocuments{c.Store.Documents(), c} }
func (c *chaos) Now(ctx context.Context) (now time.Time, err error) {
	err = c.do(ctx, func() (err error) { now, err = c.Store.Now(ctx); return err })
	return
}
func (x chaosCounters) Read(ctx context.Context, id string) (r persist.Counter, err error) {
	err = x.c.do(ctx, func() (err error) { r, err = x.Counters.Read(ctx, id); return err })
	return
}
func (x chaosCounters) Create(ctx context.Context, m persist.Counter) error {
	return x.c.do(ctx, func() error { return x.Counters.Create(ctx, m) })
}
func (x chaosCounters) Delete(ctx context.Context, id string) error {
	return x.c.do(ctx, func() error { return x.Counters.Delete(ctx, id) })
}
func (x chaosCounters) List(ctx context.Context, after string, limit int) (list []persist.Counter, err error) {
	err = x.c.do(ctx, func() (err error) { list, err = x.Counters.List(ctx, after, limit); return err })
	return
}
func (x chaosCounters) Allocate(ctx context.Context, q persist.Request) (r persist.Range, err error) {
	err = x.c.do(ctx, func() (err error) { r, err = x.Counters.Allocate(ctx, q); return err })
	return
}
func (x chaosCounters) GiveBack(ctx context.Context, id string, q persist.Range) (g bool, err error) {
	err = x.c.do(ctx, func() (err error) { g, err = x.Counters.GiveBack(ctx, id, q); return err })
	return
}

type chaosDocuments struct {
	persist.Documents
	c *chaos
}

func (x chaosDocuments) Read(ctx context.Context, kind, key string) (d persist.Document, err error) {
	err = x.c.do(ctx, func() (err error) { d, err = x.Documents.Read(ctx, kind, key); return err })
	return
}
func (x chaosDocuments) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	err = x.c.do(ctx, func() (err error) { list, err = x.Documents.List(ctx, kind, after, limit); return err })
	return
}
func (x chaosDocuments) Create(ctx context.Context, d persist.Document) error {
	return x.c.do(ctx, func() error { return x.Documents.Create(ctx, d) })
}
func (x chaosDocuments) Update(ctx context.Context, d persist.Document) error {
	return x.c.do(ctx, func() error { return x.Documents.Update(ctx, d) })
}
func (x chaosDocuments) Delete(ctx context.Context, kind, key string, revision int64) error {
	return x.c.do(ctx, func() error { return x.Documents.Delete(ctx, kind, key, revision) })
}

// Nodes with clocks that jump, over a store that loses requests and replies, with crashes and clean
// stops: no number of a period twice.
func TestPeriodsRandom(t *testing.T) {
	failed := 0
	for seed := range seeds {
		for _, strict := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) { failed += randomPeriods(t, uint64(seed), strict) })
			if failed > 3 {
				return
			}
		}
	}
}

func randomPeriods(t *testing.T, seed uint64, strict bool) (failed int) {
	store := &chaos{Store: memory.New(time.Now), rnd: rand.New(rand.NewPCG(seed, 7))}
	var redis map[string]*redisModel
	if strict {
		redis = make(map[string]*redisModel)
	}
	var mu sync.Mutex
	type number struct {
		period seqd.Period
		n      int64
	}
	type source struct {
		node, life int
		at         time.Time
	}
	seen := make(map[number]source)
	var wg sync.WaitGroup
	for node := range 3 {
		r := rand.New(rand.NewPCG(seed, uint64(node)+100))
		wg.Go(func() {
			for life := range longtest.Or(4, 6) {
				offset := time.Duration(0)
				var om sync.Mutex
				now := func() time.Time { om.Lock(); defer om.Unlock(); return time.Now().Add(offset) }
				if r.IntN(2) == 0 {
					offset = -time.Duration(r.IntN(5*24)) * time.Hour
				}
				s := periodic(t, store, now, redis, func(s *Settings) {
					daily(s)
					s.PeriodRetention = 48 * time.Hour
					s.RestoreGap = 0
				})
				for range longtest.Or(15, 25) {
					var calls sync.WaitGroup
					for range 1 + r.IntN(3) {
						n := 1 + r.IntN(7)
						calls.Go(func() {
							var seq seqd.Sequence
							if s.Generate(context.Background(), n, &seq) != nil {
								return
							}
							mu.Lock()
							defer mu.Unlock()
							for x := range seq.Numbers() {
								key, who := number{seq.Period(), x}, source{node, life, time.Now()}
								if other, twice := seen[key]; twice {
									failed++
									t.Errorf("seed %d strict %v: %v by %v and by %v", seed, strict, key, other, who)
								}
								seen[key] = who
							}
						})
					}
					calls.Wait()
					time.Sleep(time.Duration(r.IntN(5)) * time.Duration(r.IntN(3600)) * time.Second)
					if r.IntN(4) == 0 {
						om.Lock()
						offset = time.Duration(r.IntN(8*24)-6*24) * time.Hour
						om.Unlock()
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(5))*time.Second)
				_ = s.Close(ctx)
				cancel()
			}
		})
	}
	wg.Wait()
	time.Sleep(time.Minute)
	if len(seen) < 200 {
		t.Errorf("seed %d: only %d numbers", seed, len(seen))
	}
	return failed
}
