package idempotency

import (
	"context"
	_ "embed"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/sharedspan"
)

var (
	//go:embed lua/swap.lua
	swapSource string
	//go:embed lua/drop.lua
	dropSource string

	swapScript = redisonce.NewScript(swapSource)
	dropScript = redisonce.NewScript(dropSource)
)

// RedisOptions are the options of [NewRedis].
type RedisOptions struct {
	// Client must have a timeout for pipelines.
	Client redis.UniversalClient
	// Prefix starts every key.
	Prefix string
	// Away returns since when and why Redis cannot be used, with a nil error while it can. It may
	// be nil.
	Away func() (since time.Time, cause error)
}

// Redis is a [Backend] in Redis, where records expire by themselves. Concurrent requests of a node
// share one pipeline: it is sent as soon as the previous one returns, so an idle node adds no
// delay.
//
// Every operation can be repeated safely, because the texts name their writer.
type Redis struct {
	opts RedisOptions

	mu      sync.Mutex // guards what follows
	forming *flight    // calls since the last pipeline was sent, nil if there are none
	flying  bool       // a pipeline is in progress
}

var _ Backend = (*Redis)(nil)

// NewRedis returns a backend in Redis. It sends nothing.
func NewRedis(opts RedisOptions) *Redis { return &Redis{opts: opts} }

// Key returns the Redis key of a record. The braces are a hash tag: one record is in one slot of a
// Redis Cluster, and records are spread over all slots.
func Key(prefix, id string) string { return prefix + "answer:{" + id + "}" }

// Claim implements [Backend].
func (r *Redis) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	key := Key(r.opts.Prefix, id)
	for range claimAttempts {
		set := redisonce.Command("set", key, text, "nx", "px", milliseconds(lease))
		err := r.do(ctx, set)
		if err == nil && set.Reply != "OK" {
			err = errReply
		}
		if !errors.Is(err, redis.Nil) {
			return "", r.requestError(ctx, err)
		}
		get := redisonce.Command("get", key)
		held, err = r.text(ctx, get)
		// an empty value, written by somebody else, would be taken for a successful claim
		if err == nil && held == "" {
			err = errReply
		}
		if !errors.Is(err, redis.Nil) {
			return held, r.requestError(ctx, err)
		}
		// the claim ended between the two commands
	}
	return "", errContended
}

// Swap implements [Backend].
func (r *Redis) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	held, err = r.text(ctx, swapScript.Call(Key(r.opts.Prefix, id), old, text, milliseconds(keep)))
	if errors.Is(err, redis.Nil) {
		return "", errEnded
	}
	return held, r.requestError(ctx, err)
}

// Drop implements [Backend].
func (r *Redis) Drop(ctx context.Context, id, old string) error {
	return r.requestError(ctx, r.do(ctx, dropScript.Call(Key(r.opts.Prefix, id), old)))
}

// text sends a call whose reply is a string.
func (r *Redis) text(ctx context.Context, call *redisonce.Call) (string, error) {
	if err := r.do(ctx, call); err != nil {
		return "", err
	}
	text, ok := call.Reply.(string)
	if !ok {
		return "", errReply
	}
	return text, nil
}

var errReply = errors.New("unexpected reply of Redis")

// milliseconds formats a duration for Redis, which accepts no 0.
func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// requestError returns what a request gets for an error of Redis. The record is never kept in the
// store instead, because nodes could then disagree on where it is.
func (r *Redis) requestError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return seqd.AsError(ctx.Err())
	}
	return &seqd.Error{
		Code: seqd.CodeRedisUnavailable, Detail: "Redis, where the answers to requests with an Idempotency-Key are kept, cannot be used now", RetryAfter: time.Second, Err: err,
	}
}

// flight is the calls of one pipeline. Its results may be read when done is closed.
type flight struct {
	calls []*redisonce.Call
	span  sharedspan.Span
	done  chan struct{}
}

// do sends a call together with those of other requests, and returns its error. If ctx ends first,
// the call may be done nevertheless.
func (r *Redis) do(ctx context.Context, call *redisonce.Call) error {
	if r.opts.Away != nil {
		if _, cause := r.opts.Away(); cause != nil {
			return cause
		}
	}
	span := trace.SpanFromContext(ctx)
	r.mu.Lock()
	if r.forming == nil {
		r.forming = &flight{done: make(chan struct{})}
	}
	f, leader := r.forming, !r.flying
	f.calls = append(f.calls, call)
	f.span.Join(span)
	r.flying = true
	r.mu.Unlock()
	if leader {
		// The caller's own goroutine sends the pipeline, so an idle node needs no goroutine switch.
		r.fly()
		return call.Err
	}
	if _, hurry := ctx.Deadline(); !hurry {
		// the timeout of the client bounds this; a select on two channels would cost much more
		<-f.done
		return call.Err
	}
	select {
	case <-f.done:
		return call.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fly sends the calls that wait. Calls that arrive meanwhile are sent next, by another goroutine.
func (r *Redis) fly() {
	runtime.Gosched() // lets goroutines that are ready to run join
	r.mu.Lock()
	f := r.forming
	r.forming = nil
	r.mu.Unlock()
	defer func() { // even if the client panics: others wait
		r.mu.Lock()
		r.flying = r.forming != nil
		if r.flying {
			go r.fly()
		}
		r.mu.Unlock()
		close(f.done)
	}()
	redisonce.Pipeline(f.span.Context(), r.opts.Client, f.calls)
}
