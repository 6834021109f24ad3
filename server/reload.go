package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/httpapi"
)

// reloadPatience is how long a reload waits for another one.
const reloadPatience = 5 * time.Second

// levelKey is the key that a log level set by hand replaces for a while.
const levelKey = "log.level"

// WithReload lets the service read its configuration again, by load: whenever something comes from
// asked, and for POST /reload. What a reload applies is in docs/CONFIGURATION.md, key by key.
func WithReload[T any](asked <-chan T, load func() (*config.Config, error)) Option {
	return func(o *options) {
		o.load = load
		o.askedToReload = func(ctx context.Context) bool {
			select {
			case <-asked:
				return true
			case <-ctx.Done():
				return false
			}
		}
	}
}

// reloads reads the configuration of a node again. It is safe for concurrent use.
type reloads struct {
	base  *base
	front *front

	turn longlock.Lock // held while the configuration is read and applied; guards last
	last *config.Config

	state    atomic.Pointer[reloadState]
	failures atomic.Int64
}

// reloadState is what was read last.
type reloadState struct {
	version, alike string // see [config.Config.Version]; alike is that of what the node works with
	readAt         time.Time
	restart        bool // what was read needs a restart
	failed         bool // and what came after it could not be read
}

var _ httpapi.Reloader = (*reloads)(nil)

// open notes what the node was started with.
func (r *reloads) open(b *base, f *front) {
	r.base, r.front, r.last = b, f, b.cfg
	b.now.Store(b.cfg)
	state := &reloadState{readAt: b.opts.now()}
	state.version, state.alike = b.cfg.Version()
	r.state.Store(state)
}

// follow reloads whenever it is asked to by a signal, until ctx ends.
func (r *reloads) follow(ctx context.Context) {
	for r.base.opts.askedToReload(ctx) {
		status := http.StatusOK
		if _, err := r.Reload(ctx); err != nil {
			status = http.StatusConflict
		}
		r.front.audit.Write(ctx, admin.Attempt{Method: "SIGHUP", Path: httpapi.ReloadPath, Status: status})
	}
}

// Reload implements [httpapi.Reloader]. After an error nothing has changed.
func (r *reloads) Reload(ctx context.Context) (admin.Reloaded, error) {
	if r.base.opts.load == nil {
		return admin.Reloaded{}, seqd.Errorf(seqd.CodeConflict, "this program does not read its configuration again")
	}
	if err := r.turn.LockWithin(ctx, reloadPatience, errReloading); err != nil {
		return admin.Reloaded{}, err
	}
	defer r.turn.Unlock()
	read, renewed, err := r.read()
	if err != nil {
		r.failures.Add(1)
		state := *r.state.Load()
		state.failed = true
		r.state.Store(&state)
		r.base.log.Error("the configuration cannot be read again, and stays as it was", "error", err)
		return admin.Reloaded{}, refusal(err)
	}
	return r.apply(read, renewed), nil
}

var errReloading = seqd.Errorf(seqd.CodeConflict, "another reload has been under way for %s: look at the log of the node", reloadPatience)

// read reads everything that can be wrong. The certificate comes last, because it is applied at once.
func (r *reloads) read() (read *config.Config, renewed bool, err error) {
	if read, err = r.base.opts.load(); err == nil && r.front.cert != nil {
		renewed, err = r.front.cert.Look()
	}
	return read, renewed, err
}

// refusal returns an error as the one who asked for the reload reads it.
func refusal(err error) *seqd.Error {
	if invalid, ok := errors.AsType[config.Invalid](err); ok {
		refused := seqd.Errorf(seqd.CodeConflict, "the configuration is wrong, and nothing was changed: correct what problems names")
		refused.Problems = invalid
		return refused
	}
	return seqd.Errorf(seqd.CodeConflict, "the configuration cannot be read, and nothing was changed: %v", err)
}

// apply applies what was read. turn is held.
func (r *reloads) apply(read *config.Config, renewed bool) admin.Reloaded {
	change := r.base.cfg.Reread(r.last, read)
	r.last = read
	r.base.now.Store(change.Now)
	if r.front.change(change.Now) {
		r.front.tokensFreed()
	}
	if renewed {
		change.Applied = append(change.Applied, "server.tls.certFile")
	}
	r.applyLevel(&change)
	state := &reloadState{readAt: r.base.opts.now(), restart: len(change.Restart) > 0}
	state.version, _ = read.Version()
	_, state.alike = change.Now.Version() // the node works on with what needs a restart
	r.state.Store(state)
	log := r.base.log.Info
	if state.restart {
		log = r.base.log.Warn
	}
	log("the configuration was read again; what is under restart needs one", "applied", change.Applied, "restart", change.Restart, "version", state.version)
	return admin.Reloaded{Node: r.node(), Version: state.version, Applied: change.Applied, Restart: change.Restart}
}

// applyLevel sets the level of the log, also if it was set by hand.
func (r *reloads) applyLevel(change *config.Change) {
	at := slices.Index(change.Applied, levelKey)
	lines := r.base.telemetry.lines
	switch level := change.Now.Log.Level; {
	case lines == nil && at >= 0: // the program has made the log
		change.Applied, change.Restart = slices.Delete(change.Applied, at, at+1), append(change.Restart, levelKey)
	case lines != nil:
		if lines.Level() != level && at < 0 {
			change.Applied = append(change.Applied, levelKey)
		}
		lines.SetLevel(level)
	}
}

// Level implements [httpapi.Reloader].
func (r *reloads) Level() (admin.LogLevel, error) {
	if r.base.telemetry.lines == nil {
		return admin.LogLevel{}, seqd.Errorf(seqd.CodeConflict, "the program that this node is a part of has made the log, and decides on its level")
	}
	return admin.LogLevel{Node: r.node(), Level: r.base.telemetry.lines.Level(), Configured: r.base.now.Load().Log.Level}, nil
}

// SetLevel implements [httpapi.Reloader].
func (r *reloads) SetLevel(level string) (admin.LogLevel, error) {
	if _, err := r.Level(); err != nil {
		return admin.LogLevel{}, err
	}
	r.base.telemetry.lines.SetLevel(level)
	r.base.log.Info("the level of the log was set, until the configuration is read again", "level", level)
	return r.Level()
}

// node returns the ID of this node, "" until it is known.
func (r *reloads) node() string {
	_, id := r.front.store()
	return id
}

// shown is what GET /nodes says of the configuration.
func (r *reloads) shown() *admin.NodeConfig {
	s := r.state.Load()
	return &admin.NodeConfig{Version: s.version, Alike: s.alike, ReadAt: admin.Time(s.readAt.UnixMilli()), Restart: s.restart, Failed: s.failed}
}

// measured is what metrics say of it.
func (r *reloads) measured() (readAt time.Time, failed, restart bool) {
	s := r.state.Load()
	return s.readAt, s.failed, s.restart
}

// change applies the keys that a reload applies. It reports whether the tokens of the store have to be read
// again: see [access.Tokens.Configure].
func (f *front) change(now *config.Config) (reread bool) {
	if f.gate.Guard != nil {
		reread = f.tokens.Configure(now.Auth.Tokens)
	}
	f.gate.Limit(f.limits(now))
	f.api.Change(opening(now))
	if err := f.proxies.Become(now.Server.ForwardedHeader, now.Server.TrustedProxies); err != nil {
		f.base.log.Error("the trusted proxies stay as they were", "error", fmt.Errorf("server.trustedProxies: %w", err)) // never: they were validated
	}
	return reread
}
