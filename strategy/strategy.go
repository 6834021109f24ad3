// Package strategy is the registry of strategies. Like a driver of database/sql, a strategy
// registers a factory in an init function of its package, and a program gets the strategy by
// importing that package. Package standard imports all strategies that come with seqd.
package strategy

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/redisbatch"
	"github.com/seqd/seqd/internal/registry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

// Env is what a strategy is built from.
type Env struct {
	// Store is where ranges come from. It is open. If the biz type started without the store, it
	// may not be reachable yet.
	Store persist.Store
	// Now is the clock.
	Now func() time.Time
	// Log is for operators.
	Log *slog.Logger
	// Observer receives rare events.
	Observer seqd.Observer
	// Redis is nil if the configuration names no server. Otherwise it is a client that sends each
	// command once, without retries, and with a timeout even if no server can be reached. It is
	// safe for concurrent use. A strategy must not close it.
	Redis redis.UniversalClient
	// RedisBatch sends calls of different counters together, with Redis. All strategies of a
	// process share it. If it is nil, each call has a round trip of its own.
	RedisBatch *redisbatch.Sender
	// RedisPrefix starts every key in Redis.
	RedisPrefix string
	// RedisAway returns since when and why Redis could not be used when it was last checked, about
	// once per second. The error is nil if it could. It does no I/O. It is nil if Redis is nil.
	RedisAway func() (since time.Time, cause error)
	// Coordinator is nil if the configuration has none besides the store. Its documents are those of this
	// cluster. CoordinatorPlace says where they are there. A strategy must not close it.
	Coordinator      coordination.Documents
	CoordinatorPlace string
	// Addr is the address that the node listens on, host:port with the port as a number.
	Addr string
	// Cluster is the ID of the cluster in the store: 32 hexadecimal digits. Keys or values in Redis
	// must contain it.
	Cluster string
	// Clock is the clock of the store. If it is nil, a strategy that needs it makes its own.
	Clock *storeclock.Clock
	// Attendance says since when nodes have watched that clock without a break. If it is nil, they
	// always have.
	Attendance *storeclock.Attendance
	// Left is what strategies of this process leave for those that come after them, by keys that
	// begin with the name of the kind. If it is nil, they leave nothing.
	Left *sync.Map
	// AnswerTTL is how long a strategy that keeps the answer to a request keeps it. 0 means 24 h.
	AnswerTTL time.Duration
	// Quota bounds what a strategy keeps of requests. If it is nil, nothing does.
	Quota Quota
	// Follows returns why what the store has just given to the biz type must not be used: this process
	// may not know that the biz type is another one by now, as after it was held up. A strategy calls
	// it after each range that it allocates, and after each state that it reads or writes. It is cheap
	// as a rule. If it is nil, nobody else changes the biz type.
	Follows func(ctx context.Context) error
}

// Quota bounds what is kept for each owner besides numbers: answers, how reservations ended, and
// void numbers. It is safe for concurrent use.
type Quota interface {
	// Admit returns why nothing more may be kept for an owner, nil if something may.
	Admit(owner string) error
	// Kept counts a record of a number of bytes that is kept for a time from now on.
	Kept(owner string, bytes int, life time.Duration)
}

