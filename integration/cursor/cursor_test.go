// Package cursor tests strategy/segment/rediscursor, the cursor in Redis, on real servers.
package cursor

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	clusterID = "a cluster"
	prefix    = "seqd:"
	// A client of the product waits for second. If nothing is broken on purpose a test waits
	// longer, because the machine may be busy.
	second = time.Second
	calm   = await.Patience
	claim  = time.Minute // long enough not to expire during a test
)

func TestMain(m *testing.M) {
	// A failure is in the output, with its seed.
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		panic(err)
	}
	m.Run()
}

// connect returns a client as the product builds it.
func connect(t testing.TB, addr string, timeout time.Duration) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// connectCluster returns a client as the product builds it. It reaches a node through the node's
// link, if it has one.
func connectCluster(t testing.TB, c *testenv.Cluster, timeout time.Duration, links map[string]*testenv.Link) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), MaxRetries: -1, DialerRetries: 1, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		DisableRoutingPolicies: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if link := links[addr]; link != nil {
				addr = link.Addr()
			}
			return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// cursor is a cursor under test with the gen it saw last. An error ends the test.
type cursor struct {
	*rediscursor.Cursor
	t      tester
	client redis.UniversalClient
	name   string // of the counter
	key    string
	gen    string
}

// open opens the cursor of a new counter.
func open(t tester, client redis.UniversalClient) *cursor {
	return reopen(t, client, testenv.Unique())
}

// reopen opens the cursor of a counter that may exist already.
func reopen(t tester, client redis.UniversalClient, name string) *cursor {
	return &cursor{
		Cursor: rediscursor.Open(rediscursor.Options{Client: client, Prefix: prefix, Cluster: clusterID}, name),
		t:      t, client: client, name: name, key: rediscursor.Key(prefix, name),
	}
}

// batched returns the same cursor, which sends its takes with batch.
func (c *cursor) batched(batch *redisbatch.Sender) *cursor {
	d := *c
	d.Cursor = rediscursor.Open(rediscursor.Options{Client: c.client, Batch: batch, Prefix: prefix, Cluster: clusterID}, c.name)
	return &d
}

// epoch is the sequencer epoch in all tests except those about epochs.
const epoch = "0123456789abcdef0123456789abcdef"

// Take calls Take of the cursor. It sets epoch unless the take has one.
func (c *cursor) Take(ctx context.Context, take rediscursor.Take) (rediscursor.Taken, error) {
	take.Epoch = cmp.Or(take.Epoch, epoch)
	return c.Cursor.Take(ctx, take)
}

// Install calls Install of the cursor. It sets epoch unless the install has one.
func (c *cursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	in.Epoch = cmp.Or(in.Epoch, epoch)
	return c.Cursor.Install(ctx, in)
}

// set changes a field of the hash by hand.
func (c *cursor) set(field, value string) {
	c.t.Helper()
	must.Do(c.t, c.client.HSet(context.Background(), c.key, field, value).Err())
}

// hash returns the hash in Redis.
func (c *cursor) hash() map[string]string {
	c.t.Helper()
	fields := must.Get(c.client.HGetAll(context.Background(), c.key).Result())(c.t)
	return fields
}

func (c *cursor) take(take rediscursor.Take) rediscursor.Taken {
	c.t.Helper()
	taken, err := c.Take(context.Background(), take)
	if err != nil {
		c.t.Fatalf("take %+v: %v", take, err)
	}
	if taken.Gen != "" {
		c.gen = taken.Gen
	}
	return taken
}

// peek reads the cursor without claiming a refill. It retries if no answer comes: it changes
// nothing, and servers on a busy machine may be slow.
func (c *cursor) peek() (taken rediscursor.Taken) {
	c.t.Helper()
	eventually(c.t, "look", func() (err error) {
		taken, err = c.Take(context.Background(), rediscursor.Take{Threshold: 0.5})
		return err
	})
	if taken.Gen != "" {
		c.gen = taken.Gen
	}
	return taken
}

// install installs with the gen that was seen last.
func (c *cursor) install(mode rediscursor.Mode, first, last int64, reserve int) rediscursor.Answer {
	c.t.Helper()
	in := rediscursor.Install{Mode: mode, Gen: c.gen, Range: persist.Range{First: first, Last: last}, Reserve: reserve}
	answer, err := c.Install(context.Background(), in)
	if err != nil {
		c.t.Fatalf("install %+v: %v", in, err)
	}
	if answer.Verdict == rediscursor.Installed {
		c.gen = answer.Gen
	}
	return answer
}

