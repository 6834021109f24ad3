package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/metrics"
	"github.com/seqd/seqd/strategy"
)

// openRetry is the pause between two attempts to open a store that is out of space.
const openRetry = time.Second

// open opens the store and Redis, builds the issuer and lets requests in. When ctx ends before
// that, it returns an error.
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
	r.feed = newFeed(r)
	if r.gate == nil { // what is read from here on is followed
		if err := r.awaitStore(ctx, r.feed.begin); err != nil {
			return err
		}
	}
	r.feed.add(access.Kind, follower{changed: r.tokens.Apply, reload: r.tokens.Reload})
	r.tokens.Use(access.Backing{Documents: r.store.Documents(), Announce: r.feed.announce, Publish: r.feed.publish})
	// biz types begin without them; loadTokens says why and tries again
	if r.tokens.Reload(ctx) != nil {
		go r.loadTokens(ctx)
	}
	r.catalogue = newCatalogue(r)
	var definitions []seqd.Definition
	err := r.awaitStore(ctx, func(ctx context.Context) (err error) {
		definitions, err = r.catalogue.definitions(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if r.issuer, err = seqd.NewIssuer(definitions, seqd.Options{
		Rejected: r.rejected, Observer: r.observer, Log: r.log, PluginTimeout: r.cfg.Server.PluginTimeout,
	}); err != nil {
		return err
	}
	if r.gate != nil {
		go r.confirmAlone(ctx)
	}
	r.nodes = newNodes(r.catalogue)
	r.api.Administer(r.catalogue, r.nodes)
	r.openAnswers(ctx)
	r.watch(metrics.Source{Issuer: r.issuer, Backends: r.backends, Handlers: r.handlers.measure, Feed: r.feed.counted})
	r.api.Ready(r.issuer)
	return nil
}

// awaitStore does what needs the store, again and again while that fails for a reason that can
// pass. A reason is logged once, not at every attempt.
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
	store, err := newWatchedStore(ctx, r.cfg.Store, r.now, mongo.Options{Monitor: r.mongoMonitor(), Admit: r.admit})
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

func newStore(ctx context.Context, cfg config.Store, now func() time.Time) (persist.Store, error) {
	return newWatchedStore(ctx, cfg, now, mongo.Options{})
}

// newWatchedStore is newStore with more options for MongoDB.
func newWatchedStore(ctx context.Context, cfg config.Store, now func() time.Time, more mongo.Options) (persist.Store, error) {
	switch cfg.Driver {
	case "memory":
		return memory.New(now), nil
	case "mongo":
		more.URI, more.Database, more.Timeout, more.Now = cfg.Mongo.URI, cfg.Mongo.Database, cfg.Mongo.Timeout, now
		return mongo.Open(ctx, more)
	case "bolt":
		return bolt.Open(bolt.Options{Path: cfg.Bolt.Path, LockTimeout: cfg.Bolt.LockTimeout, Now: now})
	}
	return nil, fmt.Errorf("store.driver: %q is unknown", cfg.Driver)
}

// env is what strategies and plugins are built from.
func (r *runtime) env() strategy.Env {
	return strategy.Env{
		Store: r.store, Now: r.now, Log: r.log, Observer: r.observer, Redis: r.redis, RedisPrefix: r.cfg.Redis.KeyPrefix, RedisAway: r.redisAway,
		Addr: r.addr, Cluster: r.cluster,
	}
}

// wholeShape is what the numbers of a biz type look like, with what its plugins make of them.
func wholeShape(bizType seqd.BizType) (string, error) {
	factory, err := strategy.Lookup(bizType.Strategy)
	if err != nil {
		return "", err
	}
	shape := factory.Shape(bizType)
	for _, binding := range plugin.Chain(bizType) {
		factory, err := plugin.Lookup(binding.Name)
		if err != nil {
			return "", err
		}
		if factory.Shape == nil {
			continue
		}
		own, err := factory.Shape(bizType, binding)
		if err != nil {
			return "", fmt.Errorf("plugin %s: %w", binding.Name, err)
		}
		shape += fmt.Sprintf(" %s(%s)", binding.Name, own)
	}
	return shape, nil
}

func (r *runtime) definition(bizType seqd.BizType) (d seqd.Definition, err error) {
	d.BizType = bizType
	if d.Rejected, err = r.rejectedOf(bizType.Rejected); err != nil {
		return d, err
	}
	c := claim{runtime: r, name: bizType.Name}
	if d.Plugins, err = r.plugins(bizType); err == nil {
		c.shape, err = wholeShape(bizType)
	}
	if err != nil { // such as a key file that cannot be read: the other biz types go on
		d.Strategy = unusable{err}
		return d, nil
	}
	factory, err := strategy.Lookup(bizType.Strategy)
	if err != nil {
		return d, err
	}
	if d.Strategy, err = factory.New(r.env(), bizType); err != nil {
		return d, err
	}
	c.own = factory.Shape(bizType)
	c.keeper, _ = d.Strategy.(strategy.ShapeKeeper)
	d.Claim = c
	return d, nil
}

// plugins makes the plugins of a biz type.
func (r *runtime) plugins(bizType seqd.BizType) (bound []seqd.BoundPlugin, err error) {
	for _, binding := range plugin.Chain(bizType) {
		made, err := r.plugin(bizType, binding)
		if err != nil {
			return bound, err
		}
		bound = append(bound, made)
	}
	return bound, nil
}

// possible makes those plugins of a biz type that can be made, and returns why others cannot.
func (r *runtime) possible(bizType seqd.BizType) (bound []seqd.BoundPlugin, err error) {
	for _, binding := range plugin.Chain(bizType) {
		made, failed := r.plugin(bizType, binding)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		bound = append(bound, made)
	}
	return bound, err
}

func (r *runtime) plugin(bizType seqd.BizType, binding seqd.PluginBinding) (seqd.BoundPlugin, error) {
	factory, err := plugin.Lookup(binding.Name)
	if err != nil {
		return seqd.BoundPlugin{}, err
	}
	made, err := factory.New(plugin.Env(r.env()), bizType, binding)
	if err != nil {
		return seqd.BoundPlugin{}, fmt.Errorf("plugin %s: %w", binding.Name, err)
	}
	return seqd.BoundPlugin{Name: binding.Name, Order: binding.Order, Plugin: made, Quick: factory.Quick, Rewrites: factory.Shape != nil}, nil
}

// unusable stands for the strategy of a biz type that cannot be built.
type unusable struct{ err error }

// Init refuses, for good.
func (u unusable) Init(context.Context, bool) error {
	return &seqd.Error{Code: seqd.CodeConflict, Detail: "the plugins of this biz type cannot be used; the log of the service says more", Err: u.err}
}

// Generate refuses.
func (u unusable) Generate(ctx context.Context, _ int, _ *seqd.Sequence) error {
	return u.Init(ctx, false)
}

// Close has nothing to do.
func (unusable) Close(context.Context) error { return nil }

// grace is how long what was told to end may take to do so.
const grace = 200 * time.Millisecond

// within runs f, or leaves it when it is not done soon after ctx has ended.
func within(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return ctx.Err()
	}
}

// claim keeps the shape of a biz type in the store (invariant U6).
type claim struct {
	*runtime
	name, shape string
	own         string               // the strategy's part of the shape
	forced      string               // the shape that was forced upon the definition, "" for none
	keeper      strategy.ShapeKeeper // nil where the strategy is none
}

// Check implements [seqd.Claim].
func (c claim) Check(ctx context.Context) (fresh bool, err error) {
	fresh, err = c.compare(ctx, c.store)
	if mismatch, ok := errors.AsType[*otherShape](err); ok && c.forced == c.shape {
		if !c.sameStrategy(mismatch.known.Shape) {
			// what the strategy keeps may never have been there; Record comes after it
			return true, nil
		}
		return false, c.settle(ctx, mismatch.known)
	}
	if errors.Is(err, persist.ErrUnavailable) && c.beganAlone(c.name) {
		return false, nil // it has issued in this shape before; confirmAlone compares it yet
	}
	return fresh, err
}

// compare returns fresh = true when a store has no shape on record, and a conflict when it has
// another one.
func (c claim) compare(ctx context.Context, store persist.Store) (fresh bool, err error) {
	known, err := persist.ShapesIn(store.Documents()).Read(ctx, c.name)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return true, nil
	case err != nil:
		return false, unavailable(err)
	case known.Shape != c.shape:
		c.remember("")
		return false, &seqd.Error{
			Code:   seqd.CodeConflict,
			Detail: c.name + " has issued numbers in another shape than the configuration now says, which could repeat them: use a new name, or put it back",
			Err:    &otherShape{known, c.shape}, // in the log alone: it may tell something of a key
		}
	}
	c.remember(c.shape)
	return false, nil
}

