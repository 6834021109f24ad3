package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func init() {
	// The client writes a line of plain text to standard error at every failed attempt to connect.
	// What an operator should see is in the errors it returns.
	redis.SetLogger(silent{})
}

type silent struct{}

// Printf drops what it is given.
func (silent) Printf(context.Context, string, ...any) {}

// newRedis returns a client for what the configuration names: one server, a Cluster, or Sentinels
// and what they watch. It reads the TLS files and connects to nothing.
//
// It sends each command once: a take or an install that was repeated would count twice. (The
// Cluster client follows MOVED and ASK, by which a server says that it has not run the command;
// that it repeats nothing else is up to redisonce.Do, which marks its commands.) It sends nothing
// at connecting but HELLO and SELECT, so that a user with few rights will do.
func newRedis(cfg config.Redis) (redis.UniversalClient, error) {
	dial, err := redisDialer(cfg)
	if err != nil {
		return nil, err
	}
	var client redis.UniversalClient
	hook := bound{cfg.Timeout}
	maint := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case cfg.MasterName != "":
		client = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: cfg.MasterName, SentinelAddrs: cfg.Addrs, SentinelUsername: cfg.SentinelUsername, SentinelPassword: cfg.SentinelPassword,
			Username: cfg.Username, Password: cfg.Password, DB: cfg.DB, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: askSentinels * cfg.Timeout,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
		})
	case cfg.Cluster():
		cluster := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: cfg.Addrs, Username: cfg.Username, Password: cfg.Password, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: cfg.Timeout, DisableRoutingPolicies: true,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: maint,
		})
		// for what it asks them on its own
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hook) })
		client = cluster
	default:
		client = redis.NewClient(&redis.Options{
			Addr: cfg.Addrs[0], Username: cfg.Username, Password: cfg.Password, DB: cfg.DB, Protocol: protocol, Dialer: dial,
			MaxRetries: -1, DialerRetries: 1, DialTimeout: cfg.Timeout,
			ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout, ContextTimeoutEnabled: true, DisableIdentity: true,
			MaintNotificationsConfig: maint,
		})
	}
	client.AddHook(hook)
	return client, nil
}

const (
	// protocol is RESP2: nothing here needs more, and the client looks for notifications on every
	// connection that speaks RESP3.
	protocol = 2
	// askSentinels is how many times the time-out of a command connecting may take by way of
	// Sentinels. The client asks the one that it knows, asks it once more and then all at once;
	// with less time than for that it can stay with one that hangs.
	askSentinels = 5
)

// discreet keeps secrets out of errors: a server that does not know a command, as AUTH where it was
// renamed, repeats what came with it.
func discreet(err error) error {
	if err == nil {
		return nil
	}
	text, _, repeats := strings.Cut(err.Error(), ", with args beginning with")
	if !repeats {
		return err
	}
	return refusedCommand(text)
}

// refusedCommand is an answer of the server, as [redis.Error].
type refusedCommand string

// Error implements [error].
func (e refusedCommand) Error() string { return string(e) }

// RedisError implements [redis.Error].
func (refusedCommand) RedisError() {}

// bound gives every command the same time from end to end, and keeps secrets out of its error. The
// client's own time-outs bound only its parts: waiting for a connection, dialling, greeting,
// writing, reading, and in a Cluster all of them again after every redirection.
type bound struct{ timeout time.Duration }

var _ redis.Hook = bound{}

// DialHook implements [redis.Hook].
func (b bound) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (b bound) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		return discreet(next(ctx, cmd))
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (b bound) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := context.WithTimeout(ctx, b.timeout)
		defer cancel()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			cmd.SetErr(discreet(cmd.Err()))
		}
		return discreet(err)
	}
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// redisDialer returns how to connect to servers and Sentinels alike.
func redisDialer(cfg config.Redis) (dialer, error) {
	plain := &net.Dialer{Timeout: cfg.Timeout}
	if !cfg.TLS.Enabled {
		return plain.DialContext, nil
	}
	settings, err := redisTLS(cfg.TLS)
	if err != nil {
		return nil, err
	}
	secure := &tls.Dialer{NetDialer: plain, Config: settings}
	return secure.DialContext, nil
}

