package backends

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	// firstLooks is how often the start checks a Redis that hangs up.
	firstLooks = 10
	// nextLook is the pause between two looks at a Redis that answers. One that does not is checked
	// after pauses from firstLook up to nextLook, one that is unfit after unfitLook.
	firstLook = 100 * time.Millisecond
	nextLook  = time.Second
	unfitLook = 5 * time.Second
	// lookPatience is how long a check may take after the start, as a multiple of redis.timeout.
	lookPatience = 10
)

// RedisOptions are how the Redis of the service is opened.
type RedisOptions struct {
	// Cluster is the ID of the cluster.
	Cluster string
	// AnyCluster accepts a Redis that belongs to another cluster: a store in memory is another
	// cluster at each start, and keeps no cursors there.
	AnyCluster bool
	// Hook sees all commands; nil for none.
	Hook redis.Hook
	Log  *slog.Logger
}

// Redis is the Redis of the service, and whether it answers.
type Redis struct {
	// Client sends each command once and bounds it in time.
	Client redis.UniversalClient
	// Batch sends commands of different callers together, with Client.
	Batch *redisbatch.Sender

	cfg  config.Redis
	opts RedisOptions

	mu     sync.Mutex // guards what follows
	since  time.Time  // when Redis was found away, zero while it answers
	cause  error      // why
	logged string     // what was logged last
	met    bool       // it was well once
}

// Most returns how many connections there may be to a server of Redis.
func (*Redis) Most() int { return mostConnections() }

// OpenRedis makes the client and checks the server behind it. A Redis that can never be used as it
// is is an error. One that cannot be reached delays OpenRedis by redis.timeout at most, and is no
// error: strategies cope with that. The caller runs [Redis.Watch] and closes the client.
func OpenRedis(ctx context.Context, cfg config.Redis, opts RedisOptions) (*Redis, error) {
	client, err := NewRedis(ctx, cfg)
	if err != nil {
		return nil, err
	}
	addHook(client, opts.Hook)
	r := &Redis{Client: client, Batch: redisbatch.New(client), cfg: cfg, opts: opts}
	err = r.checkAtStart(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if ctx.Err() != nil || unfit(err) {
		_ = client.Close() // nothing is lost with its connections
		return nil, err
	}
	r.note(err)
	if err == nil {
		opts.Log.Info("Redis is well")
	}
	return r, nil
}

// addHook adds a hook, which may be nil. That of a Cluster sees the commands to each server, because
// a batch goes to one server.
func addHook(client redis.UniversalClient, hook redis.Hook) {
	cluster, ok := client.(*redis.ClusterClient)
	switch {
	case hook == nil:
	case ok:
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
	default:
		client.AddHook(hook)
	}
}

// checkAtStart checks Redis for redis.timeout at most.
func (r *Redis) checkAtStart(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	for range firstLooks {
		// A server that refuses a certificate says so and hangs up, and the client may see the
		// hanging up first: then it is asked again.
		if err = r.check(ctx, r.cfg.Timeout); err == nil || !r.cfg.TLS.Enabled || !hungUp(err) {
			break
		}
	}
	return err
}

// cursors are how cursors are reached.
func (r *Redis) cursors() rediscursor.Options {
	return rediscursor.Options{Client: r.Client, Prefix: r.cfg.KeyPrefix, Cluster: r.opts.Cluster}
}

// check checks once whether Redis can be used.
func (r *Redis) check(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.tolerated(rediscursor.Check(ctx, r.cursors()))
}

// look looks once whether Redis still answers.
func (r *Redis) look(ctx context.Context) error {
	return r.tolerated(rediscursor.Look(ctx, r.cursors()))
}

// tolerated drops an error that says nothing about Redis.
func (r *Redis) tolerated(err error) error {
	if errors.Is(err, rediscursor.ErrForeign) && r.opts.AnyCluster {
		return nil
	}
	return err
}

// hungUp reports whether the other side closed a connection.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// unfit reports whether a check found what only an operator can change.
func unfit(err error) bool {
	return errors.Is(err, rediscursor.ErrUnfit) || errors.Is(err, rediscursor.ErrForeign) || errors.Is(err, rediscursor.ErrNewer)
}

// Away returns since when and why Redis cannot be used, a nil error while it can. It does no I/O.
func (r *Redis) Away() (since time.Time, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.since, r.cause
}

// Watch looks at Redis once a second until ctx ends, so that a node without requests also knows
// whether it could answer them.
func (r *Redis) Watch(ctx context.Context) {
	for {
		if _, cause := r.Away(); cause != nil {
			r.awaitWell(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(nextLook):
		}
		if err := r.look(ctx); ctx.Err() == nil {
			r.note(err)
		}
	}
}

// awaitWell checks Redis until it can be used or ctx ends.
func (r *Redis) awaitWell(ctx context.Context) {
	patience := lookPatience * r.cfg.Timeout
	policy := retry.Policy{First: firstLook, Last: nextLook, Failed: r.note}
	err := retry.Do(ctx, policy, func(ctx context.Context) error {
		err := r.check(ctx, patience)
		if unfit(err) {
			return retry.After(unfitLook, err)
		}
		return err
	})
	if err == nil {
		r.note(nil)
	}
}

// note keeps the outcome of a look, and logs each change once.
func (r *Redis) note(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := r.opts.Log
	switch {
	case err == nil && r.cause != nil:
		log.Info("Redis is well")
		r.since, r.logged = time.Time{}, ""
	case err != nil && r.cause == nil:
		r.since = time.Now()
	}
	r.cause, r.met = err, r.met || err == nil
	if err == nil || err.Error() == r.logged {
		return
	}
	// A Redis that turns out unfit does not end a service that runs.
	switch {
	case unfit(err):
		log.Error("Redis cannot be used as it is", "error", err)
	case r.logged == "" && !r.met: // it may start later than this node
		log.Warn("Redis cannot be used now", "error", err)
	case r.logged == "":
		log.Error("Redis cannot be used now", "error", err)
	}
	r.logged = err.Error()
}
