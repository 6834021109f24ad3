// Package definitions decides which biz types there are. They are documents in the store, which the
// API changes ([Editor]) and every node follows ([Catalogue]); with bizTypesFrom: config they are
// what the configuration says.
//
//   - stored.go: the documents, and the part of them that commands such as raise read
//   - seed.go: definitions of the configuration that the store does not have yet
//   - builder.go, shape.go: the strategy and plugins of a definition, and their shape
//   - claim.go: a biz type issues in one shape only (invariant U6)
//   - sources.go: nodes whose definitions come from elsewhere do not follow changes
//   - catalogue.go, state.go: this process follows the documents
//   - fetch.go, residents.go: a definition is read when it is first needed, and dropped when idle
//   - editor.go, list.go, check.go, patch.go: what administrators read and change
//   - example.go: what an ID looks like before there is one
//
// The package depends on the store's documents, shapes and counters, the feed of changes, the part
// of the issuer that replaces biz types, a clock and a log: see [Options]. Package config decides
// what a definition may contain. A new field of the stored document goes into stored.go, a new rule
// for changes into check.go.
package definitions

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/server/rejection"
	"github.com/seqd/seqd/strategy"
)

// Kind is the kind of the documents that hold definitions, for the feed.
const Kind = kind

// Feed is how changes become known to other nodes. A [feed.Feed] is one.
type Feed interface {
	Announce(ctx context.Context, kind, key string) error
	AnnounceAll(ctx context.Context, kind string, keys []string) error
	Publish(ctx context.Context, kind, key string)
	Unfollowed(kind, key string) time.Duration
}

var _ Feed = (*feed.Feed)(nil)

// Issuer is what a Catalogue changes. A [issuer.Issuer] is one.
type Issuer interface {
	// Put replaces a biz type by what build returns, or adds it.
	Put(ctx context.Context, name string, build func() (issuer.Definition, error)) error
	Disable(ctx context.Context, name string, reason *seqd.Error) error
	Remove(ctx context.Context, name string, reason *seqd.Error) error
	// Idle reports whether the biz type can be dropped, and Drop removes one that can until it is
	// needed again.
	Idle(name string) bool
	Drop(ctx context.Context, name string) (dropped bool, err error)
}

var _ Issuer = (*issuer.Issuer)(nil)

// Options are what a Catalogue depends on.
type Options struct {
	Config *config.Config
	// Env is what strategies and plugins are built from. The catalogue uses its store, clock and
	// log too.
	Env strategy.Env
	// Clock is the time that nodes have in common, which documents carry; nil means Env.Now.
	Clock    func() time.Time
	Handlers *rejection.Handlers
	Feed     Feed
	// Others returns the other nodes that use the store; nil if there are none.
	Others func(ctx context.Context) ([]admin.Node, error)
	// Present lets the other nodes count this one, and returns how often they began to; see
	// [nodes.Nodes.Present]. It is nil if there are none.
	Present func(ctx context.Context) (times int64, err error)
	// Shown returns the ID of a job whose result cannot be shown any more once a biz type shows numbers
	// in the way display, "" if there is none; see [issuer.Definition]. It is nil without jobs.
	Shown func(ctx context.Context, bizType, display string) (job string, err error)
	// Unreached reports whether the store could not be reached at the start and has not been since.
	// Nil if it was reached at the start.
	Unreached func() bool
	// Alone are the biz types that issue in spite of that.
	Alone map[string]bool
}

// Catalogue is which biz types there are: what the store says, and the biz types that this process
// holds, which follow it. It holds those of the configuration, and those that were needed lately:
// see [Catalogue.Fetch]. It is safe for concurrent use.
type Catalogue struct {
	cfg       *config.Config
	log       *slog.Logger
	locked    bool // the configuration says what there is, and nothing can change it
	unreached func() bool
	alone     map[string]bool
	shown     func(ctx context.Context, bizType, display string) (job string, err error) // see Options

	records records
	sources sources
	builder *builder
	seeder  *seeder
	states  *states
	issuer  Issuer
	claims  []claim // of the biz types that were built before the store was reached
	turns   turns   // one change of a biz type at a time

	configured map[string]bool // the names in the configuration: they are always held
	absent     absent
	residents  residents
	tombstones tombstones
	reloads    atomic.Int64 // how often announcements were missed
}