// redisTLS reads the files that the configuration names.
func redisTLS(cfg config.RedisTLS) (*tls.Config, error) {
	settings := &tls.Config{ServerName: cfg.ServerName, MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		authorities, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.caFile: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("redis.tls.caFile: there is no certificate in %s", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		certificate, err := os.ReadFile(cfg.CertFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.certFile: %w", err)
		}
		key, err := os.ReadFile(cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.keyFile: %w", err)
		}
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("redis.tls.certFile, redis.tls.keyFile: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

// How often the start looks at a Redis that hangs up, the pauses between two looks at Redis later,
// and the longest a check may take after the start, as a multiple of redis.timeout.
const (
	firstLooks   = 10
	firstLook    = 100 * time.Millisecond
	nextLook     = time.Second
	unfitLook    = 5 * time.Second
	lookPatience = 10
)

// openRedis makes the client and checks what it leads to, where the configuration names a Redis.
// One that can never be used as it is ends the start. One that cannot be reached delays it by one
// time-out at most: strategies cope with that. From then on it is looked at in the background until
// ctx ends.
func (r *runtime) openRedis(ctx context.Context) (err error) {
	if !r.cfg.Redis.Configured() {
		return nil
	}
	if r.redis, err = newRedis(r.cfg.Redis); err != nil {
		return err
	}
	if r.traces != nil {
		r.redis.AddHook(r.traces.RedisHook())
	}
	start, cancel := context.WithTimeout(ctx, r.cfg.Redis.Timeout)
	defer cancel()
	for range firstLooks {
		// A server that refuses a certificate says so and hangs up, and its hanging up can overtake
		// what it said: then it is asked again.
		if err = r.checkRedis(start, r.cfg.Redis.Timeout); err == nil || !r.cfg.Redis.TLS.Enabled || !hungUp(err) {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case unfit(err):
		return err
	}
	watch := &redisWatch{runtime: r}
	watch.note(err)
	if err == nil {
		r.log.Info("Redis is well")
	}
	r.redisAway = watch.away
	go watch.run(ctx)
	return nil
}

// redisOptions are how cursors are reached.
func (r *runtime) redisOptions() rediscursor.Options {
	return rediscursor.Options{Client: r.redis, Prefix: r.cfg.Redis.KeyPrefix, Cluster: r.cluster}
}

// checkRedis checks Redis once, thoroughly.
func (r *runtime) checkRedis(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.tolerated(rediscursor.Check(ctx, r.redisOptions()))
}

// tolerated drops what says nothing about Redis: a store in memory is another cluster at each
// start, and keeps no cursors there.
func (r *runtime) tolerated(err error) error {
	if errors.Is(err, rediscursor.ErrForeign) && r.cfg.Store.Driver == "memory" {
		return nil
	}
	return err
}

// hungUp reports whether the other side ended a connection that was there.
func hungUp(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

// unfit reports whether a check found what only a human can mend.
func unfit(err error) bool {
	return errors.Is(err, rediscursor.ErrUnfit) || errors.Is(err, rediscursor.ErrForeign) || errors.Is(err, rediscursor.ErrNewer)
}

// redisWatch looks at Redis once a second, so that a node to which no requests come knows as well
// whether it could answer them.
type redisWatch struct {
	*runtime
	mu     sync.Mutex // guards what follows
	since  time.Time  // when Redis was found away, zero while it is well
	cause  error      // why
	logged string     // what was logged last
}

// away returns since when and why Redis cannot be used, a nil error while it can.
func (w *redisWatch) away() (since time.Time, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since, w.cause
}

// note keeps what a look came to, and logs each change once.
func (w *redisWatch) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && w.cause != nil:
		w.log.Info("Redis is well")
		w.since, w.logged = time.Time{}, ""
	case err != nil && w.cause == nil:
		w.since = time.Now()
	}
	w.cause = err
	if err == nil || err.Error() == w.logged {
		return
	}
	// That a Redis turns out unfit does not end a service that runs.
	switch {
	case unfit(err):
		w.log.Error("Redis cannot be used as it is", "error", err)
	case w.logged == "":
		w.log.Error("Redis cannot be used now", "error", err)
	}
	w.logged = err.Error()
}

// run looks until ctx ends: in passing while all is well, thoroughly otherwise.
func (w *redisWatch) run(ctx context.Context) {
	for pause := firstLook; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var err error
		if _, cause := w.away(); cause == nil {
			err = w.tolerated(rediscursor.Look(ctx, w.redisOptions()))
		} else {
			err = w.checkRedis(ctx, lookPatience*w.cfg.Redis.Timeout)
		}
		if ctx.Err() != nil {
			return
		}
		switch pause = min(2*pause, nextLook); {
		case err == nil:
			pause = nextLook
		case unfit(err):
			pause = unfitLook
		}
		w.note(err)
	}
}
