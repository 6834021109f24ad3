package resp

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// Three nodes share a store, and are killed in turn under pipelines of 16 connections. No number
// comes twice, and all are in strict order over all connections.
func TestNodesAreKilled(t *testing.T) {
	for name, start := range map[string]func(testing.TB) []string{"postgres": fleet.Postgres, "mongo and redis": fleet.MongoAndRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			members := fleet.Start(t, 3, slices.Concat(start(t), []string{`SEQD_BIZTYPES=[{"name":"order","step":1000,"maxStep":100000}]`})...)
			l := newLoad(t)
			l.start(addrsOf(members)...)
			for range longtest.Or(2, 6) {
				for _, m := range members {
					l.more(2000)
					m.Kill()
					l.more(2000)
					m.Start()
				}
			}
			l.more(2000)
			l.stop()
			l.check()
		})
	}
}

func addrsOf(members []*fleet.Member) (addrs []string) {
	for _, m := range members {
		addrs = append(addrs, m.RESP)
	}
	return addrs
}

// check requires that no number came twice and that all are in order.
func (l *load) check() {
	l.t.Helper()
	if err := l.history.Check(); err != nil {
		l.t.Error(err)
	}
	l.t.Logf("%d numbers, %d calls failed", l.taken.Load(), l.failed.Load())
}

// A proxy cuts each connection after some bytes of answers. What arrived whole counts, and half an
// answer does not: no number comes twice.
func TestAnswersAreCut(t *testing.T) {
	addr := testenv.ReserveAddr(t)
	node.StartReady(t, t.TempDir(), "SEQD_RESP_ADDR="+addr, `SEQD_BIZTYPES=[{"name":"order"}]`)
	link := testenv.NewLink(t, addr)
	l := newLoad(t)
	link.LimitReplies(1)
	l.start(link.Addr())
	for bytes := int64(150); bytes < 150+int64(longtest.Or(20, 200)); bytes++ {
		link.LimitReplies(bytes)
		l.fails(5)
		l.more(50)
	}
	link.LimitReplies(0)
	l.more(2000)
	l.stop()
	l.check()
}

// A node is asked to stop under load. Every number that it took for a caller arrives there: none is
// skipped, none comes twice, and no connection is left open.
func TestDrain(t *testing.T) {
	dir, addr := t.TempDir(), testenv.ReserveAddr(t)
	// One segment is enough: INCRBY skips the rest of one that other callers leave too few numbers in.
	env := []string{"SEQD_RESP_ADDR=" + addr, `SEQD_BIZTYPES=[{"name":"order","step":1000000}]`}
	for range longtest.Or(2, 10) {
		n := node.StartReady(t, dir, env...)
		idle, err := respconn.Dial(addr, patience, nil)
		if err != nil {
			t.Fatal(err)
		}
		first := one(t, idle)
		l := newLoad(t)
		l.untilEnd = true
		l.start(addr)
		l.more(5000)
		began := time.Now()
		n.Stop()
		l.wait.Wait()
		l.check()
		if err := idle.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if answer, err := idle.Read(); err == nil {
			t.Errorf("an idle connection got %v", answer)
		} else if timeout, is := err.(interface{ Timeout() bool }); is && timeout.Timeout() {
			t.Errorf("an idle connection is open after the node ended")
		}
		if skipped := l.history.Highest() - first - int64(l.history.Numbers()); skipped != 0 {
			t.Errorf("%d numbers were taken and did not arrive", skipped)
		}
		t.Logf("stopped in %v", time.Since(began).Round(time.Millisecond))
	}
}

// one takes a number.
func one(t *testing.T, c *respconn.Conn) int64 {
	t.Helper()
	answer, err := c.Do("INCR order")
	if n, is := answer.(int64); is && err == nil {
		return n
	}
	t.Fatalf("INCR got %v, %v", answer, err)
	return 0
}

// Requests wait for a store that hangs, until all places are taken. Then a command is refused at
// once, by HTTP and by the Redis protocol, and both are served again when the store is back.
func TestOverload(t *testing.T) {
	const places = 4
	p, addr := testenv.StartPostgres(t), testenv.ReserveAddr(t)
	n := node.StartReady(t, t.TempDir(), "SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL="+p.URL(), "SEQD_RESP_ADDR="+addr,
		`SEQD_BIZTYPES=[{"name":"order"}]`, fmt.Sprintf("SEQD_SERVER_MAXINFLIGHT=%d", places))
	c, err := respconn.Dial(addr, patience, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := one(t, c)
	p.Pause()
	var waiting []*respconn.Conn
	for range places {
		w, err := respconn.Dial(addr, patience, nil)
		if err == nil {
			err = w.Send("INCR order")
		}
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, w)
	}
	full := fmt.Sprintf("\nseqd_http_requests_in_flight %d\n", places)
	await.True(t, "all places are taken", func() bool {
		_, metrics := n.Status("/metrics")
		return strings.Contains(metrics, full)
	})
	if status, body := n.Status("/seq/order"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"overloaded"`) {
		t.Errorf("HTTP without a place: %d %s", status, body)
	}
	answer, err := c.Do("INCR order")
	if !strings.HasPrefix(fmt.Sprint(err), "BUSY overloaded: ") {
		t.Errorf("without a place: %v, %v", answer, err)
	}
	if answer, err = c.Do("PING"); answer != "PONG" || err != nil {
		t.Errorf("PING: %v, %v", answer, err)
	}
	p.Resume()
	for _, w := range waiting {
		answer, err := w.Read()
		if n, is := answer.(int64); !is || n <= last {
			t.Errorf("after %d, a command that waited got %v, %v", last, answer, err)
		}
	}
	one(t, c)
}