// fill seeds a new cursor with the first range and appends the others.
func (c *cursor) fill(ranges string, reserve int) {
	c.t.Helper()
	c.peek()
	mode := rediscursor.Seed
	for _, r := range parse(c.t, ranges) {
		if got := c.install(mode, r.First, r.Last, reserve); got.Verdict != rediscursor.Installed {
			c.t.Fatalf("%s %v: %v", mode, r, got)
		}
		mode = rediscursor.Append
	}
}

// parse reads "1-10 21-30".
func parse(t tester, text string) (ranges []persist.Range) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		var r persist.Range
		if _, err := fmt.Sscanf(word, "%d-%d", &r.First, &r.Last); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// show writes what was taken, such as "1-3 11-12; ceil 20 low free 1 next 13 hand 8".
func show(taken rediscursor.Taken) string {
	switch {
	case taken.Stub:
		return fmt.Sprintf("stub; ceil %d", taken.Ceil)
	case taken.Other:
		return fmt.Sprintf("other %s; ceil %d", taken.Epoch, taken.Ceil)
	}
	var runs []string
	for _, r := range taken.Runs {
		runs = append(runs, fmt.Sprintf("%d-%d", r.First, r.Last))
	}
	if taken.Gen == "" {
		return strings.Join(runs, " ") // it got everything, and no refill is needed
	}
	low := map[rediscursor.Low]string{rediscursor.Enough: "enough", rediscursor.Claimed: "claimed", rediscursor.WantsRefill: "low"}[taken.Low]
	return fmt.Sprintf("%s; ceil %d %s free %d next %d hand %d", strings.Join(runs, " "), taken.Ceil, low, taken.Free, taken.Next, taken.Hand)
}

// eventually repeats f until it returns no error.
func eventually(t tester, what string, try func() error) {
	t.Helper()
	for deadline := time.Now().Add(await.Patience); ; time.Sleep(5 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// store allocates every range once, as the real store does.
type store struct {
	mu  sync.Mutex
	max int64
}

func (s *store) allocate(size, floor int64) persist.Range {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := max(s.max, floor) + 1
	s.max = first + size - 1
	return persist.Range{First: first, Last: s.max}
}

// ledger finds numbers that were issued twice.
type ledger struct {
	t    tester
	mu   sync.Mutex
	seen map[int64]bool
	last int64 // the highest
}

func newLedger(t tester) *ledger { return &ledger{t: t, seen: map[int64]bool{}} }

func (l *ledger) add(runs []persist.Range) (count int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range runs {
		for n := r.First; n <= r.Last; n++ {
			if l.seen[n] {
				l.t.Errorf("%d was issued twice", n)
			}
			l.seen[n] = true
			count++
		}
		l.last = max(l.last, r.Last)
	}
	return count
}

// node takes numbers and refills, as a node does.
type node struct {
	*cursor
	store  *store
	ledger *ledger
	size   int64
}

func newNode(c *cursor, s *store, l *ledger) *node {
	return &node{cursor: c, store: s, ledger: l, size: 40}
}

// once takes once and refills when it is its turn.
func (n *node) once(count int64) (rediscursor.Taken, error) {
	const reserve = 1
	ctx := context.Background()
	taken, err := n.Take(ctx, rediscursor.Take{Count: count, Threshold: 0.5, Reserve: reserve, Claim: 100 * time.Millisecond})
	if err != nil {
		return taken, err
	}
	n.ledger.add(taken.Runs)
	mode := rediscursor.Append
	switch {
	case taken.Stub:
		mode = rediscursor.Seed
	case taken.Low != rediscursor.WantsRefill:
		return taken, nil
	}
	_, err = n.Install(ctx, rediscursor.Install{Mode: mode, Gen: taken.Gen, Range: n.store.allocate(n.size, taken.Ceil), Reserve: reserve})
	return taken, err
}

// take takes until it has the given count of numbers. It fails if it gets none for long.
func (n *node) take(t testing.TB, count int64) {
	t.Helper()
	for count > 0 {
		eventually(t, "take", func() error {
			taken, err := n.once(min(count, 7))
			for _, r := range taken.Runs {
				count -= r.Size()
			}
			if err == nil && len(taken.Runs) == 0 {
				err = fmt.Errorf("got %+v", taken)
			}
			return err
		})
	}
}

// tester is a test of package testing or of package rapid.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}