// Factory makes strategies of one kind.
type Factory struct {
	// Name is the value of "strategy" in a biz type, and the section of the configuration with the
	// defaults of its settings.
	Name string
	// Help says in a sentence or two what the strategy does, for people who choose one. It is plain
	// text, and may be "".
	Help string
	// Settings returns a pointer to new default settings: a struct whose fields have `config` tags
	// with the names of the keys. It may implement seqd.Validator.
	Settings func() any
	// Ledger is whether its counters are ledgers: documents of persist.LedgerKind, as package
	// strategy/gapless/ledger writes them. Otherwise they are in persist.Counters, if it has any.
	Ledger bool
	// New returns the strategy of one biz type. Its Settings come from Settings, and are decoded
	// and validated. New does no I/O.
	New func(env Env, bizType seqd.BizType) (seqd.Strategy, error)
	// Shape returns a text that changes with every setting that could repeat a number (see
	// seqd.Claim).
	Shape func(bizType seqd.BizType) string
	// Alone reports whether the biz type can issue although the store was never reached since the
	// start, and the ID of the cluster that it remembers. ok is true only if shape is the one of
	// the last call of [ShapeKeeper.OnRecord]. Store, Cluster, Redis and Coordinator are not set in
	// env. It may be nil.
	Alone func(env Env, bizType seqd.BizType, shape string) (cluster string, ok bool)
	// Restored does what must be done after the state of the strategy was restored from a backup,
	// and describes it in one line. It can be called again. It is nil for strategies that take
	// numbers from a counter, which is raised instead.
	Restored func(ctx context.Context, env Env, bizType seqd.BizType) (done string, err error)
	// Elsewhere returns why nodes with this configuration would issue nothing, because the store says
	// that the others use another Redis or coordinator; nil if they do not. It changes nothing. The
	// second error is why that is not known. It may be nil.
	Elsewhere func(ctx context.Context, env Env, bizType seqd.BizType) (cause, err error)
	// Handover lets the counters of the store continue above the numbers of this strategy, before
	// another strategy is used for the biz type by force. It can be called again. It is nil for
	// strategies that take numbers from a counter, or that make other numbers than counters.
	Handover func(ctx context.Context, env Env, bizType string) error
	// Recall returns what counters of this strategy gave to a request of the biz type, whatever its
	// settings were then. It is nil for strategies that keep no answers.
	Recall func(ctx context.Context, env Env, bizType string, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error)
	// Background does what the strategy needs once per process, besides what its biz types do,
	// until ctx ends. It may be nil. reclaimer has the biz types of any strategy, and fetches
	// those that the node does not hold.
	Background func(ctx context.Context, env Env, reclaimer Reclaimer)
}

// Reclaimer ends the reservations of a counter of a biz type whose time is over. done is false if
// the biz type does not issue here, or if its strategy is no [seqd.Ledger]. An Issuer is one.
type Reclaimer interface {
	Reclaim(ctx context.Context, bizType, key string, period seqd.Period) (done bool, err error)
}

// ShapeKeeper is implemented by the strategies of a factory with Alone. They keep a copy of the
// shape that the store has of the biz type.
type ShapeKeeper interface {
	// OnRecord is called when the shape in the store was read. shape is the whole shape of the biz
	// type, plugins included, if the store has the same; "" if the store has another one, and the
	// copy must be deleted. It is safe for concurrent use, also before Init.
	OnRecord(shape string)
}

// Reopener is implemented by strategies that close periods which have ended.
type Reopener interface {
	// Reopen is called before Init(true) if a forced change gives the biz type another calendar,
	// and answers of the previous one are looked for ([Claim.Reshaped]). Init then opens the
	// periods that were closed by the previous calendar and have not ended by the present one.
	Reopen()
}

var factories = registry.New[Factory]("strategies")

// Register registers a strategy. It panics if the name is empty or taken, or if Settings, New or
// Shape is nil.
func Register(f Factory) {
	factories.Register(f.Name, f, f.Settings != nil && f.New != nil && f.Shape != nil)
}

// Names returns the names of the registered strategies, sorted.
func Names() []string { return factories.Names() }

// Recall returns what finds an answer of a biz type that any strategy keeps.
func Recall(env Env, bizType string) seqd.Recaller {
	return func(ctx context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
		for _, name := range Names() {
			f, _ := Lookup(name)
			if f.Recall == nil {
				continue
			}
			if r, replayed, err = f.Recall(ctx, env, bizType, o, seq); replayed || err != nil {
				return r, replayed, err
			}
		}
		return r, false, nil
	}
}

// Lookup returns a factory, or an error that lists the registered names.
func Lookup(name string) (Factory, error) { return factories.Lookup(name) }