// New returns a Catalogue without biz types; see [Catalogue.Open].
func New(opts Options) *Catalogue {
	env, cfg := opts.Env, opts.Config
	if opts.Clock == nil {
		opts.Clock = env.Now
	}
	c := &Catalogue{
		cfg: cfg, log: env.Log, locked: cfg.BizTypesFrom == config.FromConfig,
		unreached: opts.Unreached, alone: opts.Alone, shown: opts.Shown,
		records: records{env.Store.Documents(), opts.Clock},
		sources: sources{opts.Others},
		states:  newStates(),
	}
	c.configured = make(map[string]bool, len(cfg.BizTypes))
	for _, b := range cfg.BizTypes {
		c.configured[b.Name] = true
	}
	c.residents.closing = make(chan struct{}, parallelCloses)
	c.seeder = &seeder{cfg: cfg, records: c.records, feed: opts.Feed, log: env.Log}
	c.builder = &builder{
		cfg: cfg, env: env, handlers: opts.Handlers, log: env.Log, records: c.records, unfollowed: opts.Feed.Unfollowed, present: opts.Present,
		shapes: &shapes{
			onRecord: persist.ShapesIn(env.Store.Documents()), said: c.records.read, sources: c.sources, alone: c.isAlone, env: env,
		},
	}
	return c
}

// isAlone reports whether a biz type issues without the store, which has not been reached yet.
func (c *Catalogue) isAlone(name string) bool {
	return c.unreached != nil && c.alone[name] && c.unreached()
}

// Open builds the biz types that are held from the start, those of the configuration, and returns the
// issuer that issues them and in which the catalogue makes changes. opts are without a Source. Open
// must be called before the catalogue follows anything; after an error it can be called again.
func (c *Catalogue) Open(ctx context.Context, opts issuer.Options) (*issuer.Issuer, error) {
	list, err := c.build(ctx)
	if err != nil {
		return nil, err
	}
	if !c.locked {
		opts.Source = c
	}
	made, err := issuer.New(list, opts)
	if err != nil {
		return nil, err
	}
	c.issuer = made
	return made, nil
}

// build builds the biz types that are held from the start.
func (c *Catalogue) build(ctx context.Context) ([]issuer.Definition, error) {
	documents := map[string]persist.Document{}
	if !c.locked && c.unreached == nil {
		var err error
		if documents, err = c.seeder.load(ctx); err != nil {
			return nil, err
		}
	}
	list, err := c.buildConfigured(documents)
	if err != nil {
		return nil, err
	}
	for name, doc := range documents {
		state, rejected, d := c.builder.buildStored(doc)
		c.states.set(name, state)
		c.states.setRejected(name, rejected)
		if d != nil {
			list = append(list, *d)
		}
	}
	return list, nil
}

// buildConfigured builds the biz types of the configuration that the store does not have.
func (c *Catalogue) buildConfigured(documents map[string]persist.Document) (list []issuer.Definition, err error) {
	for _, b := range c.cfg.BizTypes {
		if _, ok := documents[b.Name]; ok {
			continue
		}
		text, _ := c.cfg.Definition(b.Name)
		state := stateOf(0, stored{Definition: text, Enabled: true})
		d, err := c.builder.following(b.Name, state).build(b, "")
		if err != nil {
			return nil, fmt.Errorf("biz type %s: %w", b.Name, err)
		}
		d.Display = display(d.Display, b, text)
		if claim, ok := d.Claim.(claim); ok && c.unreached != nil {
			c.claims = append(c.claims, claim)
		}
		_, state.unusable = d.Strategy.(unusable)
		c.states.set(b.Name, state)
		c.states.setRejected(b.Name, b.Rejected)
		list = append(list, d)
	}
	return list, nil
}

// Count returns how many biz types this process holds.
func (c *Catalogue) Count() int { return c.states.count() }

// Follower returns what makes this process do what changed documents say, for the feed. ok is false
// if the configuration says what there is.
func (c *Catalogue) Follower() (f feed.Follower, ok bool) {
	return feed.Follower{Changed: c.changed, Reload: c.reload}, !c.locked
}

