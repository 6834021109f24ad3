// Package redisslots keeps registries of machine IDs in Redis. It implements [persist.SlotStore].
// Each registry is a hash that only the scripts in lua/ touch; the header of each script describes
// what it takes and returns.
//
// What a server confirmed can be lost when it restarts or when a replica takes over. Then it has
// another replication ID. That ID is the Source of a table, and a swap fails unless the Source is
// still the one that its caller saw. [Check] says which servers can hold a registry.
package redisslots

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/persist"
)

// formatVersion is written into every hash. A hash with a larger version was written by a newer
// seqd and is refused.
const formatVersion = 1

var (
	//go:embed lua/look.lua
	lookSource string
	//go:embed lua/swap.lua
	swapSource string
	//go:embed lua/drop.lua
	dropSource string

	lookScript = redisonce.NewScript(lookSource)
	swapScript = redisonce.NewScript(swapSource)
	dropScript = redisonce.NewScript(dropSource)
)

// Errors, in addition to those of package persist.
var (
	// ErrUnfit is returned if Redis answers but cannot hold a registry. Waiting does not help; the
	// error names the setting to change.
	ErrUnfit = errors.New("this Redis cannot hold the registry of machine IDs")
	// ErrForeign is returned for a hash of a cluster with another store.
	ErrForeign = errors.New("the registry of machine IDs in Redis" + persist.OfAnotherCluster)
	// ErrReplica is returned if the server is not a primary. It wraps [persist.ErrUnavailable],
	// because it passes after a failover.
	ErrReplica = fmt.Errorf("%w: the Redis server is a replica, not a primary", persist.ErrUnavailable)
)

// Options are the options of [Open].
type Options struct {
	// Client must have a timeout for every call.
	Client redis.UniversalClient
	// Prefix starts every key.
	Prefix string
	// Cluster is the ID of the cluster in its store; not empty.
	Cluster string
}

// Slots is a [persist.SlotStore] in Redis. It is safe for concurrent use.
type Slots struct{ opts Options }

var _ persist.SlotStore = (*Slots)(nil)

// Open returns the registries of a cluster. It does no I/O.
func Open(opts Options) *Slots { return &Slots{opts: opts} }

// Key returns the key of a registry's hash. The braces are a hash tag, so that the hash is in one
// slot of a Redis Cluster.
func Key(prefix, registry string) string { return prefix + "{slots:" + registry + "}" }

// Place returns where a server keeps the registries of a client: its database and its keys.
func Place(client redis.UniversalClient, prefix string) string {
	db := 0
	if c, ok := client.(*redis.Client); ok {
		db = c.Options().DB
	}
	return fmt.Sprintf("db %d, keys %s", db, prefix)
}

// few is the largest number of machine IDs that a look reads one by one. For more it reads all.
const few = 100

// Look implements [persist.SlotStore]. If the server is replicated, Look reads its settings too. It
// returns ErrUnfit if they do not limit how much a failover loses.
func (s *Slots) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return persist.SlotTable{}, err
	}
	var args []any
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	if len(ids) <= few {
		for _, id := range ids {
			args = append(args, strconv.FormatInt(id, 10))
		}
	}
	r, err := s.run(ctx, lookScript, registry, args...)
	if err != nil {
		return persist.SlotTable{}, s.about(registry, err)
	}
	if !r.is("ok", 5) {
		return persist.SlotTable{}, s.about(registry, r.strange())
	}
	t := persist.SlotTable{Source: r.text(1), Now: r.number(2)}
	state := r.text(3)
	if r.err == nil {
		t.Set, t.Slots, err = r.contents(4, ids)
	}
	if err := errors.Join(r.err, err); err != nil {
		return persist.SlotTable{}, s.about(registry, err)
	}
	if t.Lag, err = s.lag(ctx, registry, state); err != nil {
		return persist.SlotTable{}, s.about(registry, err)
	}
	return t, nil
}

// States of a server in the answer of look.lua.
const (
	unreplicated = "0"
	followed     = "2 " // followed by the number of its replicas
)

