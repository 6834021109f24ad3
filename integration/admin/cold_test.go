package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// Three nodes that keep few biz types open are asked for many at random, while they are restarted one
// after the other: no number comes twice, and at most one request in a thousand is refused.
func TestRollingRestartOfColdBizTypes(t *testing.T) {
	t.Parallel()
	many, live, pause := 600, 100, 500*time.Millisecond
	if longtest.Tests() {
		many, live, pause = 5000, 300, 4*time.Second
	}
	settings := append(fleet.Postgres(t), "SEQD_REDIS_ADDRS="+testenv.StartRedis(t).Addr(),
		"SEQD_BIZTYPESFROM=store", "SEQD_BIZTYPEIDLE=2s", fmt.Sprint("SEQD_LIVEBIZTYPES=", live))
	nodes := fleet.Start(t, 3, settings...)
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprintf("type%05d", i)
		definition := `{"ordering":"strict"}`
		if i%3 == 0 {
			definition = `{"ordering":"per-node"}`
		}
		if a, err := nodes[i%3].Node.Do("PUT", "/biz-types/"+names[i], definition); err != nil || a.Status != http.StatusCreated {
			t.Fatalf("%v, %d: %s", err, a.Status, a.Body)
		}
	}
	c, err := client.New(client.Config{Addrs: []string{"http://" + nodes[0].HTTP, "http://" + nodes[1].HTTP, "http://" + nodes[2].HTTP}, Timeout: time.Minute, Wait: await.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	var (
		asked, refused atomic.Int64
		callers        sync.WaitGroup
		mu             sync.Mutex // guards seen
		seen           = make(map[string]bool)
	)
	for range 16 {
		callers.Go(func() {
			for ctx.Err() == nil {
				name := names[rand.IntN(many)]
				asked.Add(1)
				id, err := c.Next(t.Context(), name)
				if err != nil {
					refused.Add(1)
					t.Logf("%s: %v", name, err)
					continue
				}
				mu.Lock()
				if seen[name+" "+id] {
					t.Errorf("%s of %s twice", id, name)
				}
				seen[name+" "+id] = true
				mu.Unlock()
			}
		})
	}
	for range 2 {
		for _, n := range nodes {
			time.Sleep(pause) // the load goes on
			want := asked.Load() + 50
			await.True(t, "the load goes on", func() bool { return asked.Load() >= want })
			n.Node.Stop()
			n.Start()
		}
	}
	stop()
	callers.Wait()
	t.Logf("%d requests, %d refused", asked.Load(), refused.Load())
	if refused.Load() > max(1, asked.Load()/1000) {
		t.Errorf("%d of %d requests were refused", refused.Load(), asked.Load())
	}
	for _, n := range nodes {
		var answer struct {
			Nodes []struct {
				Self     bool `json:"self"`
				BizTypes int  `json:"bizTypes"`
			} `json:"nodes"`
		}
		_, body := n.Node.Status("/nodes")
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		for _, self := range answer.Nodes {
			if self.Self && self.BizTypes > 2*live {
				t.Errorf("a node holds %d biz types", self.BizTypes)
			}
		}
	}
}
