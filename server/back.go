package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/internal/outbound"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/answerquota"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/definitions"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/server/figures"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/jobs"
	"github.com/seqd/seqd/server/nodes"
	"github.com/seqd/seqd/server/rejection"
	"github.com/seqd/seqd/server/standings"
	"github.com/seqd/seqd/server/subscriptions"
	"github.com/seqd/seqd/server/terms"
	"github.com/seqd/seqd/server/workers"
	"github.com/seqd/seqd/strategy"
)

// receiverIdle is how many idle connections a node keeps for each receiver of events.
const receiverIdle = 8

// auditPatience is how long a stop waits until the last audit lines are in the store, at most.
const auditPatience = 3 * time.Second

// back is what issuing uses.
type back struct {
	base          *base
	front         *front
	opening       backends.StoreOptions
	alone         map[string]bool // biz types that issue without the store, if it cannot be reached
	store         *backends.Store
	clock         *storeclock.Clock // of the store
	attending     *storeclock.Attendance
	common        *nodes.Clock      // the time that nodes have in common
	redis         *backends.Redis   // nil if none is configured
	home          *idempotency.Home // of answers, nil if other nodes cannot use the store
	feed          *feed.Feed
	handlers      *rejection.Handlers
	catalogue     *definitions.Catalogue
	issuer        *issuer.Issuer
	nodes         *nodes.Nodes
	terms         *terms.Terms             // see openTerms
	coordinator   coordination.Coordinator // nil without
	jobs          *jobs.Jobs               // see openJobs
	events        *events.Streams
	disks         []*disk
	certificates  []*clientCertificate
	schedule      schedule
	subscriptions *subscriptions.Subscriptions // see openSubscriptions
	figures       *figures.Figures
	workers       *workers.Workers
	quota         *answerquota.Quota
	left          sync.Map // see [strategy.Env]
}

// open opens the back ends, builds the biz types and lets requests in. It returns an error if ctx
// ends before that.
func (b *back) open(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		b.openStore, b.openRedis, b.openHome, b.openCoordinator, b.openFeed, b.openTokens, b.openIssuer,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := b.openNodes(ctx); err != nil {
		return err
	}
	b.openAudit(ctx)
	b.openJobs()
	id, _ := b.nodes.Self()
	store := b.store.Store
	b.workers = workers.New(workers.Options{
		Documents: store.Documents(), Slots: store.Slots(), Cluster: b.store.Cluster,
		Now: b.base.opts.now, Stopping: b.front.gate.Draining, Log: b.base.log,
	})
	b.front.gate.Ready(&gate.Running{
		Standings: &standings.Reader{Config: b.base.cfg, Store: store},
		Workers:   b.workers, Jobs: b.jobs, Events: b.events, Subscriptions: b.subscriptions, Issuer: b.issuer, Catalogue: b.catalogue.Editor(), Nodes: b.nodes, Figures: b.figures, Answers: b.openAnswers(ctx),
		Documents: b.duties(), Node: id, Clock: b.common.Now,
		Snapshot: b.saveSnapshot,
		Troubles: func() (store, definitions, coordinator *seqd.Error) {
			return b.failedOver(), b.nodes.Mixed(), b.uncoordinated()
		},
	})
	b.base.background.run(ctx, b.issuer.Init)
	b.base.background.run(ctx, b.jobs.Run)
	b.base.background.run(ctx, b.events.Run)
	b.base.background.run(ctx, b.subscriptions.Run)
	if f := b.front; f.console != nil && b.base.cfg.Auth.Enforced() {
		b.base.background.run(ctx, f.console.Tidy)
	}
	b.base.background.run(ctx, b.saveSnapshots)
	b.base.background.run(ctx, b.follow)
	b.base.background.run(ctx, b.store.WatchFence)
	b.base.background.run(ctx, b.catalogue.Seed)
	b.base.background.run(ctx, b.catalogue.Tidy)
	b.base.background.run(ctx, b.catalogue.Mend)
	b.base.background.run(b.paced(ctx), b.catalogue.Purge)
	b.runStrategies(ctx)
	return nil
}

