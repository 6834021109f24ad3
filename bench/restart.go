package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	restartNodes = 3
	// restartRate is the rate of the load. Nearly every request is the first for its biz type, and so
	// a write of the store.
	restartRate = 500
	// restartPause is how long all nodes are up between two restarts.
	restartPause = 2 * time.Second
	// probePause is the pause between two probes of a balancer.
	probePause = 100 * time.Millisecond
)

// benchRestart restarts three nodes one after the other while random biz types of a million are asked
// for through a balancer.
func benchRestart(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		if err := s.startRedisAndPostgres(ctx); err != nil {
			return nil, err
		}
		env, err := s.onPostgres(ctx, "restart", true)
		if err != nil {
			return nil, err
		}
		if err := s.fillPostgres(ctx, "restart", o.binary, o.million(), env); err != nil {
			return nil, err
		}
		var good, p99, longest []float64
		for range o.rounds {
			t, down, err := s.roll(ctx, o, append(env, fromStore))
			if err != nil {
				return nil, err
			}
			slices.Sort(t.took)
			good = append(good, 100*float64(len(t.took))/float64(len(t.took)+t.bad))
			p99, longest = append(p99, permille(t.took, 990)), append(longest, down)
		}
		what := fmt.Sprintf("3 nodes restarted in turn, %s biz types at random", thousands(float64(o.million())))
		return []result{
			report(what+": good answers", good, percent).atLeast(99.9),
			report(what+": p99", p99, milliseconds),
			report(what+": longest from SIGTERM until ready again", longest, seconds),
		}, nil
	})
}

// roll starts the nodes, restarts each under load and stops them. It returns what the callers saw, and
// the longest time in µs that a node was away.
func (s *servers) roll(ctx context.Context, o options, env []string) (t *tally, longest float64, err error) {
	nodes := make([]node, restartNodes)
	var addrs []string
	for i := range nodes {
		if nodes[i], err = s.startNode(ctx, o.binary, env...); err != nil {
			return nil, 0, err
		}
		addrs = append(addrs, nodes[i].url)
	}
	b := newBalancer(addrs)
	load, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	all.Go(func() { b.probe(load) })
	t = newTally()
	all.Go(func() { t.load(load, b, o.million()) })
	time.Sleep(restartPause)
	for i := range nodes {
		began := time.Now()
		err := nodes[i].stop()
		if err == nil {
			nodes[i], err = s.startNodeAt(ctx, nodes[i].url[len("http://"):], nodes[i].dir, o.binary, "/readyz", env...)
		}
		if err != nil {
			return nil, 0, err
		}
		longest = max(longest, float64(time.Since(began).Microseconds()))
		time.Sleep(restartPause)
	}
	stop()
	all.Wait()
	if t.twice != "" {
		return nil, 0, fmt.Errorf("two requests got the answer %s", t.twice)
	}
	if len(t.took) == 0 {
		return nil, 0, errors.New("no request got a number")
	}
	for _, n := range nodes {
		err = errors.Join(err, n.stop())
	}
	return t, longest, err
}

// balancer passes requests to nodes as a load balancer does: in turn to those whose last probe was
// good, and to the next one if a connection is refused.
type balancer struct {
	urls   []string
	up     []atomic.Bool
	turn   atomic.Uint64
	client *http.Client
}

func newBalancer(urls []string) *balancer {
	b := &balancer{urls: urls, up: make([]atomic.Bool, len(urls)), client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: connections}, Timeout: 5 * time.Second,
	}}
	for i := range b.up {
		b.up[i].Store(true)
	}
	return b
}

// probe asks every node if it is ready, until ctx ends.
func (b *balancer) probe(ctx context.Context) {
	for ctx.Err() == nil {
		for i, url := range b.urls {
			_, status, _ := b.get(ctx, url+"/readyz")
			b.up[i].Store(status == http.StatusOK)
		}
		time.Sleep(probePause)
	}
}

// ask returns the body of a good answer.
func (b *balancer) ask(ctx context.Context, path string) (body string, good bool) {
	first := int(b.turn.Add(1))
	for i := range b.urls {
		at := (first + i) % len(b.urls)
		if !b.up[at].Load() {
			continue
		}
		body, status, err := b.get(ctx, b.urls[at]+path)
		if errors.Is(err, syscall.ECONNREFUSED) {
			b.up[at].Store(false)
			continue
		}
		return body, err == nil && status == http.StatusOK
	}
	return "", false
}

func (b *balancer) get(ctx context.Context, url string) (body string, status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", 0, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return "", 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), resp.StatusCode, err
}

// tally counts answers.
type tally struct {
	mu    sync.Mutex // guards what follows
	took  []time.Duration
	bad   int
	seen  map[string]bool
	twice string // an answer that was given twice, which must never happen
}

func newTally() *tally { return &tally{seen: make(map[string]bool)} }

// load asks for random biz types at a fixed rate until ctx ends, and waits for the last answers.
func (t *tally) load(ctx context.Context, b *balancer, types int) {
	var all sync.WaitGroup
	defer all.Wait()
	began := time.Now()
	for n := 0; ; n++ {
		due := began.Add(time.Duration(n) * time.Second / restartRate)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(due)):
		}
		all.Go(func() {
			body, good := b.ask(context.WithoutCancel(ctx), "/seq/"+typeName(rand.IntN(types)))
			t.note(body, good, time.Since(due))
		})
	}
}

func (t *tally) note(body string, good bool, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !good {
		t.bad++
		return
	}
	if t.seen[body] {
		t.twice = body
	}
	t.seen[body] = true
	t.took = append(t.took, took)
}
