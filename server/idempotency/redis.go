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

// RedisOptions are where entries are kept in Redis.
type RedisOptions struct {
	// Client must bound every pipeline in time by itself.
	Client redis.UniversalClient
	// Prefix begins every key.
	Prefix string
	// Away says since when and why Redis cannot be used, a nil error while it can; nil where nobody
	// looks.
	Away func() (since time.Time, cause error)
}

// Redis keeps entries in Redis, where they end by themselves. What many requests of a node want at
// once goes in one pipeline: it is sent as soon as the one before is back, so an idle node adds no
// delay.
//
// Every operation may be done twice without harm: the texts name who put them there.
type Redis struct {
	opts RedisOptions

	mu      sync.Mutex // guards what follows
	forming *flight    // calls since the last pipeline was sent, nil while there are none
	flying  bool       // a pipeline is under way
}

var _ Backend = (*Redis)(nil)

// NewRedis returns entries in Redis. It touches nothing.
func NewRedis(opts RedisOptions) *Redis { return &Redis{opts: opts} }

// Key is where an entry lies. The braces make it one slot of a Redis Cluster, over all of which
// entries are spread.
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
		if err == nil || !errors.Is(err, redis.Nil) {
			return "", r.refusal(ctx, err)
		}
		get := redisonce.Command("get", key)
		held, err = r.text(ctx, get)
		// which nobody here has put there, and would be taken for a claim
		if err == nil && held == "" {
			err = errReply
		}
		if err == nil || !errors.Is(err, redis.Nil) {
			return held, r.refusal(ctx, err)
		}
		// It has just ended.
	}
	return "", errContended
}

// Swap implements [Backend].
func (r *Redis) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	held, err = r.text(ctx, swapScript.Call(Key(r.opts.Prefix, id), old, text, milliseconds(keep)))
	return held, r.refusal(ctx, err)
}

// Drop implements [Backend].
func (r *Redis) Drop(ctx context.Context, id, old string) error {
	return r.refusal(ctx, r.do(ctx, dropScript.Call(Key(r.opts.Prefix, id), old)))
}

// text sends a call that returns a text.
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

var errReply = errors.New("Redis replied what it never replies")

// milliseconds is a time as Redis takes it, which is never 0.
func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// refusal is what a request gets for an error of Redis. An entry is never kept elsewhere instead:
// nodes could disagree on where it is.
func (r *Redis) refusal(ctx context.Context, err error) error {
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

// flight is calls that are sent together. Its calls are read when done is closed.
type flight struct {
	calls []*redisonce.Call
	span  sharedspan.Span
	done  chan struct{}
}

// do sends a call with those that others have at the moment, and returns its error. When ctx ends
// first the call may be done all the same.
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
		// In the caller's own goroutine: an idle node pays for no switch between goroutines.
		if r.fly() {
			go r.flyOn()
		}
		return call.Err
	}
	if _, hurry := ctx.Deadline(); !hurry {
		// which the client's own time-out bounds; a wait for two things at once would cost much
		// more
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

// flyOn sends flight after flight until none is forming.
func (r *Redis) flyOn() {
	for r.fly() {
	}
}

// fly sends what is forming and reports whether more has formed meanwhile.
func (r *Redis) fly() (more bool) {
	runtime.Gosched() // whoever is ready to run may still come along
	r.mu.Lock()
	f := r.forming
	r.forming = nil
	r.mu.Unlock()
	defer func() { // also when the client panics: others wait
		r.mu.Lock()
		more = r.forming != nil
		r.flying = more
		r.mu.Unlock()
		close(f.done)
	}()
	redisonce.Pipeline(f.span.Context(), r.opts.Client, f.calls)
	return more
}
