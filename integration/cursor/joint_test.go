package cursor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// neighbours is a hook that lets takes share their run with looks at other cursors, which write
// nothing.
type neighbours struct {
	t      tester
	all    []neighbour
	before []neighbour // that come before the take, and after it
	after  []neighbour
}

// neighbour is another cursor and the beginning of what a look at it gets.
type neighbour struct{ key, want string }

// newNeighbours makes cursors of all kinds.
func newNeighbours(t tester, client redis.UniversalClient) *neighbours {
	ctx := context.Background()
	live, newer, foreign := open(t, client), open(t, client), open(t, client)
	for _, c := range []*cursor{live, newer, foreign} {
		c.fill(fmt.Sprintf("1-%d %d-%d", persist.MaxNumber/2, persist.MaxNumber/2+1, persist.MaxNumber), 0)
	}
	newer.set("v", "99")
	foreign.set("cluster", "another")
	none := testenv.Unique()
	if err := client.Set(ctx, none, "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	return &neighbours{t: t, all: []neighbour{{live.key, "live"}, {newer.key, "newer"}, {foreign.key, "foreign"}, {none, "error"}}}
}

func (*neighbours) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*neighbours) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Places in the arguments of a take: the name and hash of the script, the number of keys, the key,
// the head, and two arguments of the key.
const (
	keyCount = 2
	headLen  = 7
	takeArgs = keyCount + 2 + headLen + 2
)

func (n *neighbours) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if len(args) != takeArgs || len(n.before)+len(n.after) == 0 {
			return next(ctx, cmd)
		}
		joint := append(slices.Clone(args[:keyCount]), 1+len(n.before)+len(n.after))
		for _, b := range n.before {
			joint = append(joint, b.key)
		}
		joint = append(joint, args[keyCount+1])
		for _, a := range n.after {
			joint = append(joint, a.key)
		}
		joint = append(joint, args[keyCount+2:keyCount+2+headLen]...)
		for range n.before {
			joint = append(joint, 0, epoch)
		}
		joint = append(joint, args[keyCount+2+headLen:]...)
		for range n.after {
			joint = append(joint, 0, epoch)
		}
		shared := redis.NewCmd(ctx, joint...)
		if err := next(ctx, shared); err != nil {
			cmd.SetErr(err)
			return err
		}
		items, err := shared.Slice()
		if err != nil || len(items) != 1+len(n.before)+len(n.after) {
			n.t.Fatalf("got %v, %v", items, err)
		}
		mine := items[len(n.before)]
		for i, neighbour := range slices.Concat(n.before, n.after) {
			if others := slices.Delete(slices.Clone(items), len(n.before), len(n.before)+1); others[i].([]any)[0] != neighbour.want {
				n.t.Errorf("a look at a cursor that is %s got %v", neighbour.want, others[i])
			}
		}
		cmd.(interface{ SetVal(any) }).SetVal([]any{mine})
		return nil
	}
}

// A cursor that cannot be used fails only the takes from it, although they share runs with others.
func TestJointTakesFailAlone(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr(), calm)
	all := batchers(t, client, 16)
	bad := all[5]
	if err := client.Set(context.Background(), bad.key, "text", 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := runs(t, server)
	var takes atomic.Int64
	ledger := newLedger(t)
	var wg sync.WaitGroup
	for range 4 {
		for _, c := range all {
			wg.Go(func() {
				for range 200 {
					taken, err := c.Take(context.Background(), rediscursor.Take{Count: 2, Threshold: 0.99, Claim: claim})
					takes.Add(1)
					if (c.place == bad.place) != (err != nil) || err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
						t.Errorf("counter %d got %v, %v", c.place, taken.Runs, err)
					}
					ledger.add(taken.Runs)
				}
			})
		}
	}
	wg.Wait()
	if ran := runs(t, server) - before; ran >= takes.Load()/2 {
		t.Errorf("%d runs of %d takes", ran, takes.Load())
	}
}

// A server without memory refuses each take, and nothing is taken.
func TestJointTakesWithoutMemory(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr(), calm)
	all := batchers(t, client, 16)
	command(t, server.Client(), "CONFIG", "SET", "maxmemory", "1")
	var wg sync.WaitGroup
	for range 4 {
		for _, c := range all {
			wg.Go(func() {
				taken, err := c.Take(context.Background(), rediscursor.Take{Count: 2, Threshold: 0.99})
				if err == nil || !redis.HasErrorPrefix(err, "OOM") && !redis.HasErrorPrefix(err, "Error running script") {
					t.Errorf("got %+v, %v", taken, err)
				}
			})
		}
	}
	wg.Wait()
	command(t, server.Client(), "CONFIG", "SET", "maxmemory", "0")
	for i, c := range all {
		if next := c.peek().Next; next != int64(i*each+1) {
			t.Errorf("counter %d goes on with %d", i, next)
		}
	}
}

// One counter may be in a run several times: an old and a new strategy of a biz type use it at the
// same time during a live change.
func TestJointTakesOfOneCounter(t *testing.T) {
	t.Parallel()
	client := connect(t, testenv.StartRedis(t).Addr(), calm)
	c := open(t, client)
	c.fill("1-5000 5001-10000", 0)
	batch := redisbatch.New(client)
	ledger := newLedger(t)
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			same := c.batched(batch)
			for range 50 {
				taken, err := same.Take(context.Background(), rediscursor.Take{Count: 5, Threshold: 0.99, Claim: claim})
				if err != nil {
					t.Error(err)
				}
				ledger.add(taken.Runs)
				for _, r := range taken.Runs {
					got.Add(r.Size())
				}
			}
		})
	}
	wg.Wait()
	if got.Load() != 32*50*5 {
		t.Errorf("%d numbers", got.Load())
	}
}
