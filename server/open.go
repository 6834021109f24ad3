package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// openRetry is the pause between two attempts to open a store that is out of space.
const openRetry = time.Second

// open opens the store and Redis, builds the issuer and lets requests in. When ctx ends before that, it returns an error.
func (r *runtime) open(ctx context.Context) error {
	if !r.openAlone(ctx) {
		if err := r.awaitStore(ctx, r.openStore); err != nil {
			return err
		}
		r.log.Info("store open", "promise", r.store.Describe())
		if err := r.awaitStore(ctx, r.readCluster); err != nil {
			return err
		}
	}
	if err := r.openRedis(ctx); err != nil {
		return err
	}
	definitions, err := r.definitions()
	if err != nil {
		return err
	}
	if r.issuer, err = seqd.NewIssuer(definitions, seqd.Options{
		Rejected: r.rejected, Observer: r.observer, Log: r.log, PluginTimeout: r.cfg.Server.PluginTimeout,
	}); err != nil {
		return err
	}
	r.api.Ready(r.issuer)
	return nil
}

// openAlone begins without the store, where that cannot be reached now and biz types of this node can issue all the same. The others wait for it.
func (r *runtime) openAlone(ctx context.Context) bool {
	if r.cfg.Store.Driver != "mongo" {
		return false
	}
	r.alone = make(map[string]bool)
	cluster := ""
	for _, b := range r.cfg.BizTypes {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil || factory.Alone == nil || len(b.Plugins) > 0 { // what plugins make of the numbers nobody vouches for
			continue
		}
		if remembered, ok := factory.Alone(r.env(), b); ok && (cluster == "" || cluster == remembered) {
			cluster, r.alone[b.Name] = remembered, true
		}
	}
	if len(r.alone) == 0 {
		return false
	}
	err := r.openStore(ctx)
	if err == nil {
		err = r.readCluster(ctx)
	}
	switch {
	case err == nil:
		r.log.Info("store open", "promise", r.store.Describe())
		return true
	case !errors.Is(err, persist.ErrUnavailable):
		return false // opening it again will say so
	}
	if r.store == nil {
		unreached, openErr := newStore(ctx, r.cfg.Store, r.now, true)
		if openErr != nil {
			return false
		}
		r.store = unreached
	}
	r.cluster = cluster
	r.log.Warn("the store cannot be reached: biz types with a reservation of their own begin without it", "bizTypes", slices.Sorted(maps.Keys(r.alone)), "error", err)
	go r.confirmCluster(ctx)
	return true
}