// otherShape is why a biz type is refused: the store knows another shape of its numbers.
type otherShape struct {
	known persist.Shape
	said  string
}

// Error implements error.
func (e *otherShape) Error() string {
	return fmt.Sprintf("the store has %q, the configuration says %q", e.known.Shape, e.said)
}

// sameStrategy reports whether a shape is of the same strategy, with the same layout or periods.
// What plugins make of the numbers stands behind it, as name(…).
func (c claim) sameStrategy(shape string) bool {
	rest, ok := strings.CutPrefix(shape, c.own)
	next, _, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
	return ok && (rest == "" || rest[0] == ' ' && strings.Contains(next, "("))
}

// settle puts the shape on record that was forced upon the definition, while that is the one that
// counts. It is not on record before: so of changes that are forced at the same time, that one
// counts whose definition does.
func (c claim) settle(ctx context.Context, known persist.Shape) error {
	if err := c.counts(ctx); err != nil {
		return err
	}
	shapes := persist.ShapesIn(c.store.Documents())
	next, err := shapes.Replace(ctx, known, c.shape, c.now())
	if err != nil {
		return unavailable(err)
	}
	if err := c.counts(ctx); err != nil { // it was changed back meanwhile, which needs no force
		_, back := shapes.Replace(ctx, next, known.Shape, time.UnixMilli(known.Timestamp))
		return errors.Join(err, back)
	}
	c.remember(c.shape)
	return nil
}

