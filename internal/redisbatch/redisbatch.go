// Package redisbatch lets the calls of concurrent callers share round trips to Redis. Calls of one
// script with equal [redisonce.Alike] ([redisonce.Script.Joint]) also share runs of it, except in a
// Cluster and behind a proxy that has slots.
//
// To send another kind of call, build it with package redisonce and pass it to [Sender.Do], with a
// context that cannot be cancelled. The call must be quick, because up to 255 others wait for its
// answer. It must not block, and must not need a connection of its own. Its caller must accept that
// the outcome can be unknown.
package redisbatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/sharedspan"
)

const (
	// most is how many calls a batch has. One that is full is sent at once.
	most = 256
	// patience is how long a call waits for the answers to others. Then it is sent although a
	// server has not answered them: they may be on a connection that hangs.
	patience = 10 * time.Millisecond
)

// Sender sends calls to Redis, each once. If nothing is under way to a server, a call is sent at
// once. Calls that arrive while something is, form a batch: it is sent when the answers come. So an
// idle process adds no delay, and a busy one has one round trip for many calls.
//
// The servers of a Cluster have batches of their own, so no call waits for another server. A Sender
// is safe for concurrent use.
type Sender struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // client, if it is one of a Cluster
	slots   atomic.Bool          // keys are in slots, so no run of a script may have several

	mu    sync.Mutex // guards what follows
	lanes map[redis.UniversalClient]*lane
}

// lane is what is under way to a server. There is none for a server that nothing is under way to.
// It is guarded by the sender's mu.
type lane struct {
	to      redis.UniversalClient // the key of lanes
	flights int                   // batches and single calls under way
	forming *batch                // nil if no call waits
}

// batch is calls that are sent together. It is guarded by the sender's mu until it is sent.
type batch struct {
	lane  *lane
	calls []*redisonce.Call
	span  sharedspan.Span
	timer *time.Timer   // sends the batch after patience
	done  chan struct{} // closed when the calls have their outcomes
}

// New returns a sender that uses client, which must bound the time of every call and pipeline.
func New(client redis.UniversalClient) *Sender {
	s := &Sender{client: client, lanes: make(map[redis.UniversalClient]*lane)}
	s.cluster, _ = client.(*redis.ClusterClient)
	s.slots.Store(s.cluster != nil)
	return s
}

// Do sends a call and sets its Reply and Err. A call that can be cancelled with ctx is sent alone, at
// once: a caller who leaves must neither wait for the batch of others nor end it. So is a call whose
// server is not known yet.
func (s *Sender) Do(ctx context.Context, call *redisonce.Call) {
	to := s.server(call)
	if to == nil || ctx.Done() != nil {
		call.Send(ctx, s.client)
		return
	}
	span := trace.SpanFromContext(ctx)
	s.mu.Lock()
	l := s.lanes[to]
	if l == nil {
		l = &lane{to: to, flights: 1}
		s.lanes[to] = l
		s.mu.Unlock()
		defer s.landed(l) // also if the client panics: others wait
		call.Send(ctx, s.client)
		return
	}
	if l.forming == nil {
		b := &batch{lane: l, done: make(chan struct{})}
		b.timer = time.AfterFunc(patience, func() { s.impatient(b) })
		l.forming = b
	}
	b := l.forming
	b.calls = append(b.calls, call)
	b.span.Join(span)
	full := len(b.calls) == most
	if full {
		l.launch()
	}
	s.mu.Unlock()
	if full {
		s.send(b)
	} else {
		<-b.done
	}
	if call.Redirected() { // each caller sends its own: the batch must not wait for that server
		call.Send(ctx, s.client)
	}
}

// ended is a context that has ended.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// server returns the client of the server that a call goes to, as far as the client knows. It is
// nil if a Cluster must be asked first: that takes time, which only the Cluster's client bounds.
func (s *Sender) server(call *redisonce.Call) redis.UniversalClient {
	if s.cluster == nil {
		return s.client
	}
	node, err := s.cluster.MasterForKey(ended, call.Key()) // only what is known already
	if err != nil {
		return nil
	}
	return node
}

// launch counts the forming batch as under way, and returns it. The sender's mu is held.
func (l *lane) launch() *batch {
	b := l.forming
	b.timer.Stop()
	l.forming = nil
	l.flights++
	return b
}

// landed notes that something under way has ended, and sends what waits.
func (s *Sender) landed(l *lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.flights--
	switch {
	case l.forming != nil:
		go s.send(l.launch())
	case l.flights == 0:
		delete(s.lanes, l.to)
	}
}

// impatient sends a batch that has waited for too long.
func (s *Sender) impatient(b *batch) {
	s.mu.Lock()
	waits := b.lane.forming == b
	if waits {
		b.lane.launch()
	}
	s.mu.Unlock()
	if waits {
		s.send(b)
	}
}

// send sends a batch that was launched.
func (s *Sender) send(b *batch) {
	defer func() { // also if the client panics: others wait
		s.landed(b.lane)
		close(b.done)
	}()
	if ctx := b.span.Context(); len(b.calls) == 1 {
		b.calls[0].Send(ctx, s.client)
	} else if s.slots.Load() {
		redisonce.Pipeline(ctx, b.lane.to, b.calls)
	} else if !redisonce.Together(ctx, b.lane.to, b.calls) {
		s.slots.Store(true) // one address of several servers, as some proxies are
	}
}
