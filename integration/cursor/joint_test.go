package cursor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// neighbours is a hook that lets takes share their run with others, which write nothing.
type neighbours struct {
	t      tester
	all    []neighbour
	before []neighbour // that come before the take, and after it
	after  []neighbour
}

// neighbour is another cursor, how many numbers are asked of it, and the beginning of the answer.
type neighbour struct {
	key   string
	count int
	want  string
}

// newNeighbours makes cursors of all kinds.
func newNeighbours(t tester, client redis.UniversalClient) *neighbours {
	ctx := context.Background()
	filled := func() *cursor {
		c := open(t, client)
		c.fill(fmt.Sprintf("1-%d %d-%d", persist.MaxNumber/2, persist.MaxNumber/2+1, persist.MaxNumber), 0)
		return c
	}
	newer, foreign, text := filled(), filled(), testenv.Unique()
	newer.set("v", "99")
	foreign.set("cluster", "another")
	must.Do(t, client.Set(ctx, text, "text", 0).Err())
	n := &neighbours{t: t, all: []neighbour{{filled().key, 0, "live"}, {newer.key, 1, "newer"}, {foreign.key, 1, "foreign"}, {text, 1, "error"}}}
	for _, field := range []string{"replid", "cur", "last", "queued"} { // damaged by hand
		lacks := filled()
		must.Do(t, client.HDel(ctx, lacks.key, field).Err())
		n.all = append(n.all, neighbour{lacks.key, 1, "error"})
		if field != "replid" {
			wrong := filled()
			wrong.set(field, "x")
			n.all = append(n.all, neighbour{wrong.key, 1, "error"})
		}
	}
	return n
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
		for _, b := range n.before {
			joint = append(joint, b.count, epoch)
		}
		joint = append(joint, args[keyCount+2+headLen:]...)
		for _, a := range n.after {
			joint = append(joint, a.count, epoch)
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
				n.t.Errorf("a take from %s got %v, want %s", neighbour.key, others[i], neighbour.want)
			}
		}
		cmd.(interface{ SetVal(any) }).SetVal([]any{mine})
		return nil
	}
}

// Behind one address may be servers that have their keys in slots, as behind proxies of hosted Redis.
// They refuse runs with keys of several slots. A server of a Cluster stands in for them.
func TestClusterBehindOneAddress(t *testing.T) {
	t.Parallel()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	server := testenv.StartRedis(t, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port "+strconv.Itoa(port))
	client := connect(t, server.Addr(), calm)
	command(t, client, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	eventually(t, "the server serves", func() error { return client.Set(context.Background(), "a", 1, 0).Err() })
	var wg sync.WaitGroup
	all := batchers(t, client, 16)
	for _, c := range all {
		if _, err := reopen(t, client, c.name).Take(context.Background(), rediscursor.Take{Count: 2, Threshold: 0.99}); err != nil {
			t.Errorf("alone: %v", err)
		}
	}
	for _, c := range all {
		wg.Go(func() {
			for range 20 {
				if _, err := c.Take(context.Background(), rediscursor.Take{Count: 2, Threshold: 0.99}); err != nil {
					t.Errorf("together: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
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
				must.Report(t, err)
				ledger.add(taken.Runs)
				for _, r := range taken.Runs {
					got.Add(r.Size())
				}
			}
		})
	}
	wg.Wait()
	must.Equal(t, got.Load(), 32*50*5, "the numbers")
}