// runStrategies begins what strategies do in the background.
func (b *back) runStrategies(ctx context.Context) {
	for _, name := range strategy.Names() {
		factory, err := strategy.Lookup(name)
		if err != nil || factory.Background == nil {
			continue
		}
		failed := func(err error) {
			b.base.log.Error("what a strategy does in the background failed; it begins again", "strategy", name, "error", err)
		}
		b.base.background.run(ctx, func(ctx context.Context) {
			// its only error is the end of ctx
			_ = retry.Do(ctx, retry.Policy{First: backends.RetryPause, Failed: failed}, func(ctx context.Context) (err error) {
				defer bounded.Recover("strategy "+name, &err)
				factory.Background(ctx, b.env(), b.issuer)
				return nil
			})
		})
	}
}

// openStore opens the store.
func (b *back) openStore(ctx context.Context) (err error) {
	b.opening = backends.StoreOptions{
		Now: b.base.opts.now, Log: b.base.log,
		Trace: b.base.telemetry.commands(), Remembered: b.remembered, Prior: backends.Prior(b.base.cfg.Redis), Waiting: b.front.gate.Wait,
	}
	if counts := b.base.telemetry.metrics; counts != nil {
		b.opening.Took, b.opening.Synced = counts.StoreTook, counts.Synced
		b.watchFiles(ctx)
	}
	b.store, err = backends.OpenStore(ctx, b.base.cfg.Store, b.opening)
	if err != nil {
		return err
	}
	b.clock = storeclock.New(b.store.Store, b.base.opts.now, nil)
	b.attending = storeclock.NewAttendance(b.store.Store.Documents(), b.clock)
	b.common = nodes.NewClock(b.store.Store, b.base.opts.now)
	b.quota = answerquota.New(answerquota.Options{
		Documents: b.duties(), Clock: b.common.Now, Log: b.base.log,
		Bounds: func() (most, mostPerOwner int64) {
			now := &b.base.now.Load().Idempotency
			return now.MaxBytes, now.MaxBytesPerCaller
		},
	})
	b.base.cleanups.add("the store", b.base.cfg.Server.StopTimeout, func(context.Context) error {
		return b.store.Store.Close()
	})
	return nil
}

// remembered returns the biz types that can issue without the store, and their cluster.
func (b *back) remembered() (bizTypes []string, cluster string) {
	b.alone, cluster = definitions.Alone(b.base.cfg.BizTypes, b.env())
	return slices.Sorted(maps.Keys(b.alone)), cluster
}

// openRedis opens Redis, if the configuration has one.
func (b *back) openRedis(ctx context.Context) (err error) {
	if !b.base.cfg.Redis.Configured() {
		return nil
	}
	b.redis, err = backends.OpenRedis(ctx, b.base.cfg.Redis, backends.RedisOptions{
		Cluster: b.store.Cluster, AnyCluster: b.base.cfg.Store.Forgets(),
		Hook: b.base.telemetry.redisHook(), Log: b.base.log,
	})
	if err != nil {
		return err
	}
	b.base.cleanups.add("Redis", b.base.cfg.Server.StopTimeout, func(context.Context) error {
		_ = b.redis.Client.Close() // its errors are of connections that were broken anyway
		return nil
	})
	if counts := b.base.telemetry.metrics; counts != nil {
		b.redis.Client.AddHook(redisTimes(counts.RedisTook))
	}
	b.base.background.run(ctx, b.redis.Watch)
	return nil
}

