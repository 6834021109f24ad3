package definitions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/rejection"
	"github.com/seqd/seqd/strategy"
)

// builder makes what the issuer needs of a biz type. It does no I/O except that of the factories of
// plugins, which may read files, and, if a file is missing that they would make, one read of the
// store.
type builder struct {
	cfg      *config.Config
	env      strategy.Env
	handlers *rejection.Handlers
	shapes   *shapes
	log      *slog.Logger

	records    records
	unfollowed func(kind, key string) time.Duration               // see [feed.Feed.Unfollowed]
	present    func(ctx context.Context) (times int64, err error) // see Options
	agreed     *agreed                                            // nil if this node follows the store
}

// decode reads the text of a definition.
func (b *builder) decode(name string, text []byte) (seqd.BizType, error) {
	bizType, problems := b.cfg.DecodeDefinition(name, text)
	if len(problems) > 0 {
		return bizType, invalid(problems)
	}
	return bizType, nil
}

// build builds a biz type. forced is the shape that was forced upon it, "" for none. If its plugins
// cannot be made, for example because a key file cannot be read, the biz type refuses to issue, and
// that is no error: the others must not be affected.
func (b *builder) build(bizType seqd.BizType, forced string) (d issuer.Definition, err error) {
	defer bounded.Recover("strategy "+bizType.Strategy, &err)
	d.BizType = bizType
	if d.Rejected, err = b.handlers.Use(bizType.Rejected); err != nil {
		return d, err
	}
	var shape string
	if err = b.mayMake(bizType); err == nil {
		d.Plugins, err = b.plugins(bizType, forced)
	}
	if err == nil {
		shape, err = Shape(bizType, forced)
	}
	if err != nil {
		d.Strategy, d.Claim = unusable{err}, unusable{err}
		return d, nil
	}
	factory, err := strategy.Lookup(bizType.Strategy)
	if err != nil {
		return d, err
	}
	if d.Strategy, err = factory.New(b.env, bizType); err != nil {
		return d, err
	}
	made, err := strategy.NewClaim(b.env, bizType, d.Strategy)
	if err != nil {
		return d, err
	}
	c := claim{Claim: made, shapes: b.shapes, bizType: bizType, own: made.Shape, forced: forced}
	c.Shape, d.Display = shape, shape
	if b.agreed != nil {
		b.agreed.keeper = c.Keeper
		c.Keeper = b.agreed
	}
	d.Claim, d.Recall, d.Follows = c, strategy.Recall(b.env, bizType.Name), b.env.Follows
	return d, nil
}

// buildStored builds what a document says, nil if it says that there is no biz type. What this node
// cannot build refuses to issue. state is what to remember of it, rejected the bindings of the
// rejection handlers that are in use now.
func (b *builder) buildStored(doc persist.Document) (state state, rejected []seqd.RejectedBinding, d *issuer.Definition) {
	name := doc.Key
	said, err := decode(doc)
	state = stateOf(doc.Revision, said)
	switch {
	case err == nil && said.Deleted:
		return state, nil, nil
	case err == nil && !said.Enabled:
		return state, nil, b.idle(name, said)
	}
	made := issuer.Definition{BizType: seqd.BizType{Name: name}}
	if err == nil {
		made.BizType, err = b.decode(name, said.Definition)
	}
	if err == nil {
		made, err = b.following(name, state).build(made.BizType, said.Shape)
		made.Display = display(made.Display, made.BizType, said.Definition)
	}
	if made.Rejected != nil {
		rejected = made.BizType.Rejected
	}
	if err != nil {
		made.BizType.Name, made.Strategy, made.Claim = name, unusable{err}, unusable{err}
	}
	_, state.unusable = made.Strategy.(unusable)
	made.OnlyDegrades = doc.Revision > 1 || said.Source != fromConfig
	return state, rejected, &made
}

// idle builds a disabled biz type: its plugins, because of what they have to show. If all is known
// of it, its IDs can be read.
func (b *builder) idle(name string, said stored) *issuer.Definition {
	d := &issuer.Definition{BizType: seqd.BizType{Name: name}, Disabled: disabled(name)}
	bizType, err := b.decode(name, said.Definition)
	if err == nil {
		d.Plugins, err = b.possiblePlugins(bizType, said.Shape)
	}
	if err == nil {
		d.BizType = bizType
		d.Display = displayOf(bizType, said)
	} else {
		b.log.Warn("not all plugins of a biz type that is disabled can be made; those show nothing",
			"bizType", name, "error", err)
	}
	return d
}