// counts returns why the shape that was forced must not be put on record.
func (c claim) counts(ctx context.Context) error {
	_, said, err := c.catalogue.read(ctx, c.name)
	if err == nil && (said.Shape != c.shape || said.Deleted) {
		err = &seqd.Error{Code: seqd.CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second}
	}
	return err
}

// Record implements [seqd.Claim].
func (c claim) Record(ctx context.Context) error {
	err := c.create(ctx, c.store)
	if mismatch, ok := errors.AsType[*otherShape](err); ok && c.forced == c.shape {
		return c.settle(ctx, mismatch.known)
	}
	return err
}

// create puts the shape on record in a store.
func (c claim) create(ctx context.Context, store persist.Store) error {
	err := persist.ShapesIn(store.Documents()).Create(ctx, c.name, c.shape, c.now())
	if errors.Is(err, persist.ErrExists) {
		unseen, err := c.compare(ctx, store) // another node was first; it must have said the same
		if err == nil && unseen {
			err = unavailable(errUnseenShape) // nobody knows yet what it said
		}
		return err
	}
	if err == nil {
		c.remember(c.shape)
	}
	return unavailable(err)
}

// errUnseenShape is why a shape that exists does not count as agreed on. The read came from a
// server that has not seen it yet, or it is gone again.
var errUnseenShape = errors.New("another node has recorded a shape, which cannot be read yet")

// remember tells the strategy what the store has on record.
func (c claim) remember(shape string) {
	if c.keeper != nil {
		c.keeper.OnRecord(shape)
	}
}

func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err}
}