// confirmCluster compares the ID of the cluster that was remembered with what the store says, as soon as that can be reached. Another one ends the run: what
// this node keeps elsewhere carries the wrong one.
func (r *runtime) confirmCluster(ctx context.Context) {
	for {
		known, err := persist.ClusterID(ctx, r.store, r.now)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && known == r.cluster:
			r.log.Info("store open", "promise", r.store.Describe())
			return
		case err == nil:
			r.failed <- fmt.Errorf("the store is that of the cluster %s, the reservation on disk is of %s", known, r.cluster)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
}

// awaitStore does what needs the store, again and again while that fails for a reason that can pass. A reason is logged once, not at every attempt.
func (r *runtime) awaitStore(ctx context.Context, attempt func(context.Context) error) error {
	logged := ""
	for {
		err := attempt(ctx)
		if !errors.Is(err, persist.ErrUnavailable) {
			return err
		}
		if reason := err.Error(); reason != logged {
			r.log.Error("the store cannot be opened yet", "error", err)
			logged = reason
		}
		r.api.Waiting(&seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be opened yet", RetryAfter: openRetry, Err: err})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(openRetry):
		}
	}
}

func (r *runtime) openStore(ctx context.Context) error {
	store, err := newStore(ctx, r.cfg.Store, r.now, false)
	if err == nil {
		r.store = store
	}
	return err
}

// readCluster gets the ID that what is kept outside the store carries.
func (r *runtime) readCluster(ctx context.Context) (err error) {
	r.cluster, err = persist.ClusterID(ctx, r.store, r.now)
	return err
}

func newStore(ctx context.Context, cfg config.Store, now func() time.Time, unreached bool) (persist.Store, error) {
	switch cfg.Driver {
	case "memory":
		return memory.New(now), nil
	case "mongo":
		return mongo.Open(ctx, mongo.Options{URI: cfg.Mongo.URI, Database: cfg.Mongo.Database, Timeout: cfg.Mongo.Timeout, Now: now, Unreached: unreached})
	case "bolt":
		return bolt.Open(bolt.Options{Path: cfg.Bolt.Path, LockTimeout: cfg.Bolt.LockTimeout, Now: now})
	}
	return nil, fmt.Errorf("store.driver: %q is unknown", cfg.Driver)
}

// definitions builds every biz type of the configuration.
func (r *runtime) definitions() ([]seqd.Definition, error) {
	list := make([]seqd.Definition, 0, len(r.cfg.BizTypes))
	for _, bizType := range r.cfg.BizTypes {
		d, err := r.definition(bizType)
		if err != nil {
			return nil, fmt.Errorf("biz type %s: %w", bizType.Name, err)
		}
		list = append(list, d)
	}
	return list, nil
}

// env is what strategies and plugins are built from.
func (r *runtime) env() strategy.Env {
	return strategy.Env{
		Store: r.store, Now: r.now, Log: r.log, Observer: r.observer, Redis: r.redis, RedisPrefix: r.cfg.Redis.KeyPrefix, RedisAway: r.redisAway,
		Addr: r.addr, Cluster: r.cluster,
	}
}

func (r *runtime) definition(bizType seqd.BizType) (d seqd.Definition, err error) {
	d.BizType = bizType
	factory, err := strategy.Lookup(bizType.Strategy)
	if err != nil {
		return d, err
	}
	env := r.env()
	if d.Strategy, err = factory.New(env, bizType); err != nil {
		return d, err
	}
	shape := factory.Shape(bizType)
	// In the order in which they run: the order of the lines in a configuration changes no ID.
	for _, binding := range plugin.Chain(bizType) {
		factory, err := plugin.Lookup(binding.Name)
		if err != nil {
			return d, err
		}
		made, err := factory.New(plugin.Env(env), bizType, binding)
		if err != nil {
			return d, fmt.Errorf("plugin %s: %w", binding.Name, err)
		}
		d.Plugins = append(d.Plugins, seqd.BoundPlugin{
			Name: binding.Name, Order: binding.Order, Plugin: made, Quick: factory.Quick, Rewrites: factory.Shape != nil,
		})
		if factory.Shape != nil {
			own, err := factory.Shape(bizType, binding)
			if err != nil {
				return d, fmt.Errorf("plugin %s: %w", binding.Name, err)
			}
			shape += fmt.Sprintf(" %s(%s)", binding.Name, own)
		}
	}
	d.Claim = claim{r, bizType.Name, shape}
	d.Rejected, err = r.rejectedOf(bizType.Rejected)
	return d, err
}

// rejectedOf returns the rejection handler of a biz type, nil for the default. A binding that biz types share has one handler.
func (r *runtime) rejectedOf(bindings []seqd.RejectedBinding) (seqd.RejectedHandler, error) {
	var all rejectedAll
	for _, binding := range bindings {
		key := handlerKey{binding.Name, binding.Settings}
		made := r.handlers[key]
		if made == nil {
			factory, err := plugin.LookupRejected(binding.Name)
			if err != nil {
				return nil, err
			}
			if made, err = factory.New(plugin.Env(r.env()), binding); err != nil {
				return nil, fmt.Errorf("rejection handler %s: %w", binding.Name, err)
			}
			r.handlers[key] = made
		}
		all = append(all, made)
	}
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return all, nil
}

// handlerKey is what biz types share a rejection handler by: its name and the pointer to its settings.
type handlerKey struct {
	name     string
	settings any
}

// rejectedAll tells several handlers.
type rejectedAll []seqd.RejectedHandler

// Rejected tells each of them, also those behind one that panics; the issuer catches the panic.
func (all rejectedAll) Rejected(ctx context.Context, call *seqd.Call, err *seqd.Error) {
	if len(all) == 0 {
		return
	}
	defer all[1:].Rejected(ctx, call, err)
	all[0].Rejected(ctx, call, err)
}

// closeHandlers ends the rejection handlers, all at once: one that hangs takes no time from the others.
func (r *runtime) closeHandlers(ctx context.Context) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards failed
		failed []error
	)
	for key, h := range r.handlers {
		c, ok := h.(seqd.Closer)
		if !ok {
			continue
		}
		wg.Go(func() {
			if err := c.Close(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, fmt.Errorf("close rejection handler %s: %w", key.name, err))
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// claim keeps the shape of a biz type in the store (invariant U6).
type claim struct {
	*runtime
	name, shape string
}

// Check implements [seqd.Claim].
func (c claim) Check(ctx context.Context) (fresh bool, err error) {
	known, err := c.store.Shapes().Read(ctx, c.name)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return true, nil
	case errors.Is(err, persist.ErrUnavailable) && c.alone[c.name]:
		return false, nil // it has issued in this shape before
	case err != nil:
		return false, unavailable(err)
	case known.Shape != c.shape:
		return false, seqd.Errorf(seqd.CodeConflict,
			"%s has issued numbers in the shape %q; the configuration now says %q, which could repeat them: use a new name, or put it back",
			c.name, known.Shape, c.shape)
	}
	return false, nil
}

// Record implements [seqd.Claim].
func (c claim) Record(ctx context.Context) error {
	err := c.store.Shapes().Create(ctx, persist.Shape{BizTag: c.name, Shape: c.shape, Timestamp: c.now().UnixMilli()})
	if errors.Is(err, persist.ErrExists) {
		_, err = c.Check(ctx) // another node was first; it must have said the same
		return err
	}
	return unavailable(err)
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err}
}