// openFeed begins to follow changes. What is read from here on is followed.
func (b *back) openFeed(ctx context.Context) error {
	b.base.cleanups.add("background work", backgroundPatience, b.base.background.await)
	store, publishing := b.store, b.env().Redis
	if seams.Of(ctx).Poll {
		publishing = nil
	}
	b.feed = feed.New(feed.Options{
		Documents: store.Store.Documents(), Shared: store.Store.Shared(), Redis: publishing,
		Channel: b.base.cfg.Redis.Changes(store.Cluster), Now: b.base.opts.now, Log: b.base.log,
	})
	if store.BeganWithout() {
		return nil // see catchUp
	}
	return b.opening.Await(ctx, b.feed.Begin)
}

// openTokens reads the tokens of the store. If that fails, biz types are opened nevertheless, and
// the tokens are tried again in the background. There they are read again too if the configuration frees
// names of them.
func (b *back) openTokens(ctx context.Context) error {
	tokens := b.front.tokens
	b.feed.Add(access.Kind, feed.Follower{
		Changed: tokens.Apply, Reload: func(ctx context.Context) ([]string, error) { return nil, tokens.Reload(ctx) },
	})
	tokens.Use(access.Backing{
		Documents: b.store.Store.Documents(), Clock: b.clock, Now: b.common.Now, Announce: b.feed.Announce, Publish: b.feed.Publish,
	})
	if tokens.Reload(ctx) != nil {
		b.front.tokensFreed()
	}
	b.base.background.run(ctx, b.front.followTokens)
	return nil
}

// openIssuer builds the biz types and the issuer.
func (b *back) openIssuer(ctx context.Context) error {
	env := b.env()
	b.handlers = rejection.New(rejection.Options{
		Env: definitions.PluginEnv(env), CloseTimeout: b.base.cfg.Server.StopTimeout, Log: b.base.log,
	})
	b.base.cleanups.add("issuing", b.base.cfg.Server.StopTimeout, b.closeIssuing)
	opts := definitions.Options{Config: b.base.cfg, Env: env, Clock: b.common.Now, Handlers: b.handlers, Feed: b.feed, Others: b.others, Present: b.present, Shown: b.shown}
	if b.store.BeganWithout() {
		opts.Unreached, opts.Alone = b.store.Unreached, b.alone
	}
	b.catalogue = definitions.New(opts)
	if follower, ok := b.catalogue.Follower(); ok {
		b.feed.Add(definitions.Kind, follower)
	}
	issuing := issuer.Options{
		Rejected: b.base.opts.rejected, Observer: env.Observer, Log: b.base.log, PluginTimeout: b.base.cfg.Server.PluginTimeout,
	}
	return b.opening.Await(ctx, func(ctx context.Context) (err error) {
		b.issuer, err = b.catalogue.Open(ctx, issuing)
		return err
	})
}

// openJobs prepares the jobs.
func (b *back) openJobs() {
	cfg := b.base.cfg.Jobs
	b.jobs = jobs.New(jobs.Options{
		Documents: b.store.Store.Documents(), Terms: b.terms, Issuer: b.issuer, Now: b.common.Now, Draining: b.front.gate.Draining,
		Log: b.base.log, AtOnce: cfg.AtOnce, Most: cfg.Most, ResultTTL: cfg.ResultTTL, Past: b.past,
		HasEvents: b.catalogue.Editor().HasEvents, Served: b.front.gate.Requests.Entered,
	})
}

// past returns the time before which what has ended may be removed: see [storeclock.Clock.Past].
func (b *back) past(ctx context.Context) (before int64, ok bool, err error) {
	return b.clock.Past(ctx, b.store.Store.Documents())
}

// openEvents prepares the streams of events.
func (b *back) openEvents() {
	editor := b.catalogue.Editor()
	b.events = events.New(events.Options{
		Documents: b.store.Store.Documents(), Terms: b.terms, Now: b.common.Now, Keep: b.base.cfg.Events.Keep, Log: b.base.log, Past: b.past,
		Left: func(ctx context.Context) error { return editor.CopyEvents(b.paced(ctx)) }, Has: editor.HasEvents, Stopping: b.front.gate.Draining,
	})
}

