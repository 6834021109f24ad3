// Package strategy is the registry of strategies: factories by name, as database/sql keeps drivers.
// A strategy registers itself in an init function of its package and a program gets it by importing
// that package (package standard imports all that come with seqd).
package strategy

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/registry"
	"github.com/seqd/seqd/persist"
)

// Env is what a strategy is built from.
type Env struct {
	// Store is where ranges come from. It is open; where the biz type began alone it may not be
	// reached yet.
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

// Factory makes strategies of one kind.
type Factory struct {
	// Name is what a biz type's "strategy" says, and the name of the section of the configuration
	// that holds the defaults of its settings.
	Name string
	// Settings returns a pointer to a new copy of the settings with their defaults: a struct whose
	// fields carry `config` tags with the names of the keys. It may implement seqd.Validator.
	Settings func() any
	// New makes the strategy of one biz type, whose Settings are what Settings returned, decoded
	// and validated. It does no I/O.
	New func(env Env, bizType seqd.BizType) (seqd.Strategy, error)
	// Shape returns what the numbers look like, for seqd.Claim: it changes with every setting that
	// could make a number appear a second time.
	Shape func(bizType seqd.BizType) string
	// Alone, where it is set, reports whether the biz type can issue although the store could not
	// be reached since the start, and the ID of the cluster that it remembers. It says so only
	// where shape is the one that [ShapeKeeper.OnRecord] was told last. Store, Cluster and Redis
	// are not set in env.
	Alone func(env Env, bizType seqd.BizType, shape string) (cluster string, ok bool)
	// Restored, where it is set, does what must follow when the state of the strategy was restored
	// from a backup, and says in a line what it did. It is safe to call again. A strategy without
	// it takes numbers from a counter, which is raised instead.
	Restored func(ctx context.Context, env Env, bizType seqd.BizType) (done string, err error)
}

// ShapeKeeper is implemented by the strategies of a factory with Alone: they remember outside the
// store in which shape the biz type is on record there.
type ShapeKeeper interface {
	// OnRecord is told the whole shape of the biz type, with what its plugins make of the numbers,
	// when the store was seen to have it on record; "" when the store has another one: what is
	// remembered must go. It is safe for concurrent use, also before Init.
	OnRecord(shape string)
}

var factories = registry.New[Factory]("strategies")

// Register makes a strategy known. It panics when the name is empty or taken or a function is
// missing.
func Register(f Factory) {
	factories.Register(f.Name, f, f.Settings != nil && f.New != nil && f.Shape != nil)
}

// Names lists the registered strategies, sorted.
func Names() []string { return factories.Names() }

// Lookup returns a factory, or an error that lists the names there are.
func Lookup(name string) (Factory, error) { return factories.Lookup(name) }
