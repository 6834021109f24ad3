package cursor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const each = 1_000_000 // how many numbers a batcher has

// batcher is a counter that shares a sender with others. It has the numbers from place·each+1.
type batcher struct {
	*cursor
	place int64
}

// batchers opens counters that share a sender.
func batchers(t testing.TB, client redis.UniversalClient, counters int) (all []batcher) {
	batch := redisbatch.New(client)
	for i := range counters {
		c := open(t, client)
		first := i*each + 1
		c.fill(fmt.Sprintf("%d-%d %d-%d", first, first+each/2-1, first+each/2, first+each-1), 0)
		all = append(all, batcher{c.batched(batch), int64(i)})
	}
	return all
}

// takers takes from counters at random, with many callers, until done is closed. It checks that
// every reply belongs to its counter, that no number comes twice, and that a call that begins after
// another ended gets a larger number. It counts the takes that are answered in ok, and returns how
// many failed.
func takers(t testing.TB, all []batcher, ok *atomic.Int64, done <-chan struct{}) (failed int64) {
	const callers = 32
	var no atomic.Int64
	last := make([]atomic.Int64, len(all)) // the highest number of the calls that have ended
	ledger := newLedger(t)
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				i, n := rand.IntN(len(all)), rand.Int64N(4)+1
				before := last[i].Load()
				taken, err := all[i].Take(context.Background(), rediscursor.Take{Count: n, Threshold: 0.99, Claim: claim})
				if err != nil {
					no.Add(1)
					continue
				}
				ok.Add(1)
				if len(taken.Runs) != 1 || taken.Runs[0].Size() != n || taken.Runs[0].First <= before || (taken.Runs[0].Last-1)/each != all[i].place {
					t.Errorf("counter %d after %d: a take of %d got %v", i, before, n, taken.Runs)
					return
				}
				ledger.add(taken.Runs)
				for high := last[i].Load(); high < taken.Runs[0].Last && !last[i].CompareAndSwap(high, taken.Runs[0].Last); {
					high = last[i].Load()
				}
			}
		})
	}
	wg.Wait()
	return no.Load()
}

// Takes of many counters share round trips, on connections that break and on a server that forgets
// its scripts. Whatever happens, each take runs at most once, and every reply gets to its caller.
func TestBatchedTakes(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	link := testenv.NewLink(t, server.Addr())
	client := connect(t, link.Addr(), second)
	all := batchers(t, client, 16)
	before, trips := writes(t, server.Client()), stat(t, server.Client(), `total_reads_processed:(\d+)`)
	var ok atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		patience := time.Now().Add(await.Patience)
		for i := range 12 {
			for goal := ok.Load() + 100; ok.Load() < goal && time.Now().Before(patience); {
				time.Sleep(time.Millisecond)
			}
			switch i % 3 {
			case 0:
				command(t, server.Client(), "SCRIPT", "FLUSH")
			case 1:
				command(t, server.Client(), "CLIENT", "KILL", "TYPE", "normal")
			case 2:
				link.Cut()
				link.Restore()
			}
		}
	}()
	failed := takers(t, all, &ok, done)
	answered := ok.Load()
	// what was sent and not answered may still run
	ran := int64(0)
	eventually(t, "they have run", func() error {
		if ran = writes(t, server.Client()) - before; ran < answered {
			return fmt.Errorf("%d of %d", ran, answered)
		}
		return nil
	})
	if ran > answered+failed || answered == 0 {
		t.Errorf("%d ran, %d were answered, %d failed", ran, answered, failed)
	}
	if trips = stat(t, server.Client(), `total_reads_processed:(\d+)`) - trips; trips >= answered {
		t.Errorf("%d round trips for %d takes", trips, answered)
	}
	t.Logf("%d answered, %d failed, %d ran, %d round trips", answered, failed, ran, trips)
}