// openSubscriptions prepares the subscriptions. Run of the terms uses them.
func (b *back) openSubscriptions(ctx context.Context) {
	transport := outbound.NewTransport(receiverIdle)
	if dial := seams.Of(ctx).DialReceiver; dial != nil {
		transport.DialContext = dial
	}
	b.subscriptions = subscriptions.New(subscriptions.Options{
		Documents: b.store.Store.Documents(), Terms: b.terms, Streams: b.events, Transport: transport, Now: b.common.Now, Log: b.base.log,
		KeepDead: b.base.cfg.Subscriptions.KeepDead, Past: b.past, Announce: b.feed.Announce, Publish: b.feed.Publish,
	})
	b.feed.Add(subscriptions.Kind, feed.Follower{
		Changed: b.subscriptions.Changed, Reload: func(ctx context.Context) ([]string, error) { return nil, b.subscriptions.Reload(ctx) },
	})
}

// shown looks for a job whose result a change of a biz type would make unreadable. Nobody changes one
// before openJobs.
func (b *back) shown(ctx context.Context, bizType, display string) (job string, err error) {
	return b.jobs.Shown(ctx, bizType, display)
}

// closeIssuing gives unused numbers back, and closes what biz types use.
func (b *back) closeIssuing(ctx context.Context) (err error) {
	if b.issuer != nil {
		err = b.issuer.Close(ctx)
	}
	return errors.Join(err, b.handlers.Close(ctx))
}

// confirm ends the service if the store, which could not be reached at the start, turns out to be
// another one.
func (b *back) confirm(ctx context.Context) {
	err := b.store.Confirm(ctx, func(ctx context.Context) error {
		if err := b.announce(ctx); err != nil {
			return err
		}
		return b.catalogue.Confirm(ctx)
	})
	if seqd.CodeOf(err) == seqd.CodeConflict {
		b.base.failed <- err
	}
}

// others returns the other nodes. No biz type is opened before openNodes.
func (b *back) others(ctx context.Context) ([]admin.Node, error) { return b.nodes.Others(ctx) }

// present lets the other nodes count this one; see [nodes.Nodes.Present].
func (b *back) present(ctx context.Context) (times int64, err error) { return b.nodes.Present(ctx) }

// announce says that this node is there if it has definitions of its own, before it compares shapes
// and takes numbers from the store: nodes that follow the store then force no other shape on a biz
// type.
func (b *back) announce(ctx context.Context) error {
	if b.base.cfg.BizTypesFrom != config.FromConfig || !b.store.Store.Shared() {
		return nil
	}
	_, err := b.nodes.Present(ctx)
	return err
}

// openNodes counts this node among those of the cluster, and begins to keep figures.
func (b *back) openNodes(ctx context.Context) error {
	store, opts := b.store.Store, &b.base.opts
	clock := b.common
	b.nodes = nodes.New(nodes.Options{
		Documents: b.duties(), Leader: func() string { return b.terms.Leader() }, Shared: store.Shared(), Now: opts.now, Log: b.base.log,
		Clock: clock.Now, ClockKnown: clock.Known, Ask: clock.Ask, ClockOffset: func() (time.Duration, bool) { return b.clockOffset(clock) },
		Addr: b.front.addr, Build: opts.build(), BizTypesFrom: b.base.cfg.BizTypesFrom,
		Changes: b.feed.Number, BizTypes: b.catalogue.Count, Details: b.issuer.Details, FailedOver: b.failedOver, Redis: b.usesRedis, Coordination: b.coordinated, Config: b.front.reloads.shown,
	})
	id, _ := b.nodes.Self()
	b.openTerms(ctx, id)
	options := figures.Options{
		Documents: b.duties(), Shared: store.Shared(), ID: id, Nodes: b.nodes, Log: b.base.log,
		Clock: clock.Now, ClockKnown: clock.Known, Addr: b.front.addr, Build: opts.build(), Issuer: b.issuer,
		Stopping: b.front.gate.Draining, Trouble: b.front.gate.Trouble,
	}
	if counts := b.base.telemetry.metrics; counts != nil {
		options.Counts = counts
	}
	b.figures = figures.New(options)
	if store.Shared() {
		b.base.background.run(ctx, clock.Follow)
	}
	if b.store.BeganWithout() {
		b.base.background.run(ctx, b.confirm)
	} else if err := b.opening.Await(ctx, b.announce); err != nil {
		return err
	}
	b.base.background.run(ctx, b.nodes.Beat)
	b.base.background.run(ctx, b.figures.Run)
	return nil
}

