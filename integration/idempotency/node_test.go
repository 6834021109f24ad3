package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

// fleet has the servers that nodes share.
type fleet struct {
	*testing.T
	mongo *testenv.Mongo
	redis *testenv.Redis // nil if answers are in the store
	env   []string
}

// newFleet starts the servers. The biz type order has small ranges and order per node.
func newFleet(t *testing.T, withRedis bool) *fleet {
	f := &fleet{T: t, mongo: testenv.StartMongo(t)}
	f.env = []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + f.mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + f.mongo.Database(),
		"SEQD_SEGMENT_ORDERING=per-node", "SEQD_SEGMENT_STEP=10", "SEQD_SEGMENT_MAXSTEP=10",
		`SEQD_BIZTYPES=[{"name":"order","start":100},{"name":"other","start":100}]`,
	}
	if withRedis {
		f.redis = testenv.StartRedis(t)
		f.env = append(f.env, "SEQD_REDIS_ADDRS="+f.redis.Addr())
	}
	return f
}

func (f *fleet) node(env ...string) *node.Node {
	f.Helper()
	return node.StartReady(f, f.TempDir(), append(slices.Clone(f.env), env...)...)
}

// answer is the answer to a request.
type answer struct {
	status   int
	ids      string // separated by spaces
	code     string
	replayed bool
	retry    string
}

var client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// post asks for count numbers with a key.
func post(n *node.Node, bizType, key string, count int) (a answer, err error) {
	req, err := http.NewRequest(http.MethodPost, fmt.Sprintf("%s/seq/%s?count=%d", n.URL, bizType, count), nil)
	if err != nil {
		return a, err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	var body struct {
		IDs  []string
		Code string
	}
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	return answer{resp.StatusCode, strings.Join(body.IDs, " "), body.Code, resp.Header.Get("Idempotent-Replayed") == "true", resp.Header.Get("Retry-After")}, err
}

func (f *fleet) post(n *node.Node, key string, count int) answer {
	f.Helper()
	a, err := post(n, "order", key, count)
	if err != nil {
		f.Fatalf("%v\n%s", err, n.Log())
	}
	return a
}

// claimed waits until Redis has a key.
func (f *fleet) claimed() {
	f.Helper()
	await.True(f, "the key is claimed", func() bool { return len(keysOf(f, f.redis.Client(), "seqd:")) > 0 })
}

// expire checks that every key in Redis expires in the given time, and that none contains the
// Idempotency-Key.
func (f *fleet) expire(least, most time.Duration) {
	f.Helper()
	if f.redis == nil {
		return
	}
	keys := keysOf(f, f.redis.Client(), "seqd:")
	if len(keys) != 1 || strings.Contains(keys[0], "order") {
		f.Errorf("entries %q", keys)
	}
	for _, key := range keys {
		if left, err := f.redis.Client().PTTL(f.Context(), key).Result(); err != nil || left < least || left > most {
			f.Errorf("a key has %v left, %v", left, err)
		}
	}
}

// The same key gets the same numbers on every node, also after all nodes have restarted.
func TestNodes(t *testing.T) {
	t.Parallel()
	for name, withRedis := range map[string]bool{"Redis": true, "store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, withRedis)
			f.env = append(f.env, "SEQD_IDEMPOTENCY_TTL=1h")
			a, b := f.node(), f.node()
			first := f.post(a, "k", 5)
			if first.status != http.StatusOK || first.replayed || first.ids == "" {
				t.Fatalf("got %+v", first)
			}
			f.expire(55*time.Minute, time.Hour)
			first.replayed = true
			if again := f.post(b, "k", 5); again != first {
				t.Errorf("got %+v, then %+v", first, again)
			}
			if got := f.post(b, "k", 4); got.status != http.StatusUnprocessableEntity || got.code != "idempotency_key_reused" {
				t.Errorf("another count got %+v", got)
			}
			if other, err := post(a, "other", "k", 4); err != nil || other.status != http.StatusOK || other.replayed {
				t.Errorf("another biz type got %+v, %v", other, err)
			}
			a.Kill()
			b.Stop()
			if again := f.post(f.node(), "k", 5); again != first {
				t.Errorf("got %+v, after a restart %+v", first, again)
			}
		})
	}
}

// Nodes get the same keys at the same time while one of them is killed. Each key has one answer,
// whatever the order of events.
func TestKilledUnderLoad(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for name, withRedis := range map[string]bool{"Redis": true, "store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, withRedis)
			a, b := f.node(), f.node()
			const keys = 300
			var (
				wg       sync.WaitGroup
				answered atomic.Int64
				mu       sync.Mutex // guards got
				got      = make(map[string]string)
			)
			keep := func(key string, an answer) {
				mu.Lock()
				defer mu.Unlock()
				if before, known := got[key]; known && before != an.ids {
					t.Errorf("%s got %s and %s", key, before, an.ids)
				}
				got[key] = an.ids
			}
			for worker := range 16 {
				n := []*node.Node{a, b}[worker%2]
				wg.Go(func() {
					for i := range keys {
						key := fmt.Sprint("key", i)
						an, err := post(n, "order", key, 2)
						if err == nil && an.status == http.StatusOK {
							keep(key, an)
							if answered.Add(1) == 4*keys {
								a.Kill()
							}
						}
					}
				})
			}
			wg.Wait()
			seen := make(map[string]string)
			for i := range keys {
				key := fmt.Sprint("key", i)
				an := f.post(b, key, 2)
				if an.status != http.StatusOK {
					t.Fatalf("%s got %+v", key, an)
				}
				keep(key, an)
				for id := range strings.SplitSeq(an.ids, " ") {
					if of, twice := seen[id]; twice {
						t.Errorf("%s was issued for %s and for %s", id, of, key)
					}
					seen[id] = key
				}
			}
		})
	}
}