// changed follows the document of one biz type, which may not be written yet.
func (c *Catalogue) changed(ctx context.Context, name string) error {
	_, err := c.look(ctx, name, false)
	return err
}

// reload follows the documents of all biz types that are held, and lets those that are being fetched
// be read again. left are those that could not be read.
func (c *Catalogue) reload(ctx context.Context) (left []string, err error) {
	c.reloads.Add(1)
	c.absent.clear()
	var mu sync.Mutex // guards left
	err = inParallel(c.states.names(), parallelReads, func(name string) error {
		err := c.changed(ctx, name)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, name)
		}
		return err
	})
	return left, err
}

// follow makes this process do what a document says, unless it has already. It holds the biz type
// from then on.
func (c *Catalogue) follow(ctx context.Context, doc persist.Document) {
	defer c.turns.take(doc.Key)()
	c.absent.remove(doc.Key)
	c.apply(ctx, doc)
}

// apply is follow for a caller who has the turn.
func (c *Catalogue) apply(ctx context.Context, doc persist.Document) {
	name := doc.Key
	before, was := c.states.get(name)
	if was && doc.Revision <= before.revision {
		return
	}
	said, err := decode(doc)
	if was && err == nil && said.digest() == before.said {
		before.revision = doc.Revision
		c.states.set(name, before)
		return
	}
	// It is done to the end even if the node stops meanwhile: the unused numbers would be lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Server.StopTimeout)
	defer cancel()
	after := stateOf(doc.Revision, said)
	var rejected []seqd.RejectedBinding
	switch {
	case err == nil && said.Deleted:
		c.tombstones.set(name, c.records.now())
		err = c.issuer.Remove(ctx, name, nil)
	case err == nil && !said.Enabled && was && before.onlyDisabledBy(said):
		// the plugins have what was counted until now
		err = c.issuer.Disable(ctx, name, disabled(name))
	default:
		err = c.issuer.Put(ctx, name, func() (issuer.Definition, error) {
			var d *issuer.Definition
			after, rejected, d = c.builder.buildStored(doc)
			return *d, nil
		})
	}
	c.builder.handlers.Release(c.states.setRejected(name, rejected))
	if err != nil {
		before.closedBadly()
		c.log.Error("a biz type was changed, and what it was before did not close well", "bizType", name, "error", err)
	}
	if was {
		c.log.Info("biz type changed", "bizType", name, "version", doc.Revision, "enabled", said.Enabled, "deleted", said.Deleted)
	}
	c.states.set(name, after)
	if !was && !c.configured[name] {
		c.residents.add(name)
	}
}

// Seed writes those definitions of the configuration to the store that could not be written at the
// start. It returns when all are there or ctx ends.
func (c *Catalogue) Seed(ctx context.Context) {
	if !c.locked {
		c.seeder.rest(ctx, c.unseeded, c.follow)
	}
}

// unseeded returns the definitions of the configuration that are not in the store, as far as this
// process knows.
func (c *Catalogue) unseeded() (names []string) {
	for _, b := range c.cfg.BizTypes {
		_, ok := c.cfg.Definition(b.Name)
		if known, _ := c.states.get(b.Name); ok && known.revision == 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// CatchUp follows the documents of a store that could not be reached at the start.
func (c *Catalogue) CatchUp(ctx context.Context) error {
	if c.locked {
		return nil
	}
	all, err := c.seeder.load(ctx)
	if err != nil {
		return err
	}
	for _, doc := range all {
		c.follow(ctx, doc)
	}
	_, err = c.reload(ctx) // others may have been fetched before announcements could be read
	return err
}

// Confirm compares the shapes of the biz types that began without the store with those on record in
// the store, which is that of their cluster. It returns [seqd.CodeConflict] if one differs
// (invariant U6).
func (c *Catalogue) Confirm(ctx context.Context) error {
	for _, claim := range c.claims {
		if !c.alone[claim.BizType] {
			continue
		}
		fresh, err := claim.Claim.Check(ctx)
		if err == nil && fresh { // an older copy of the store
			err = claim.Claim.Record(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
