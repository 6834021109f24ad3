package cursor

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// shared is the state that the callers of one cursor share.
type shared struct {
	name    string
	store   store
	ledger  *ledger
	highest atomic.Int64 // number of a take that has ended
}

// take takes once, refills if it has the claim, and checks the order: a take that starts after
// another ended gets larger numbers.
func (s *shared) take(t *testing.T, c *cursor, r *rand.Rand) {
	const reserve = 2
	ctx := context.Background()
	floor := s.highest.Load()
	taken, err := c.Take(ctx, rediscursor.Take{Count: r.Int64N(30), Threshold: 0.5, Reserve: reserve, UseReserve: r.IntN(2) == 0, Claim: 50 * time.Millisecond})
	if err != nil {
		// On a busy machine servers of a Cluster may lose contact for a moment. The numbers of the
		// take are skipped.
		t.Log(err)
		return
	}
	before := floor
	for _, run := range taken.Runs {
		if run.First <= before {
			t.Errorf("%v after %d", run, before)
		}
		before = run.Last
	}
	if taken.Next > 0 && taken.Next <= before {
		t.Errorf("next is %d after %d", taken.Next, before)
	}
	for highest := s.highest.Load(); highest < before && !s.highest.CompareAndSwap(highest, before); highest = s.highest.Load() {
	}
	s.ledger.add(taken.Runs)

	in := rediscursor.Install{Gen: taken.Gen, Mode: rediscursor.Append, Reserve: reserve}
	switch {
	case taken.Stub:
		in.Mode = rediscursor.Seed
	case r.IntN(200) == 0:
		in.Mode = rediscursor.Advance
	case taken.Low != rediscursor.WantsRefill:
		return
	}
	for range max(1, taken.Free) {
		in.Range = s.store.allocate(1+r.Int64N(400), taken.Ceil)
		answer, err := c.Install(ctx, in)
		if err != nil {
			t.Log(err) // as above; the range is skipped
			return
		}
		if answer.Verdict != rediscursor.Installed || in.Mode != rediscursor.Append {
			return
		}
	}
}

// Many callers take from the same cursors and refill them. No number is issued twice, and order
// holds.
func TestLoad(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	cluster := testenv.StartCluster(t)
	for name, connect := range map[string]func() redis.UniversalClient{
		"single":  func() redis.UniversalClient { return connect(t, server.Addr(), calm) },
		"Cluster": func() redis.UniversalClient { return connectCluster(t, cluster, calm, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cursors []*shared
			for range 4 {
				cursors = append(cursors, &shared{name: testenv.Unique(), ledger: newLedger(t)})
			}
			var wg sync.WaitGroup
			for i := range 8 {
				client := connect() // one per node
				wg.Go(func() {
					r := rand.New(rand.NewPCG(1, uint64(i)))
					for range 1200 {
						s := cursors[r.IntN(len(cursors))]
						s.take(t, reopen(t, client, s.name), r)
					}
				})
			}
			wg.Wait()
			for _, s := range cursors {
				// Usually there are 8,000 to 17,000. A busy machine gets fewer: takes find no
				// numbers while a refill is slow.
				if len(s.ledger.seen) < 4000 {
					t.Errorf("only %d numbers", len(s.ledger.seen))
				}
				t.Logf("%d numbers up to %d", len(s.ledger.seen), s.ledger.last)
			}
		})
	}
}
