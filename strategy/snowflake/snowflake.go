// Package snowflake is the strategy that makes numbers of the time, a sequence and a machine ID
// that this node holds on lease: sorted by time, with nothing to ask per number.
//
// Two nodes never make the same number, because a machine ID is leased for an interval of time, and
// a number's time lies in it (see protocol.go, invariant U5). So no clock has to be right for that.
package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// Name is what a biz type's strategy says.
const Name = "snowflake"

func init() {
	strategy.Register(strategy.Factory{
		Name:     Name,
		Settings: func() any { s := DefaultSettings(); return &s },
		New:      func(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) { return New(env, bizType) },
		Shape:    shape,
		Restored: restored,
		Alone:    aloneWith,
	})
}

// shape is the layout: whatever changes it may make a number appear again.
func shape(bizType seqd.BizType) string {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return Name
	}
	l, err := newLayout(settings)
	if err != nil {
		return Name
	}
	// In another registry the same machine ID may be held by another node.
	return Name + " " + l.text() + " registry=" + settings.Registry
}

// aloneWith reports whether a biz type can issue while the store has not been reached since the
// start, and returns the cluster that it belongs to: when the file of the reservation names it with
// the same shape, and the reservation lasts.
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
	identity, saved, err := statefile.Peek(settings.StateDir, name)
	if err != nil {
		if !errors.Is(err, statefile.ErrNone) && !errors.Is(err, fs.ErrNotExist) {
			env.Log.Warn("the reservation on disk is of no use", "error", err)
		}
		return "", false
	}
	ok = identity.Layout == l.text() && identity.Key == key && env.Now().UnixMilli() <= saved.Reserved &&
		parseUsers(saved.Users)[bizType.Name] == shapeHash(shape)
	return identity.Cluster, ok
}

// instanceOf returns the name of the file and the key of an instance that listens on an address.
func instanceOf(addr string, settings *Settings) (file, key string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", "", fmt.Errorf("the address %q that the node listens on: %w", addr, err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("the address %q that the node listens on: %w", addr, err)
	}
	ip := ownIP(settings.AdvertiseIP, host)
	return statefile.Name(settings.AppName, int(number), ip), settings.AppName + "." + port + "." + statefile.Number(ip), nil
}

// restored gives the registry a new floor, above all that may have been granted by nodes that ever
// registered, as far as the backup knows, or that have this configuration. Nodes that come to it
// while it has no bootstrap part make one by themselves.
func restored(ctx context.Context, env strategy.Env, bizType seqd.BizType) (done string, err error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return "", fmt.Errorf("settings of type %T are not *snowflake.Settings", bizType.Settings)
	}
	l, wrong := newLayout(settings)
	if wrong != nil {
		return "", fmt.Errorf("%s: %s", wrong.key, wrong.text)
	}
	registry, err := openRegistry(env, settings)
	if err != nil {
		return "", err
	}
	m := newMember(env, settings, l)
	for {
		t, err := registry.Look(ctx, registryName(l))
		if err != nil {
			return "", err
		}
		swap, from := m.refloor(t)
		if made, err := registry.Swap(ctx, registryName(l), swap); made || err != nil {
			return "leases that are granted from now on begin at " + at(from), err
		}
	}
}

// newMember returns what a node with these valid settings registers with, but for its key.
func newMember(env strategy.Env, settings *Settings, l *layout) member {
	first, last := settings.machineIDs()
	return member{
		layout: l.text(), cluster: env.Cluster, first: first, last: last,
		horizon: settings.Horizon.Milliseconds(), maxSkew: settings.MaxSkew.Milliseconds(), offline: settings.OfflineStart.Milliseconds(),
		floored: settings.Registry == registryRedis || env.Store.Shared(),
	}
}

// registryName is the registry of a layout: with another one a machine ID says nothing about this
// one's numbers.
func registryName(l *layout) string { return "machineIds " + l.text() }

// openRegistry returns where machine IDs are leased.
func openRegistry(env strategy.Env, settings *Settings) (persist.SlotStore, error) {
	if settings.Registry == registryStore {
		return env.Store.Slots(), nil
	}
	if env.Redis == nil {
		return nil, errors.New("registry: redis needs redis.addrs")
	}
	return redisslots.Open(redisslots.Options{Client: env.Redis, Prefix: env.RedisPrefix, Cluster: env.Cluster}), nil
}

