package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
)

// bufferSizes are the sizes of the buffers of the Go client, by biz type. They differ, so that nodes
// get requests of several sizes.
var bufferSizes = map[string]int{"order": 200, "local": 2000, "ledger": 500, "user": 1000}

// buffers runs one buffer of the Go client for each of bufferSizes until ctx ends.
func (l *laboratory) buffers(ctx context.Context, d *load.Dice) {
	var all sync.WaitGroup
	defer all.Wait()
	for i := range l.Shapes {
		s := &l.Shapes[i]
		if size := bufferSizes[s.Name]; size > 0 {
			own := d.Split(i)
			all.Go(func() { l.buffer(ctx, own, s, size) })
		}
	}
}

// buffer takes numbers from a buffer. Its requests are recorded as calls. What it hands out must be
// what it fetched, each number once.
func (l *laboratory) buffer(ctx context.Context, d *load.Dice, s *load.Shape, size int) {
	fetched := &fetches{l: l, base: load.NewHTTPClient().Transport, shape: s, left: make(map[int64]bool)}
	var addrs []string
	for _, n := range l.world.seqds {
		addrs = append(addrs, n.URL())
	}
	c, err := client.New(client.Config{Addrs: addrs, Transport: fetched, Timeout: load.UsualPatience})
	if err != nil {
		l.Journal.Find("the Go client: %v", err)
		return
	}
	b, err := c.Buffer(s.Name, client.BufferOptions{Size: size})
	if err != nil {
		l.Journal.Find("a buffer of the Go client: %v", err)
		return
	}
	defer b.Close()
	for ctx.Err() == nil {
		r := d.Next()
		for range 1 + r.IntN(size/4) {
			within, cancel := context.WithTimeout(ctx, load.UsualPatience)
			id, err := b.Next(within)
			cancel()
			if err != nil {
				break // the calls that it made are in the record
			}
			if err := fetched.take(id); err != nil {
				l.Journal.Find("a buffer of %s: %v", s.Name, err)
				return
			}
		}
		load.Rest(ctx, load.UpTo(r, 200*time.Millisecond))
	}
}

// fetches is the transport of a client. It records each request as a call, and keeps the numbers
// that came and were not handed out yet.
type fetches struct {
	l     *laboratory
	base  http.RoundTripper
	shape *load.Shape

	mu   sync.Mutex // guards left
	left map[int64]bool
}

// RoundTrip implements [http.RoundTripper].
func (f *fetches) RoundTrip(req *http.Request) (*http.Response, error) {
	l := f.l
	at := slices.IndexFunc(l.world.seqds, func(n *seqd) bool { return n.addr() == req.URL.Host })
	count, err := strconv.Atoi(req.URL.Query().Get("count"))
	if err != nil || at < 0 || strings.TrimPrefix(req.URL.Path, "/seq/") != f.shape.Name {
		return nil, fmt.Errorf("a request that the laboratory does not know: %s", req.URL)
	}
	n := l.world.seqds[at]
	c := &record.Call{Node: n.Name(), BizType: f.shape.Name, Kind: record.Batch, Protocol: record.Client, Asked: count}
	l.Sending.RLock()
	defer l.Sending.RUnlock()
	life := n.Life()
	c.Start = l.Journal.Now()
	resp, body, err := f.exchange(req)
	c.End = l.Journal.Now()
	if life == n.Life() {
		c.Life = life
	}
	if err != nil {
		c.Code = load.Complaint(err)
	} else {
		c.Status = resp.StatusCode
		load.ReadNumbers(c, f.shape, count, body)
		f.keep(c)
	}
	l.Journal.Call(c)
	return resp, err
}

// exchange sends a request and reads the whole answer, which the client reads again.
func (f *fetches) exchange(req *http.Request) (*http.Response, []byte, error) {
	resp, err := f.base.RoundTrip(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, body, nil
}

// keep keeps the numbers of an answer.
func (f *fetches) keep(c *record.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Status != http.StatusOK {
		return
	}
	for _, run := range c.Runs {
		for i := range run.Count {
			f.left[run.First+i*run.Step] = true
		}
	}
}

// take returns an error if a number that the buffer hands out did not come, or was handed out before.
func (f *fetches) take(id string) error {
	number, ok := load.Decimal(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ok || !f.left[number] {
		return fmt.Errorf("it handed out %q, which did not come or was handed out before", id)
	}
	delete(f.left, number)
	return nil
}
