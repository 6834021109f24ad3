//go:build drill

package year

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/respconn"
)

// protocols are those by which callers get numbers all the year, besides the API of seqd.
var protocols = []string{record.RESP, record.Leaf, record.Tinyid, record.CosID}

// callers send the secret of their token: with each request, or once for each connection.
type callers struct {
	*http.Transport
	secret atomic.Value
	asking sync.RWMutex // read-held by each request until it was let in or refused

	mu    sync.Mutex // guards conns
	conns []net.Conn // of the Redis protocol
}

func (c *callers) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asking.RLock()
	defer c.asking.RUnlock()
	r = r.Clone(r.Context())
	secret := c.secret.Load().(string)
	r.Header.Set("Authorization", "Bearer "+secret)
	if query := r.URL.Query(); query.Has("token") { // of Tinyid
		query.Set("token", secret)
		r.URL.RawQuery = query.Encode()
	}
	return c.Transport.RoundTrip(r)
}

// dialRESP connects to a port of the Redis protocol, and says whose secret it has.
func (c *callers) dialRESP(addr, secret string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), load.UsualPatience)
	defer cancel()
	dialer := tls.Dialer{Config: c.TLSClientConfig}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(load.UsualPatience)) // fails only if it is closed
	if _, err := respconn.New(conn).Do("AUTH " + secret); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// dial is dialRESP for the usual callers.
func (c *callers) dial(addr string) (net.Conn, error) {
	conn, err := c.dialRESP(addr, c.secret.Load().(string))
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// change gives the callers another secret, when no request has the former one any more. Those of the
// Redis protocol, which must have no command under way, connect again.
func (c *callers) change(secret string) {
	c.asking.Lock()
	c.secret.Store(secret)
	c.asking.Unlock()
	c.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// heard writes the record, and counts the calls that got numbers by each protocol, and the uses of
// worker IDs by each pool.
type heard struct {
	*record.Writer

	mu    sync.Mutex // guards count
	count map[string]int
}

func (h *heard) Write(e record.Entry) error {
	h.mu.Lock()
	switch {
	case e.Call != nil && len(e.Call.Runs) > 0:
		h.count[e.Call.Protocol]++
	case e.Use != nil:
		h.count[e.Use.Pool]++
	}
	h.mu.Unlock()
	return h.Writer.Write(e)
}

// counts returns the counts so far.
func (h *heard) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.count)
}

// more waits until callers have got more numbers: of a counter without gaps, and of another, and by
// each protocol.
func (y *year) more(count int64) {
	y.t.Helper()
	began := time.Now()
	defer func() {
		y.say("   callers got %d more numbers without a gap, in %.1f s", count, time.Since(began).Seconds())
	}()
	heard, before := y.heard.counts(), y.load.Journal.Highest()
	for _, counter := range []string{"order", "bill"} {
		y.moreNumbers(counter, count, before)
	}
	y.moreOf(heard, protocols...)
}

// moreNumbers waits until callers have got count more numbers of a counter than they had.
func (y *year) moreNumbers(counter string, count int64, before map[string]int64) {
	y.t.Helper()
	await.Eventually(y.t, fmt.Sprintf("callers get %d more numbers of %s", count, counter), func() error {
		if got := y.load.Journal.Highest()[counter] - before[counter]; got < count {
			return fmt.Errorf("they got %d", got)
		}
		return nil
	})
}

// moreOf waits until there is more of these protocols or pools than there was.
func (y *year) moreOf(was map[string]int, names ...string) {
	y.t.Helper()
	for _, name := range names {
		await.True(y.t, "callers of "+name+" get more", func() bool { return y.heard.counts()[name] > was[name] })
	}
}

// marks writes how far gapless counters have come, as callers know, for the operator. No call is
// under way meanwhile.
func (y *year) marks() (file string) {
	y.load.Sending.Lock()
	highest := y.load.Journal.Highest()
	y.load.Sending.Unlock()
	var lines strings.Builder
	for counter, number := range highest {
		bizType, _, _ := strings.Cut(counter, "/")
		if s := y.load.Shape(bizType); s.Strategy == record.Gapless {
			fmt.Fprintf(&lines, "%s,%d\n", counter, number)
		}
	}
	file = filepath.Join(y.dir, fmt.Sprintf("callers-%d.csv", y.faults))
	must.Do(y.t, os.WriteFile(file, []byte(lines.String()), 0o600))
	return file
}
