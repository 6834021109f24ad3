// Package plugin is the registry of plugins and of rejection handlers: factories by name.
//
// To add a plugin, implement [seqd.Plugin] in a package of its own, call [Register] with a
// [Factory] in an init function, and import the package in the program (package standard imports
// those that come with seqd). A biz type binds a plugin by its name; each binding has settings of
// its own. For rejection handlers use [RegisterRejected].
package plugin

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/registry"
	"github.com/seqd/seqd/persist"
)

// Env is what a plugin is built from.
type Env struct {
	// Store is where a plugin may keep data. It is open, but it may not be reachable yet.
	Store persist.Store
	// Now is the clock.
	Now func() time.Time
	// Log is for operators.
	Log *slog.Logger
	// Observer receives rare events.
	Observer seqd.Observer
	// OnRecord returns known of [Factory.ShapeLike]. It asks the store, until ctx ends. While the biz
	// type issues, the shape is on record, and the answer stays the same. It is nil in programs that
	// do not know it, for which Shape says what the plugin does.
	OnRecord func(ctx context.Context) (known string, err error)
	// Redis is nil if the configuration names no server. Otherwise it is a client that sends each
	// command once, without retries, and with a timeout even if no server can be reached. It is
	// safe for concurrent use. A plugin must not close it.
	Redis redis.UniversalClient
	// RedisPrefix starts every key in Redis.
	RedisPrefix string
	// RedisAway returns since when and why Redis could not be used when it was last checked, about
	// once per second. The error is nil if it could. It does no I/O. It is nil if Redis is nil.
	RedisAway func() (since time.Time, cause error)
	// Addr is the address that the node listens on, host:port with the port as a number.
	Addr string
	// Cluster is the ID of the cluster in the store: 32 hexadecimal digits. Keys or values in Redis
	// must contain it.
	Cluster string
}

// Factory makes plugins of one kind.
type Factory struct {
	// Name is the name of the plugin in a binding.
	Name string
	// Help says in a sentence or two what the plugin does, for people who choose one. It is plain
	// text, and may be "".
	Help string
	// Order is the default place in the chain. Plugins with a smaller order run first.
	Order int
	// Quick is true if the plugin always returns promptly, or when the context ends. See
	// seqd.BoundPlugin.
	Quick bool
	// Ranges is true if the plugin tolerates that a caller takes a range of numbers at once and
	// issues them later. A plugin that changes how numbers are shown, records them or limits them
	// does not. See seqd.BoundPlugin.
	Ranges bool
	// Pure is true if the plugin has no effect outside itself and uses nothing of Env except Now, Log
	// and Observer; New may read files. Then an ID can be shown as an example before the biz type
	// exists: the rest of Env is not set. It matters only with Shape.
	Pure bool
	// Settings returns a pointer to new default settings: a struct whose fields have `config` tags
	// with the names of the keys. The names "name" and "order" are reserved. It may implement
	// seqd.Validator.
	Settings func() any
	// Check returns what is wrong with a binding in the chain of this biz type, which is otherwise
	// valid. It does no I/O. It may be nil.
	Check func(bizType seqd.BizType, binding seqd.PluginBinding) []seqd.Problem
	// CheckNew returns what a binding must still say before the biz type issues its first number: it
	// is called as long as no shape is on record. It is called with issued too if another strategy,
	// keys or periods, or the plugin itself is forced upon a biz type that has issued. known is the
	// plugin's part of the shape before, as for ShapeLike. It does no I/O. It may be nil.
	CheckNew func(bizType seqd.BizType, binding seqd.PluginBinding, issued bool, known string) []seqd.Problem
	// New returns the plugin of one binding. The binding's Settings come from Settings, and are
	// decoded and validated. If the plugin implements seqd.Closer, it is closed at the end.
	New func(env Env, bizType seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error)
	// Shape is for a plugin that changes how numbers are displayed; nil for others. It returns a
	// text that changes with every setting that could repeat an ID, with secrets as a hash (see
	// seqd.Claim). It is called after New, with the same binding. It must return an error if it
	// cannot read something: a text without it would be taken for another shape.
	Shape func(bizType seqd.BizType, binding seqd.PluginBinding) (string, error)
	// ShapeLike is for a plugin that still shows numbers in previous ways; nil for others. It is
	// called instead of Shape. known is the shape that the biz type has of this plugin, on record or
	// by force, with text behind it, or "" if it has none: ShapeLike returns that of the same way. See
	// [Env.OnRecord].
	ShapeLike func(bizType seqd.BizType, binding seqd.PluginBinding, known string) (string, error)
	// ShowsPeriod reports whether the plugin makes IDs of different periods differ. Only then may
	// the numbers of the biz type reset. It is nil for plugins that never do.
	ShowsPeriod func(bizType seqd.BizType, binding seqd.PluginBinding) bool
	// Missing looks whether there is what New and Shape read besides the settings: see Outside of
	// [seqd.Traits]. makes is true if they would make it now, such as a key file, and err is why they
	// must fail. Missing changes nothing. It is nil for plugins that read nothing.
	Missing func(binding seqd.PluginBinding) (makes bool, err error)
	// Purge removes the records of a deleted biz type that are older than KeptFor of [seqd.Traits].
	// Several nodes may do so at once. What lies together with records of others is removed only if
	// gone says of each of them that it is deleted too, and keeps records no longer. It is nil for
	// plugins whose KeptFor is 0.
	Purge func(ctx context.Context, env Env, bizType string, binding seqd.PluginBinding, gone func(bizType string) bool) error
}

// Chain returns the bindings of a biz type in the order in which they run.
func Chain(bizType seqd.BizType) []seqd.PluginBinding {
	bindings := slices.Clone(bizType.Plugins)
	slices.SortStableFunc(bindings, func(a, b seqd.PluginBinding) int { return cmp.Compare(a.Order, b.Order) })
	return bindings
}

var factories = registry.New[Factory]("plugins")

// Register registers a plugin. It panics if the name is empty or taken, or if Settings or New is
// nil.
func Register(f Factory) { factories.Register(f.Name, f, f.Settings != nil && f.New != nil) }

// Names returns the names of the registered plugins, sorted.
func Names() []string { return factories.Names() }

// Lookup returns a factory, or an error that lists the registered names.
func Lookup(name string) (Factory, error) { return factories.Lookup(name) }
