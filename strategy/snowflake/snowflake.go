// Package snowflake is the strategy that makes numbers from the time, a sequence and a machine ID
// that this node has leased. Numbers sort by time, and making one needs no I/O.
//
// Two nodes never make the same number, because a machine ID is leased for an interval of time, and
// the time of a number is in that interval: see invariant U5 in package machineid. That does not
// depend on correct clocks.
//
// [Strategy] issues the numbers of one biz type. Strategies with the same settings share a holder
// (sharing.go), which leases the machine ID from a registry in the store, in Redis (package
// redisslots) or in a coordinator (package coordslots), and a generator, which makes numbers. With
// offlineStart the holder also keeps its lease in a file (package statefile). To add a registry,
// implement [persist.SlotStore] and open it in openRegistry.
package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// Name is the name of the strategy in a biz type.
const Name = "snowflake"

func init() {
	strategy.Register(strategy.Factory{
		Name: Name,
		Help: "Makes numbers of up to 63 bits from the time, a machine ID and a " +
			"sequence. They sort by time, and making one needs no store.",
		Settings: func() any { s := DefaultSettings(); return &s },
		New:      func(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) { return New(env, bizType) },
		Shape:    shape,
		Restored: restored, Elsewhere: elsewhere,
		Alone: aloneWith,
	})
}

// shape returns the layout and the registry: changing them may repeat a number.
func shape(bizType seqd.BizType) string {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return Name
	}
	l, err := newLayout(settings)
	if err != nil {
		return Name
	}
	// In another registry, another node may hold the same machine ID.
	return Name + " " + l.text() + " registry=" + settings.Registry
}

// aloneWith reports whether a biz type can issue although the store has not been reached since the
// start, and returns its cluster. It can if the file of the reservation lists it with the same
// shape, and the reservation has not ended.
func aloneWith(env strategy.Env, bizType seqd.BizType, shape string) (cluster string, ok bool) {
	settings, valid := bizType.Settings.(*Settings)
	if !valid || settings.OfflineStart == 0 {
		return "", false
	}
	l, wrong := newLayout(settings)
	if wrong != nil {
		return "", false
	}
	name, key, err := instanceOf(env.Addr, settings)
	if err != nil {
		return "", false
	}
	dir, err := settings.stateDir()
	if err != nil {
		return "", false
	}
	identity, saved, err := statefile.Peek(dir, name)
	if err != nil {
		if !errors.Is(err, statefile.ErrNone) && !errors.Is(err, fs.ErrNotExist) {
			env.Log.Warn("the reservation on disk cannot be used", "error", err)
		}
		return "", false
	}
	ok = identity.Layout == l.text() && identity.Key == key && env.Now().UnixMilli() <= saved.Reserved &&
		parseUsers(saved.Users)[bizType.Name] == shapeHash(shape)
	return identity.Cluster, ok
}

// restored names the registry of a configuration, and raises its floor. The new floor is above all
// that can have been granted by the nodes in a backup, and by nodes with this configuration, also
// in the registry that was named before.
func restored(ctx context.Context, env strategy.Env, bizType seqd.BizType) (done string, err error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return "", fmt.Errorf("settings of type %T are not *snowflake.Settings", bizType.Settings)
	}
	l, wrong := newLayout(settings)
	if wrong != nil {
		return "", fmt.Errorf("%s: %s", wrong.key, wrong.text)
	}
	registry, err := openRegistry(env, settings, false)
	if err != nil {
		return "", err
	}
	m := newMember(env, settings, l)
	from, err := restore(ctx, &m, newNaming(env, settings, registryName(l), registry), env.Store.Slots())
	return "leases that are granted from now on begin at " + at(from), err
}

// restore lets the store name a registry, and raises the floor of that. It returns the first time
// that is granted from then on. ours is where the store has its own registry.
func restore(ctx context.Context, m *machineid.Member, names *naming, ours persist.SlotStore) (from int64, err error) {
	name, incarnation, least := names.registry, machineid.Drawn(), int64(0)
	_, is, err := names.read(ctx)
	if err != nil && !errors.Is(err, persist.ErrInvalid) { // a damaged document is replaced
		return 0, err
	}
	m.Reach = max(m.Reach, is.Reach)
	if names.place != inStore {
		// The registry of the store knows how far leases and reservations reach that it has granted.
		// The one in Redis has to know it before nodes use that.
		t, err := ours.Look(ctx, name)
		if err == nil && t.Set != nil {
			m.Reach = max(m.Reach, t.Set.Ahead)
		}
		if err == nil {
			_, err = raiseFloor(ctx, m, names.slots, name, machineid.Drawn(), 0)
		}
		if err != nil {
			return 0, err
		}
	}
	t, err := names.slots.Look(ctx, name)
	if err != nil {
		return 0, err
	}
	// What other registries granted until the store names this one is below the floor that it gets
	// after that.
	if err := names.force(ctx, named{Incarnation: incarnation, Source: t.Source, Place: names.place, Reach: max(m.Ahead(), m.Reach)}); err != nil {
		return 0, err
	}
	if names.place != inStore {
		if least, err = raiseFloor(ctx, m, ours, name, machineid.Drawn(), 0); err != nil {
			return 0, err
		}
	}
	floor, err := raiseFloor(ctx, m, names.slots, name, incarnation, least)
	return floor + 1, err
}

