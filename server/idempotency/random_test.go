package idempotency_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/idempotency"
)

// faulty is a backend behind a network that delays, loses and reorders. A command may be done
// before its error is seen, after it, or never.
type faulty struct {
	idempotency.Backend
	mu     sync.Mutex // guards random
	random *rand.Rand
	late   sync.WaitGroup // commands still on their way
}

// fault chooses what happens to a command: its delay, whether it is done, and whether its reply
// arrives.
func (f *faulty) fault() (delay time.Duration, done, reply bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.random.IntN(10) {
	case 0:
		return 0, false, false
	case 1, 2:
		return time.Duration(f.random.Int64N(int64(3 * idempotency.Lease))), true, false
	case 3:
		return time.Duration(f.random.Int64N(int64(2 * idempotency.Lease))), true, true
	}
	return time.Duration(f.random.Int64N(int64(10 * time.Millisecond))), true, true
}

// send does a command as the network allows.
func (f *faulty) send(do func(context.Context) (string, error)) (string, error) {
	delay, done, reply := f.fault()
	if reply {
		time.Sleep(delay)
		return do(context.Background())
	}
	if done {
		f.late.Go(func() {
			time.Sleep(delay)
			_, _ = do(context.Background())
		})
	}
	time.Sleep(time.Second) // the timeout
	return "", errAway
}

func (f *faulty) Claim(_ context.Context, id, text string, lease time.Duration) (string, error) {
	return f.send(func(ctx context.Context) (string, error) { return f.Backend.Claim(ctx, id, text, lease) })
}

func (f *faulty) Swap(_ context.Context, id, old, text string, keep time.Duration) (string, error) {
	return f.send(func(ctx context.Context) (string, error) { return f.Backend.Swap(ctx, id, old, text, keep) })
}

func (f *faulty) Drop(_ context.Context, id, old string) error {
	_, err := f.send(func(ctx context.Context) (string, error) { return "", f.Backend.Drop(ctx, id, old) })
	return err
}

// TestRandomFaults sends the same keys again and again to nodes whose clocks differ, through a
// faulty network. The nodes are slow and refuse at times. All answers for a key must be the same
// (invariant I1).
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			documents := memory.New(time.Now).Documents()
			var (
				mu   sync.Mutex // guards got
				got  = make(map[string]int)
				wg   sync.WaitGroup
				late []*faulty
			)
			for n := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, n))
				skew := time.Duration(random.Int64N(int64(4*idempotency.Lease))) - 2*idempotency.Lease
				// the store's clock, as this node sees it
				clock := storeclock.New(&storeClock{now: off(time.Now, &skew)}, time.Now, nil)
				f := &faulty{Backend: idempotency.NewStore(documents, clock), random: random}
				late = append(late, f)
				a := w.node(func(o *idempotency.Options) { o.Backend, o.TTL = f, 100*time.Hour })
				issue := func(ctx context.Context, call *seqd.Call) error {
					f.mu.Lock()
					slow, refuses := time.Duration(f.random.Int64N(int64(time.Second))), f.random.IntN(4) == 0
					if f.random.IntN(4) == 0 {
						slow *= 20
					}
					f.mu.Unlock()
					time.Sleep(slow)
					if refuses {
						return errAway
					}
					return w.issue(ctx, call)
				}
				for range 2 {
					wg.Go(func() {
						for range 8 {
							r := w.ask(context.Background(), a, "k", 1, issue)
							if r.err != nil {
								continue
							}
							mu.Lock()
							got[r.ids]++
							mu.Unlock()
						}
					})
				}
			}
			wg.Wait()
			for _, f := range late {
				f.late.Wait()
			}
			if len(got) > 1 {
				t.Errorf("seed %d: one key, and %s", seed, fmt.Sprint(got))
			}
			if seed == 0 && len(got) == 0 {
				t.Error("nobody was answered")
			}
		})
	}
}
