//go:build java

package compat

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// crowd is a set of callers that take numbers of one biz type from nodes that are killed meanwhile.
type crowd struct {
	t       *testing.T
	nodes   []*fleet.Member
	token   string
	http    *http.Client
	ended   chan struct{}
	once    sync.Once
	wait    sync.WaitGroup
	all     *ordercheck.Record // every number
	ordered *ordercheck.Record // those of calls whose order is promised: not those of the clients in Java

	mu    sync.Mutex // guards taken
	taken map[string]*atomic.Int64
}

func newCrowd(t *testing.T, nodes []*fleet.Member, token string) *crowd {
	c := &crowd{
		t: t, nodes: nodes, token: token, ended: make(chan struct{}), all: ordercheck.New(), ordered: ordercheck.New(),
		http:  &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		taken: make(map[string]*atomic.Int64),
	}
	t.Cleanup(c.leave) // if the test fails
	return c
}

// counter counts the numbers of a kind of callers.
func (c *crowd) counter(kind string) *atomic.Int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken[kind] == nil {
		c.taken[kind] = new(atomic.Int64)
	}
	return c.taken[kind]
}

// errNotAnswered is wrapped by the error of a call that got no answer, or that a node refused
// because it starts, stops or lost its store. Such a call may be repeated.
var errNotAnswered = errors.New("not answered")

// enter starts callers. Each calls take again and again, with another node each time, until leave.
func (c *crowd) enter(kind string, callers int, take func(addr string) ([]int64, error)) {
	counter := c.counter(kind)
	for caller := range callers {
		c.wait.Go(func() {
			who := fmt.Sprintf("%s %d", kind, caller)
			for i := caller; ; i++ {
				select {
				case <-c.ended:
					return
				default:
				}
				began := c.all.Now()
				numbers, err := take(c.nodes[i%len(c.nodes)].HTTP)
				switch {
				case errors.Is(err, errNotAnswered):
					time.Sleep(5 * time.Millisecond) // not all callers spin while a node is away
				case err != nil:
					c.t.Errorf("%s: %v", who, err)
					return
				default:
					call := ordercheck.Call{Start: began, End: c.all.Now(), Who: who, Numbers: numbers}
					c.all.AddCall(call)
					c.ordered.AddCall(call)
					counter.Add(int64(len(numbers)))
				}
			}
		})
	}
}

// more waits until every kind of callers has got n further numbers.
func (c *crowd) more(n int64) {
	c.t.Helper()
	c.mu.Lock()
	want := make(map[string]int64)
	for kind, counter := range c.taken {
		want[kind] = counter.Load() + n
	}
	c.mu.Unlock()
	for deadline := time.Now().Add(await.Patience); len(want) > 0; time.Sleep(5 * time.Millisecond) {
		for kind, to := range want {
			if c.counter(kind).Load() >= to {
				delete(want, kind)
			}
		}
		if time.Now().After(deadline) || c.t.Failed() {
			c.t.Fatalf("these callers get no numbers: %v", want)
		}
	}
}

// leave ends all callers.
func (c *crowd) leave() {
	c.once.Do(func() { close(c.ended) })
	c.wait.Wait()
}

// check requires that no number came twice, and order where it is promised.
func (c *crowd) check() {
	c.t.Helper()
	must.Report(c.t, c.all.Duplicates())
	must.Report(c.t, c.ordered.Order())
	for _, kind := range slices.Sorted(keys(c.taken)) {
		c.t.Logf("%s: %d numbers", kind, c.taken[kind].Load())
	}
}

func keys[V any](m map[string]V) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ask gets the answer of a node.
func (c *crowd) ask(url string) (status int, kind, body string, err error) {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", "", err
	}
	if strings.Contains(url, "/seq/") {
		req.Header.Set("Accept", "text/plain")
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", "", fmt.Errorf("%w: %w", errNotAnswered, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, "", "", fmt.Errorf("%w: %w", errNotAnswered, err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(text), nil
}

// seq takes a number by GET /seq.
func (c *crowd) seq(addr string) ([]int64, error) {
	status, _, body, err := c.ask("http://" + addr + "/seq/" + bizType)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusServiceUnavailable:
		return nil, errNotAnswered
	case status != http.StatusOK:
		return nil, fmt.Errorf("GET /seq answers %d: %s", status, body)
	}
	return parse(strings.TrimSuffix(body, "\n"))
}

// leaf takes a number as Leaf's callers do.
func (c *crowd) leaf(addr string) ([]int64, error) {
	status, kind, body, err := c.ask("http://" + addr + "/api/segment/get/" + bizType)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusInternalServerError && strings.Contains(body, `"message":"Result{id=-`):
		return nil, errNotAnswered
	case status != http.StatusOK || kind != "text/plain;charset=UTF-8":
		return nil, fmt.Errorf("the route of Leaf answers %d, %s: %s", status, kind, body)
	}
	return parse(body)
}

func parse(text string) ([]int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return nil, fmt.Errorf("%q is no number", text)
	}
	return []int64{n}, nil
}