// clockOffset returns how far this node's clock is ahead of that of the store, or else of a
// registry of machine IDs.
func (b *back) clockOffset(clock *nodes.Clock) (offset time.Duration, ok bool) {
	if offset, ok = clock.Offset(); !ok {
		offset, ok = b.figures.RegistryOffset()
	}
	return offset, ok
}

// openAudit keeps the audit lines in the store.
func (b *back) openAudit(ctx context.Context) {
	id, host := b.nodes.Self()
	b.front.audit.Open(audit.Store{
		Documents: b.duties(), Clock: b.clock, ID: id, Host: host, Node: b.front.addr,
	})
	b.base.cleanups.add("the audit log", min(auditPatience, b.base.cfg.Server.StopTimeout), b.front.audit.Close)
	b.base.background.run(ctx, b.front.audit.Run)
}

// failedOver returns why an operator has to look at the store, nil if nobody has to.
func (b *back) failedOver() *seqd.Error {
	why, _ := b.store.FailedOver()
	return why
}

// follow follows the changes of other nodes until ctx ends.
func (b *back) follow(ctx context.Context) {
	if b.store.BeganWithout() && b.catchUp(ctx) != nil {
		return
	}
	b.feed.Follow(ctx)
}

// catchUp reads what a start without the store could not. It returns an error if ctx ends before.
func (b *back) catchUp(ctx context.Context) error {
	changed := retry.OnChange(backends.LogWaiting(b.base.log, "what changed before this node could reach the store cannot be read yet"))
	failed := func(err error) {
		if !b.store.Unreached() { // while it is, that was logged
			changed(err)
		}
	}
	return retry.Do(ctx, retry.Policy{First: backends.RetryPause, Failed: failed}, func(ctx context.Context) error {
		if err := b.feed.Begin(ctx); err != nil {
			return err
		}
		return b.catalogue.CatchUp(ctx)
	})
}

// env is what strategies and plugins are built from. Before the back ends are open it is without
// them.
func (b *back) env() strategy.Env {
	env := strategy.Env{
		Now: b.base.opts.now, Log: b.base.log, Observer: b.base.opts.observer,
		RedisPrefix: b.base.cfg.Redis.KeyPrefix, Addr: b.front.addr,
		AnswerTTL: b.base.cfg.Idempotency.TTL, Left: &b.left,
	}
	if b.store != nil {
		env.Store, env.Cluster = b.store.Store, b.store.Cluster
		env.Clock, env.Attendance, env.Quota = b.clock, b.attending, b.quota
	}
	if b.coordinator != nil {
		env.Coordinator, env.CoordinatorPlace = b.coordinator, b.base.cfg.Coordination.Place(b.store.Cluster)
	}
	if b.redis != nil {
		env.Redis, env.RedisBatch, env.RedisAway = b.redis.Client, b.redis.Batch, b.redis.Away
	}
	return env
}

// tellBackends tells which back ends answered when they were last used. The store is used at every
// poll of the feed, every few seconds, and by strategies that fetch numbers; so one that no other
// node uses counts as well until fetching fails.
func (b *back) tellBackends(tell func(name string, up bool)) {
	tell("store", !b.feed.Failing() && !b.base.telemetry.metrics.StoreAway() && !b.store.Unreached())
	b.tellRedis(tell)
	if _, used, trouble := b.coordinated(); used {
		tell("coordinator", trouble == "")
	}
}