// lag returns the Lag of a table. state is the state of the server in the answer of look.lua.
func (s *Slots) lag(ctx context.Context, registry, state string) (int64, error) {
	single := alone(s.opts.Client)
	if single && state == unreplicated {
		return 0, nil
	}
	server := s.opts.Client
	if cluster, ok := s.opts.Client.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, Key(s.opts.Prefix, registry))
		if err != nil {
			return 0, translate(err)
		}
		server = node
	}
	set, err := askSettings(ctx, server)
	if err != nil {
		return 0, err
	}
	count, replicated := strings.CutPrefix(state, followed)
	if single && !replicated && set.minReplicas == 0 {
		return set.left(), nil
	}
	if replicas, err := strconv.Atoi(count); replicated && (err != nil || replicas > set.minReplicas) {
		return 0, tooMany(replicas, set.minReplicas)
	}
	return set.lag()
}

// Swap implements [persist.SlotStore]. It sends the swap once.
func (s *Slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	id, oldSlot, newSlot := "", "", ""
	if swap.NewSlot != nil {
		id, oldSlot, newSlot = strconv.FormatInt(swap.NewSlot.ID, 10), encode(swap.OldSlot), encode(swap.NewSlot)
	}
	r, err := s.run(ctx, swapScript, registry, swap.Source, encode(swap.OldSet), encode(swap.NewSet), id, oldSlot, newSlot)
	switch {
	case err != nil:
		return false, s.about(registry, err)
	case r.is("ok", 1):
		return true, nil
	case r.is("moved", 1):
		return false, nil
	}
	return false, s.about(registry, r.strange())
}

// Drop implements [persist.SlotStore].
func (s *Slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	r, err := s.run(ctx, dropScript, registry)
	switch {
	case err != nil:
		return s.about(registry, err)
	case r.is("ok", 1):
		return nil
	case r.is("none", 1):
		return s.about(registry, persist.ErrNotFound)
	}
	return s.about(registry, r.strange())
}

// about adds the key of a registry to an error.
func (s *Slots) about(registry string, err error) error {
	return fmt.Errorf("redis key %q: %w", Key(s.opts.Prefix, registry), err)
}

// run runs a script once: a repeated swap would find its own change and report that it failed. It
// handles the answers that all scripts can give.
func (s *Slots) run(ctx context.Context, script redisonce.Script, registry string, args ...any) (*reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	raw, err := script.Run(ctx, s.opts.Client, Key(s.opts.Prefix, registry), []any{formatVersion, s.opts.Cluster}, args...)
	if err != nil {
		return nil, translate(err)
	}
	r := &reply{}
	r.items, _ = raw.([]any)
	switch {
	case r.is("replica", 1):
		return nil, ErrReplica
	case r.is("newer", 2):
		return nil, fmt.Errorf("%w: format %s, this build knows %d", persist.ErrNewer, r.text(1), formatVersion)
	case r.is("foreign", 2):
		return nil, ErrForeign
	case r.is("damaged", 1):
		return nil, fmt.Errorf("%w: the hash is damaged: its format cannot be read", persist.ErrInvalid)
	}
	return r, nil
}

// translate converts errors of the client and of servers to those of package persist and this one.
func translate(err error) error {
	switch text := err.Error(); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, redis.ErrClosed):
		return persist.ErrClosed
	case strings.Contains(text, "WRONGTYPE"):
		return fmt.Errorf("%w: it is not a hash: %w", persist.ErrInvalid, err)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "no permissions"), strings.Contains(text, "can't run this command"):
		return fmt.Errorf("%w: redis.username: the user lacks rights; the registry needs the keys of redis.keyPrefix and +eval +evalsha +info +time "+
			"+exists +hget +hmget +hgetall +hset +hdel +config|get: %w", ErrUnfit, err)
	case strings.Contains(text, "unknown command"), strings.Contains(text, "Unknown Redis command"):
		return fmt.Errorf("%w: redis.addrs: the server does not know a command that is needed: %w", ErrUnfit, err)
	}
	return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
}
