package sqlfaults

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// secret is that of all subscriptions.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver receives events, and checks their signatures as Standard Webhooks says.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex     // guards what follows
	got   map[string]int // how often, by subscription and ID of the event
	last  time.Time      // when something was received last
	wrong int
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{got: make(map[string]int)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var p struct{ Data struct{ ID string } }
	_ = json.Unmarshal(body, &p)
	r.mu.Lock()
	defer r.mu.Unlock()
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp"), body)
	if err != nil || p.Data.ID == "" || req.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		r.wrong++
	}
	r.got[req.URL.Path+" "+p.Data.ID]++
	r.last = time.Now()
}

// received returns how many events were received, how many of them more than once, and how many
// requests were wrong.
func (r *receiver) received() (events, twice, wrong int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.got {
		if n > 1 {
			twice++
		}
	}
	return len(r.got), twice, r.wrong
}

// cluster is nodes by their IDs.
type cluster map[string]*node.Node

func startCluster(t *testing.T, nodes int) cluster {
	env := []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL(),
		`SEQD_BIZTYPES=[{"name":"invoice","strategy":"gapless","events":true}]`,
	}
	c := make(cluster)
	for range nodes {
		n := node.StartReady(t, t.TempDir(), env...)
		var list struct {
			Nodes []struct {
				ID   string
				Self bool
			}
		}
		_, text := n.Status("/nodes")
		must.Do(t, json.Unmarshal([]byte(text), &list))
		for _, one := range list.Nodes {
			if one.Self {
				c[one.ID] = n
			}
		}
	}
	must.Equal(t, len(c), nodes, "nodes")
	return c
}

// any returns one of the nodes.
func (c cluster) any() *node.Node {
	for _, n := range c {
		return n
	}
	return nil
}

func (c cluster) put(t *testing.T, name, url string) {
	t.Helper()
	answer := must.Get(c.any().Do(http.MethodPut, "/subscriptions/"+name, fmt.Sprintf(`{"url":%q,"bizTypes":["invoice"],"secret":%q}`, url, secret)))(t)
	must.Equal(t, answer.Status, 201, answer.Body)
}

type state struct {
	Node    string
	Pending int
}

func (c cluster) state(t *testing.T, name string) state {
	t.Helper()
	var s struct{ State state }
	_, text := c.any().Status("/subscriptions/" + name)
	must.Do(t, json.Unmarshal([]byte(text), &s))
	return s.State
}

// The node that sends is killed, and another one sends on: the receiver gets every event, signed.
func TestSenderIsKilled(t *testing.T) {
	c, r := startCluster(t, 5), newReceiver(t)
	c.put(t, "shop", r.URL+"/shop")
	total := 0
	issue := func(n int) {
		for range n {
			answer := must.Get(c.any().Do(http.MethodPost, "/seq/invoice", ""))(t)
			must.Equal(t, answer.Status, 200, answer.Body)
			total++
		}
	}
	all := func() bool { events, _, _ := r.received(); return events >= total && c.state(t, "shop").Pending == 0 }
	issue(50)
	await.True(t, "all events are received", all)
	sender := c.state(t, "shop").Node
	must.Equal(t, c[sender] != nil, true, "the node that sends is one of ours")
	c[sender].Kill()
	killed := time.Now()
	delete(c, sender)
	issue(50)
	await.True(t, "all events are received after the kill", all)
	events, twice, wrong := r.received()
	must.Equal(t, wrong, 0, "requests that are wrong")
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Logf("%d events for %d numbers; %d more than once; the last one %s after the kill, from another node: %t",
		events, total, twice, r.last.Sub(killed).Round(time.Millisecond), c.state(t, "shop").Node != sender)
}

// 1,000 subscriptions are spread over five nodes, and one of them is killed.
func TestManySubscriptions(t *testing.T) {
	const many = 1000
	c, r := startCluster(t, 5), newReceiver(t)
	for i := range many {
		c.put(t, fmt.Sprint("s", i), r.URL+fmt.Sprint("/s", i))
	}
	issue := func() {
		answer := must.Get(c.any().Do(http.MethodPost, "/seq/invoice", ""))(t)
		must.Equal(t, answer.Status, 200, answer.Body)
	}
	await.True(t, "all subscriptions have a node", func() bool {
		spread := make(map[string]int)
		for i := range many {
			spread[c.state(t, fmt.Sprint("s", i)).Node]++
		}
		t.Logf("%v", spread)
		return spread[""] == 0
	})
	begun := time.Now()
	issue()
	await.True(t, "all receive the first event", func() bool { events, _, _ := r.received(); return events >= many })
	t.Logf("%d receivers have an event %s after it happened", many, time.Since(begun).Round(time.Millisecond))
	sender := c.state(t, "s0").Node
	c[sender].Kill()
	delete(c, sender)
	begun = time.Now()
	issue()
	await.True(t, "all receive the second event", func() bool { events, _, _ := r.received(); return events >= 2*many })
	events, twice, wrong := r.received()
	t.Logf("%d deliveries of two events; %d more than once, %d wrong; the last one %s after the kill", events, twice, wrong, time.Since(begun).Round(time.Millisecond))
	must.Equal(t, wrong, 0, "requests that are wrong")
}