// blocked starts a node that has claimed the key k for 500 numbers and cannot get them, because its
// link to the store hangs.
func (f *fleet) blocked() (n *node.Node, link *testenv.Link, answered chan answer) {
	f.Helper()
	link = testenv.NewLink(f, f.mongo.Addr())
	n = f.node("SEQD_STORE_MONGO_URI=mongodb://" + link.Addr())
	link.Hang()
	answered = make(chan answer, 1)
	go func() {
		a, _ := post(n, "order", "k", 500)
		answered <- a
	}()
	f.claimed()
	return n, link, answered
}

// A node is killed in the middle of issuing. Another node takes the key over when the claim ends,
// while its first caller waits.
func TestKilledWhileIssuing(t *testing.T) {
	t.Parallel()
	f := newFleet(t, true)
	b, c := f.node(), f.node()
	a, _, answered := f.blocked()
	a.Kill()
	if got := <-answered; got.ids != "" {
		t.Errorf("a killed node answered %+v", got)
	}
	first := f.post(b, "k", 500)
	if first.status != http.StatusOK || first.replayed {
		t.Fatalf("got %+v", first)
	}
	first.replayed = true
	if again := f.post(c, "k", 500); again != first {
		t.Errorf("got %+v, then %+v", first, again)
	}
}

// A node that is alive keeps its claim, however long issuing takes. Other callers wait, and are
// then told to retry.
func TestSlowIssuing(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	f := newFleet(t, true)
	b := f.node()
	_, link, answered := f.blocked()
	if got := f.post(b, "k", 500); got.status != http.StatusServiceUnavailable || got.code != "timeout" || got.retry == "" {
		t.Errorf("a concurrent request gets %+v", got)
	}
	if got := f.post(b, "k", 1); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another count gets %+v", got)
	}
	link.Resume()
	first := <-answered
	if first.status != http.StatusOK || first.replayed {
		t.Fatalf("got %+v", first)
	}
	first.replayed = true
	if again := f.post(b, "k", 500); again != first {
		t.Errorf("got %+v, then %+v", first, again)
	}
}

// A node is paused in the middle of issuing until its claim has expired. It must not answer with
// its own numbers then.
func TestPausedWhileIssuing(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	f := newFleet(t, true)
	b := f.node()
	a, link, answered := f.blocked()
	a.Pause()
	link.Resume()
	first := f.post(b, "k", 500)
	if first.status != http.StatusOK || first.replayed {
		t.Fatalf("got %+v", first)
	}
	a.Resume()
	first.replayed = true
	if got := <-answered; got != first && got.status != http.StatusServiceUnavailable {
		t.Errorf("the paused node answered %+v, the other one %+v", got, first)
	}
	if again := f.post(a, "k", 500); again != first {
		t.Errorf("got %+v, then %+v", first, again)
	}
}

// While Redis is away requests with a key are rejected, even if they were answered before. Requests
// without a key are served.
func TestNodesWithoutRedis(t *testing.T) {
	t.Parallel()
	f := newFleet(t, true)
	link := testenv.NewLink(t, f.redis.Addr())
	n := f.node("SEQD_REDIS_ADDRS=" + link.Addr())
	first := f.post(n, "k", 2)
	link.Cut()
	for _, key := range []string{"k", "l"} {
		if got := f.post(n, key, 2); got.status != http.StatusServiceUnavailable || got.code != "redis_unavailable" || got.retry == "" {
			t.Errorf("%s got %+v", key, got)
		}
	}
	if _, err := n.Take("order", 2); err != nil {
		t.Errorf("without a key: %v", err)
	}
	link.Restore()
	first.replayed = true
	await.True(t, "Redis is back", func() bool {
		again := f.post(n, "k", 2)
		if again.status == http.StatusOK && again != first {
			t.Fatalf("got %+v, then %+v", first, again)
		}
		return again == first
	})
}

// One node with its own file.
func TestBoltKilled(t *testing.T) {
	t.Parallel()
	f, dir := &fleet{T: t}, t.TempDir()
	n := node.StartReady(t, dir)
	got := make(map[string]answer)
	for i := range 20 {
		key := fmt.Sprint(i)
		got[key] = f.post(n, key, 3)
	}
	n.Kill()
	n = node.StartReady(t, dir)
	for key, first := range got {
		first.replayed = true
		if again := f.post(n, key, 3); again != first || first.status != http.StatusOK {
			t.Errorf("%s got %+v, after a restart %+v", key, first, again)
		}
	}
}