// plugins makes the plugins of a biz type.
func (b *builder) plugins(bizType seqd.BizType, forced string) (bound []seqd.BoundPlugin, err error) {
	for _, binding := range plugin.Chain(bizType) {
		made, err := b.plugin(bizType, binding, forced)
		if err != nil {
			return bound, err
		}
		bound = append(bound, made)
	}
	return bound, nil
}

// mayMake returns why the plugins of a biz type must not make a file that is missing, such as a new
// random key: numbers were issued with the one that was there, or the store does not say. That
// passes when the right file is there: see [Catalogue.Mend].
func (b *builder) mayMake(bizType seqd.BizType) error {
	makes := maker(bizType)
	if makes == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.Server.StopTimeout)
	defer cancel()
	switch _, err := b.shapes.onRecord.Read(ctx, bizType.Name); {
	case errors.Is(err, persist.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("plugin %s: what it keeps in a file is missing, and the store does not say whether numbers were issued with it: %w", makes, err)
	}
	return fmt.Errorf("plugin %s: what it keeps in a file is missing, and numbers were issued with it: put the file of another node or of a backup there", makes)
}

// possiblePlugins makes those plugins of a biz type that can be made, and returns why the others
// cannot. It makes no new key: IDs that were issued would be read with it.
func (b *builder) possiblePlugins(bizType seqd.BizType, forced string) (bound []seqd.BoundPlugin, err error) {
	for _, binding := range plugin.Chain(bizType) {
		if makes(binding) {
			err = errors.Join(err, fmt.Errorf("plugin %s: what it keeps in a file is missing", binding.Name))
			continue
		}
		made, failed := b.plugin(bizType, binding, forced)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		bound = append(bound, made)
	}
	return bound, err
}

func (b *builder) plugin(bizType seqd.BizType, binding seqd.PluginBinding, forced string) (bound seqd.BoundPlugin, err error) {
	defer bounded.Recover("plugin "+binding.Name, &err)
	factory, err := plugin.Lookup(binding.Name)
	if err != nil {
		return seqd.BoundPlugin{}, err
	}
	env := PluginEnv(b.env)
	env.OnRecord = func(ctx context.Context) (string, error) {
		known, err := forced, error(nil)
		if known == "" {
			known, err = b.shapes.read(ctx, bizType.Name)
		}
		return ofPlugin(binding.Name, known), err
	}
	made, err := factory.New(env, bizType, binding)
	if err != nil {
		return seqd.BoundPlugin{}, fmt.Errorf("plugin %s: %w", binding.Name, err)
	}
	return seqd.BoundPlugin{
		Name: binding.Name, Order: binding.Order, Plugin: made, Quick: factory.Quick, Rewrites: factory.Shape != nil,
		Ranges: factory.Ranges && factory.Shape == nil,
	}, nil
}

// PluginEnv returns what plugins and rejection handlers are built from.
func PluginEnv(e strategy.Env) plugin.Env {
	return plugin.Env{
		Store: e.Store, Now: e.Now, Log: e.Log, Observer: e.Observer,
		Redis: e.Redis, RedisPrefix: e.RedisPrefix, RedisAway: e.RedisAway, Addr: e.Addr, Cluster: e.Cluster,
	}
}

func disabled(name string) *seqd.Error {
	return seqd.Errorf(seqd.CodeDisabled, "the biz type %s is disabled", name)
}

// unusable stands in for the strategy of a biz type that cannot be built.
type unusable struct{ err error }

var (
	_ seqd.Strategy = unusable{}
	_ seqd.Claim    = unusable{}
)

// Check implements [seqd.Claim].
func (u unusable) Check(ctx context.Context) (fresh bool, err error) {
	return false, u.Init(ctx, false)
}

// Record implements [seqd.Claim].
func (u unusable) Record(ctx context.Context) error { return u.Init(ctx, false) }

// Reshaped implements [seqd.Claim].
func (unusable) Reshaped() bool { return false }

// Init returns a conflict. [Catalogue.Mend] finds out whether it has passed.
func (u unusable) Init(context.Context, bool) error {
	return &seqd.Error{
		Code: seqd.CodeConflict, RetryAfter: mendPause,
		Detail: "the plugins of this biz type cannot be used here, which is tried again every few seconds; the log of the service says more", Err: u.err,
	}
}

// Generate returns the same.
func (u unusable) Generate(ctx context.Context, _ int, _ *seqd.Sequence) error {
	return u.Init(ctx, false)
}

// Idle implements [seqd.Idler].
func (unusable) Idle() bool { return true }

// Close implements [seqd.Strategy].
func (unusable) Close(context.Context) error { return nil }
