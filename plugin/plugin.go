// Package plugin is the registry of plugins: factories by name. A plugin registers itself in an
// init function of its package, a program gets it by importing that package, and a biz type binds
// it by naming it in its list of plugins, each binding with settings of its own.
package plugin

import (
	"cmp"
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
	// Store is where a plugin may keep what it must remember. It is open, but may not be reached
	// yet.
	Store persist.Store
	// Now is the clock.
	Now func() time.Time
	// Log gets what an operator should see.
	Log *slog.Logger
	// Observer gets rare events.
	Observer seqd.Observer
	// Redis is nil when the configuration names no server; else a client that sends each command
	// once, never again, and bounds it in time, also while no server can be reached. It is safe for
	// concurrent use and is closed by whoever made it.
	Redis redis.UniversalClient
	// RedisPrefix begins every key in Redis.
	RedisPrefix string
	// RedisAway returns since when and why Redis could not be used when it was last looked at,
	// which is about once a second, and a nil error when it could. It does no I/O. It is nil where
	// Redis is.
	RedisAway func() (since time.Time, cause error)
	// Addr is the address that the node listens on, host:port with the port as a number.
	Addr string
	// Cluster is the ID of the cluster, as the store has it: 32 hexadecimal digits. What is kept in
	// Redis carries it.
	Cluster string
}

// Factory makes plugins of one kind.
type Factory struct {
	// Name is what a binding says.
	Name string
	// Order is the place in the chain of a binding that says none: smaller runs first.
	Order int
	// Quick says that the plugin returns promptly whatever happens, or when the context ends; see
	// seqd.BoundPlugin.
	Quick bool
	// Settings returns a pointer to a new copy of the settings with their defaults: a struct whose
	// fields carry `config` tags with the names of the keys; "name" and "order" are taken. It may
	// implement seqd.Validator.
	Settings func() any
	// Check, where it is set, returns what is wrong with a binding in the chain of this biz type,
	// none when it fits. The biz type and the settings are valid by themselves. It does no I/O.
	Check func(bizType seqd.BizType, binding seqd.PluginBinding) []seqd.Problem
	// New makes the plugin of one binding, whose Settings are what Settings returned, decoded and
	// validated. Where the plugin implements seqd.Closer, it is closed at the end.
	New func(env Env, bizType seqd.BizType, binding seqd.PluginBinding) (seqd.Plugin, error)
	// Shape is for a plugin that rewrites how numbers are shown; nil for others. It returns a text
	// that changes with every setting that could make an ID appear a second time, secrets as a hash
	// (see seqd.Claim). It is called after New, with the same binding. What it cannot read is an
	// error: a text made without it would be taken for another shape.
	Shape func(bizType seqd.BizType, binding seqd.PluginBinding) (string, error)
	// ShowsPeriod reports whether IDs of different periods differ by what the plugin shows: only
	// then may the numbers of the biz type begin again. nil for plugins that never do.
	ShowsPeriod func(bizType seqd.BizType, binding seqd.PluginBinding) bool
}

// Maker is implemented by settings by which New or Shape may make something that stays, such as a
// file with a key, so that a mere check can leave it.
type Maker interface {
	// Makes reports whether New or Shape would make something now. It changes nothing.
	Makes() bool
}

// Chain returns the bindings of a biz type in the order in which they run.
func Chain(bizType seqd.BizType) []seqd.PluginBinding {
	bindings := slices.Clone(bizType.Plugins)
	slices.SortStableFunc(bindings, func(a, b seqd.PluginBinding) int { return cmp.Compare(a.Order, b.Order) })
	return bindings
}

var factories = registry.New[Factory]("plugins")

// Register makes a plugin known. It panics when the name is empty or taken or Settings or New is
// missing.
func Register(f Factory) { factories.Register(f.Name, f, f.Settings != nil && f.New != nil) }

// Names lists the registered plugins, sorted.
func Names() []string { return factories.Names() }

// Lookup returns a factory, or an error that lists the names there are.
func Lookup(name string) (Factory, error) { return factories.Lookup(name) }