// Strategy issues the numbers of one biz type. It is safe for concurrent use.
type Strategy struct {
	// bound is the holder. It is another one after Init where the first had ended by then; the lock
	// of holders guards replacing it.
	bound  atomic.Pointer[holder]
	name   string
	layout *layout
	key    holderKey
	closed atomic.Bool
	// counted is whether it is one of the users of its holder; the lock of holders guards it.
	counted bool
}

var (
	_ seqd.Strategy         = (*Strategy)(nil)
	_ seqd.HealthReporter   = (*Strategy)(nil)
	_ seqd.DegradedReporter = (*Strategy)(nil)
	_ seqd.DetailReporter   = (*Strategy)(nil)
	_ seqd.Parser           = (*Strategy)(nil)
	_ strategy.ShapeKeeper  = (*Strategy)(nil)
)

// holderKey is what strategies that share a holder have in common.
type holderKey struct {
	store    persist.Store
	settings Settings
}

// registered are holders and how many strategies use each.
type registered struct {
	sync.Mutex
	of map[holderKey]*sharedHolder
}

// holders are those of this process.
var holders = registered{of: make(map[holderKey]*sharedHolder)}

// admit sees to it that a new holder and those there are fit together. The lock is held.
func (r *registered) admit(h *holder) error {
	for _, other := range r.of {
		if other.env.Store != h.env.Store {
			continue
		}
		if h.offline > 0 && other.offline > 0 && h.path() == other.path() {
			return errors.New("offlineStart: biz types that set it must have the same settings, since they share the file of the reservation in stateDir; " +
				"or give them a stateDir each")
		}
	}
	return nil
}

// reach is how far the holders of this process on one registry reach.
func (r *registered) reach(h *holder) (most int64) {
	r.Lock()
	defer r.Unlock()
	for _, other := range r.of {
		if other.name == h.name && other.env.Store == h.env.Store {
			most = max(most, other.ahead())
		}
	}
	return most
}

// reserves reports whether a holder keeps its reservation in a file.
func (r *registered) reserves(path string) bool {
	r.Lock()
	defer r.Unlock()
	for _, other := range r.of {
		if other.offline > 0 && other.path() == path {
			return true
		}
	}
	return false
}

// count makes a strategy a user of its holder, once. Where that has ended since New, because its
// last user was closed, the strategy gets another one.
func (r *registered) count(s *Strategy) error {
	r.Lock()
	defer r.Unlock()
	switch {
	case s.closed.Load():
		return errStopping
	case s.counted:
		return nil
	}
	if shared := r.of[s.key]; shared == nil || shared.holder != s.held() {
		before := s.held()
		if err := r.bind(s, before.env, before.settings); err != nil {
			return err
		}
		s.held().know(s.name, before)
	}
	s.counted = true
	r.of[s.key].users++
	return nil
}

// bind gives a strategy the holder that others with the same settings have, or a new one. The lock
// is held.
func (r *registered) bind(s *Strategy, env strategy.Env, settings *Settings) error {
	shared := r.of[s.key]
	if shared == nil {
		h, err := newHolder(env, settings, s.layout)
		if err != nil {
			return err
		}
		if err := r.admit(h); err != nil {
			return err
		}
		shared = &sharedHolder{holder: h}
		r.of[s.key] = shared
	}
	shared.made++
	s.bound.Store(shared.holder)
	shared.serves(s.name)
	return nil
}

// held returns the holder.
func (s *Strategy) held() *holder { return s.bound.Load() }

// leave closes a strategy and reports whether it was the last user of its holder, which is
// forgotten then.
func (r *registered) leave(s *Strategy) (last bool) {
	r.Lock()
	defer r.Unlock()
	again := s.closed.Swap(true)
	shared := r.of[s.key]
	if again || shared == nil || shared.holder != s.held() {
		return false
	}
	shared.made--
	if s.counted {
		s.counted = false
		shared.users--
		last = shared.users == 0
	}
	if last || shared.users == 0 && shared.made == 0 {
		delete(r.of, s.key)
	}
	return last
}

type sharedHolder struct {
	*holder
	made  int // strategies that were made and not closed
	users int // those of them that were initialised
}