// raiseFloor gives a registry another incarnation, and a floor that is not below least.
func raiseFloor(ctx context.Context, m *machineid.Member, registry persist.SlotStore, name, incarnation string, least int64) (floor int64, err error) {
	for made := false; !made && err == nil; {
		var t persist.SlotTable
		if t, err = registry.Look(ctx, name); err == nil {
			swap := m.Refloor(t, incarnation)
			swap.NewSet.Floor = max(swap.NewSet.Floor, least)
			floor = swap.NewSet.Floor
			made, err = registry.Swap(ctx, name, swap)
		}
	}
	return floor, err
}

// Strategy issues the numbers of one biz type. It is safe for concurrent use.
type Strategy struct {
	// bound is the holder. Init replaces it if it has ended; the lock of holders guards that.
	bound  atomic.Pointer[holder]
	name   string
	layout *layout
	key    holderKey
	closed atomic.Bool
	// counted is true once the strategy counted as a user of its holder; the lock of holders guards
	// it.
	counted bool
}

var (
	_ seqd.Strategy        = (*Strategy)(nil)
	_ seqd.Reporter        = (*Strategy)(nil)
	_ seqd.Parser          = (*Strategy)(nil)
	_ strategy.ShapeKeeper = (*Strategy)(nil)
)

// held returns the holder.
func (s *Strategy) held() *holder { return s.bound.Load() }

// New returns the strategy of one biz type, whose Settings must be of type *Settings. It does no
// I/O. Strategies with the same settings and store share a machine ID, and no number is made twice
// among them.
func New(env strategy.Env, bizType seqd.BizType) (*Strategy, error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return nil, fmt.Errorf("biz type %s: settings of type %T are not *snowflake.Settings", bizType.Name, bizType.Settings)
	}
	l, wrong := newLayout(settings)
	if wrong != nil {
		return nil, fmt.Errorf("%s: %s", wrong.key, wrong.text)
	}
	s := &Strategy{name: bizType.Name, layout: l, key: holderKey{env.Store, *settings}}
	holders.Lock()
	defer holders.Unlock()
	if err := holders.bind(s, env, settings); err != nil {
		return nil, err
	}
	return s, nil
}

// Init implements [seqd.Strategy]. It starts the search for a machine ID, and returns an error
// until there is one that can be used. The floor protects against a registry that lost something,
// so Init ignores its second argument.
func (s *Strategy) Init(ctx context.Context, _ bool) error {
	if err := holders.count(s); err != nil {
		return err
	}
	if err := s.held().start(); err != nil {
		return err
	}
	return s.held().ready(ctx)
}

// OnRecord implements [strategy.ShapeKeeper]. The shape goes into the file of the reservation.
func (s *Strategy) OnRecord(shape string) { s.held().onRecord(s.name, shape) }

// Generate adds n numbers to seq, in ascending order, with times in the lease.
func (s *Strategy) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if s.closed.Load() {
		return errStopping
	}
	if err := s.held().tenure.gen.take(ctx, n, seq); err != nil {
		return err
	}
	if s.closed.Load() { // they may be above what the biz type has left to its next generator
		return errStopping
	}
	return nil
}

// Health returns why the next request would be refused.
func (s *Strategy) Health() error {
	if err := s.held().tenure.health(); err != nil {
		return err
	}
	return nil
}

// Degraded returns why the machine ID is not renewed.
func (s *Strategy) Degraded() *seqd.Error { return s.held().tenure.degraded() }

// Details implements [seqd.Reporter].
func (s *Strategy) Details() map[string]any { return s.held().tenure.details() }

// Parse implements [seqd.Parser].
func (s *Strategy) Parse(number int64) (seqd.Parsed, error) {
	return s.layout.parse(number)
}

// Close stops issuing. If no other strategy uses the machine ID, it releases it, so that another
// node can have it at once. Further calls do nothing.
func (s *Strategy) Close(ctx context.Context) error {
	if !holders.leave(s) {
		return nil
	}
	return s.held().end(ctx)
}

var errStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