// New returns the strategy of one biz type, whose Settings must be of type *Settings. It touches
// nothing. Strategies with the same settings and store share a machine ID, and no number appears
// twice among them.
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

// newHolder returns a holder that does nothing yet.
func newHolder(env strategy.Env, settings *Settings, l *layout) (*holder, error) {
	if err := l.begun(env.Now()); err != nil {
		return nil, fmt.Errorf("%s: %s", err.key, err.text)
	}
	file, key, err := instanceOf(env.Addr, settings)
	if err != nil {
		return nil, err
	}
	h := &holder{
		name: registryName(l), settings: settings, env: env,
		fileName: file, users: make(map[string]string), listed: make(chan struct{}, 1),
		first: make(chan struct{}), done: make(chan struct{}),
	}
	if h.registry, err = openRegistry(env, settings); err != nil {
		return nil, err
	}
	if settings.UsesRedis() != "" {
		h.check = func(ctx context.Context) error { return redisslots.Check(ctx, env.Redis) }
	}
	h.member = newMember(env, settings, l)
	h.title = settings.Registry + " " + h.layout
	h.key = key
	h.identity = statefile.Identity{Cluster: env.Cluster, Layout: h.layout, Key: h.key}
	h.gen = newGenerator(l, generatorOptions{now: env.Now, maxWait: settings.MaxWaitRollback, randomStart: settings.RandomStart, onRollback: h.rolledBack})
	env.Log.Info("snowflake", "layout", l.text(), "key", h.key, "machineIds", fmt.Sprintf("%d to %d", h.member.first, h.last), "overflow", l.overflow().Format(time.RFC3339))
	return h, nil
}

// ownIP returns the address that this node is known by: the one that is configured, else the one it
// listens on, else the first one of the machine that is no loopback address, IPv4 before IPv6, else
// 127.0.0.1.
func ownIP(configured, host string) netip.Addr {
	for _, text := range []string{configured, host} {
		if ip, err := netip.ParseAddr(text); err == nil && !ip.IsUnspecified() {
			return ip.Unmap().WithZone("")
		}
	}
	best := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return best
	}
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		switch ip := prefix.Addr().Unmap(); {
		case ip.IsLoopback() || ip.IsLinkLocalUnicast():
		case ip.Is4():
			return ip
		case best.IsLoopback():
			best = ip
		}
	}
	return best
}

// Init implements [seqd.Strategy]: it begins to look for a machine ID, and returns an error until
// there is one that can be used. What a registry lacks is made safe by its floor, so fresh does not
// matter.
func (s *Strategy) Init(ctx context.Context, _ bool) error {
	if err := holders.count(s); err != nil {
		return err
	}
	if err := s.held().start(); err != nil {
		return err
	}
	return s.held().ready(ctx)
}

// OnRecord implements [strategy.ShapeKeeper]: the file of the reservation says for which biz types
// it may be used without the store.
func (s *Strategy) OnRecord(shape string) { s.held().onRecord(s.name, shape) }

// Generate adds n numbers to seq, ascending, their times within the lease.
func (s *Strategy) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if s.closed.Load() {
		return errStopping
	}
	return s.held().gen.take(ctx, n, seq)
}

// Health returns why the next request would be refused.
func (s *Strategy) Health() error {
	if err := s.held().health(); err != nil {
		return err
	}
	return nil
}

// Degraded returns why the machine ID is not renewed.
func (s *Strategy) Degraded() *seqd.Error { return s.held().degraded() }

// Details implements [seqd.DetailReporter].
func (s *Strategy) Details() map[string]any { return s.held().details() }

// Parse implements [seqd.Parser].
func (s *Strategy) Parse(number int64) (seqd.Parsed, error) {
	t, machine, sequence, err := s.layout.decompose(number)
	if err != nil {
		return seqd.Parsed{}, err
	}
	return seqd.Parsed{Number: number, Valid: true, Time: t, MachineID: &machine, Sequence: &sequence}, nil
}

// Close ends issuing. When no other strategy uses the machine ID it is given up, so that another
// node can have it at once. Further calls do nothing.
func (s *Strategy) Close(ctx context.Context) error {
	if !holders.leave(s) {
		return nil
	}
	return s.held().end(ctx)
}

var errStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
