package snowflake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

// Two servers of Redis are two registries, and so are two coordinators, the store and a Redis: each
// grants every machine ID. So a document of the store names the one registry of a layout that counts:
// docs/adr/0065-the-store-names-the-redis.md. The node asks for it each time before it leases or
// renews (settle). Nodes write the document when they find no registry named, or when they find the
// named one empty or put back; seqd restored writes it for an operator (force).

// namingKind is the kind of the documents that name registries. Their keys are the names of the
// registries, which are those of layouts.
const namingKind = "registry"

// mostLayouts is more than any cluster has.
const mostLayouts = 1000

// unusedFor is how old an unused name is before another one takes its place: whoever gave it needs
// time. Only that depends on clocks.
const unusedFor = 10 * time.Second

// namingPatience limits one question to the store. Half of the time for a renewal is left to Redis.
const namingPatience = time.Second

// errLate means that a store was asked with hardly any time left, because the registry took the time
// of the renewal. The store may be well, so its silence is no reason to go on without its answer.
var errLate = errors.New("the registry of machine IDs was too slow: no time is left to ask the store whether it names this one")

// errUnnamed means that the store names another registry, so other nodes may hold every machine ID
// there.
var errUnnamed = errors.New("this is not the registry of machine IDs of this cluster, or it was lost: give all biz types with this layout the same " +
	"snowflake.registry, and all nodes the same redis.addrs, redis.db and redis.keyPrefix, or the same section coordination. If this is the right one, as after " +
	"a move, or after Redis or the coordinator lost everything while no node was running, stop every node that uses another one, and run seqd restored")

// inStore is the place of a registry in the store. The store has only one for a layout. So if the
// place is inStore, that one is the named registry, even if it was lost and is new.
const inStore = "the store"

// inCoordinator begins the places of registries in coordinators, which differ from those in Redis.
const inCoordinator = "the coordinator "

// named is the body of a document.
type named struct {
	// Incarnation is what [persist.SlotSet.Incarnation] of the named registry is, or is to become.
	Incarnation string `json:"incarnation"`
	// Source is the [persist.SlotTable.Source] under which the registry was named. Place says where it
	// is in that server: database and prefix, or inStore, or what begins with inCoordinator.
	Source string `json:"source"`
	Place  string `json:"place"`
	// Unused means that no lease has been granted under the name. A node clears it before the first
	// one. Until then another registry may take the place of this one.
	Unused bool `json:"unused,omitempty"`
	// Reach is how far leases and reservations of the registry reach, and of those that were named
	// before: their [persist.SlotSet.Ahead], in ms. Nothing is leased before the document has it. So a
	// registry that takes the place of this one begins above them, also if the settings reach less far
	// by then.
	Reach int64 `json:"reach,omitempty"`
}

// naming compares a registry with the one that the store names.
type naming struct {
	documents persist.Documents
	slots     persist.SlotStore
	registry  string
	place     string
	now       func() time.Time
	// enough is the shortest time after which the store counts as away: half of what it has if the
	// registry answers at once.
	enough time.Duration

	mu sync.Mutex // guards known and reach
	// reach is the highest Reach that was read.
	reach int64
	// known is the incarnation of this registry if the store named it when it last answered, ""
	// otherwise.
	known string
	// used is the last known of all holders of this process on this registry in this place. A holder
	// ends while its biz types are idle, and what the process knew stays.
	used *atomic.Pointer[string]
}

// newNaming returns the naming of a registry.
func newNaming(env strategy.Env, settings *Settings, registry string, slots persist.SlotStore) *naming {
	place := inStore
	switch settings.Registry {
	case registryRedis:
		place = redisslots.Place(env.Redis, env.RedisPrefix)
	case registryCoord:
		place = inCoordinator + env.CoordinatorPlace
	}
	return &naming{
		documents: env.Store.Documents(), slots: slots, registry: registry, place: place, now: env.Now,
		enough: min(namingPatience, settings.Horizon/6) / 2, used: left[atomic.Pointer[string]](env, registry+" "+place),
	}
}

func (n *naming) last() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.known
}

// reaches notes a Reach that was read, and returns the highest one.
func (n *naming) reaches(read int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reach = max(n.reach, read)
	return n.reach
}

func (n *naming) learn(incarnation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = incarnation
	n.used.Store(&incarnation)
}

// forget lets this holder use no registry until the store has named it again.
func (n *naming) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known = ""
}

// hasUsed reports whether this process has used a registry in this place, and no other there since.
func (n *naming) hasUsed(incarnation string) bool {
	used := n.used.Load()
	return used != nil && *used == incarnation
}

// settle compares a registry, as it was just read, with the one that the store names. It returns
// what its caller does next:
//
//   - settled, and no incarnation: the registry may be used. If it is in the store and new, it gets
//     its bootstrap part first, and is compared again.
//   - settled, and an incarnation: the registry is the named one, and has another incarnation or
//     none. It gets this one and a floor, and is compared again.
//   - not settled: this node has just changed what the store names, or another node was faster. The
//     registry is read and compared again.
//   - errUnnamed: the store names another registry.
//
// The store is asked each time, after the registry: an operator may have named another one, or the
// address of Redis may lead other nodes to another server. What is then granted here is below the
// floor of that one, because this registry told its time before the store was asked. Only if the
// store does not answer, a holder goes on with the incarnation that it knows.
//
// A registry in the store is the named one if the store names its own: then it gets the incarnation
// that is named, and with that a floor above whatever was granted in Redis before. If the store
// names none, or one that stays unused, the registry in the store is named with the incarnation
// that it has.
//
// A registry in Redis or in a coordinator that lacks the named incarnation becomes the named one in
// three cases (below, Redis stands for either):
//
//   - It has the source and the place under which that was named, as after FLUSHALL. It gets the
//     named incarnation.
//   - The store names none, or one that stays unused, and, if it names registries of other layouts
//     in Redis, this Redis holds one of them (first). The store names a new incarnation, as unused.
//     A registry from before registries were named has leases, and keeps its incarnation.
//   - This process has used the named one, by the same client, as when Redis was restarted without
//     its data. The store names a new incarnation, which counts at once.
//
// A new incarnation is named before Redis has it. So no two servers have the same, unless somebody
// copies the data of one. Redis may fail in between, and lose it. Then any node may name another in
// the second case, and in the third only this process, or an operator.
func (n *naming) settle(ctx context.Context, t persist.SlotTable) (incarnation string, settled bool, err error) {
	var has string
	if t.Set != nil {
		has = t.Set.Incarnation
	}
	if sabotage.Off(sabotage.RegistryNamed) {
		return "", true, nil
	}
	doc, is, err := n.read(ctx)
	if away(err) && has != "" && has == n.last() {
		return "", true, nil
	}
	if err != nil {
		return "", false, err
	}
	n.reaches(is.Reach)
	if is.Incarnation != has {
		n.forget()
	}
	next := named{Incarnation: has, Source: t.Source, Place: n.place, Reach: is.Reach}
	if t.Set != nil {
		next.Reach = max(next.Reach, t.Set.Ahead)
	}
	free := is.Unused && n.now().UnixMilli()-doc.Timestamp > unusedFor.Milliseconds()
	switch {
	case is.Incarnation == has && has != "":
		if !is.Unused && is.Reach == next.Reach {
			n.learn(has)
			return "", true, nil
		}
	case n.place == inStore && free:
		if has == "" {
			return "", true, nil // Prepare draws one, and then that is named
		}
	case is.Place == n.place && (is.Source == t.Source || n.place == inStore):
		return is.Incarnation, true, nil
	case free:
		if err := n.first(ctx); err != nil {
			return "", false, err
		}
		// a registry that no document has ever named may have granted leases before it had to be
		// named
		if has == "" || is.Incarnation != "" {
			next.Incarnation, next.Unused = machineid.Drawn(), true
		}
	case n.hasUsed(is.Incarnation):
		next.Incarnation = machineid.Drawn()
	default:
		return "", false, unnamed(is)
	}
	return "", false, n.write(ctx, doc, next)
}

// unnamed returns an errUnnamed that says where the named registry is.
func unnamed(is named) error {
	switch {
	case is.Place == inStore:
		return fmt.Errorf("%w. The store names its own registry", errUnnamed)
	case coordinated(is.Place):
		return fmt.Errorf("%w. The store names the registry in %s, which has the ID %s", errUnnamed, is.Place, is.Source)
	}
	return fmt.Errorf("%w. The store names the registry in %s of the Redis with the replication ID %s", errUnnamed, is.Place, is.Source)
}

func coordinated(place string) bool { return strings.HasPrefix(place, inCoordinator) }

// first returns errUnnamed if the store names registries of other layouts in Redis, and this Redis
// holds none of them. Otherwise a node with a wrong Redis could be the first one with a new layout,
// and keep out all nodes that have the right one. For a coordinator the same holds.
func (n *naming) first(ctx context.Context) (elsewhere error) {
	docs, err := n.documents.List(ctx, namingKind, "", mostLayouts)
	if err != nil {
		return err
	}
	for _, doc := range docs {
		is, err := parsed(doc)
		if err != nil {
			return err
		}
		if is.Unused || is.Place == inStore || coordinated(is.Place) != coordinated(n.place) {
			continue
		}
		t, err := n.slots.Look(ctx, doc.Key, 0) // the bootstrap part is enough
		if err != nil {
			return err
		}
		if n.holds(t, is) {
			return nil
		}
		elsewhere = unnamed(is)
	}
	return elsewhere
}

// holds reports whether a table is that of the named registry.
func (n *naming) holds(t persist.SlotTable, is named) bool {
	return is.Place == n.place && (is.Source == t.Source || is.Place == inStore) || t.Set != nil && t.Set.Incarnation == is.Incarnation
}

// read returns the document and what it says. If there is none, its revision is 0, and the name
// unused.
func (n *naming) read(ctx context.Context) (doc persist.Document, is named, err error) {
	patience := namingPatience
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	doc, err = n.documents.Read(ctx, namingKind, n.registry)
	switch {
	case err == nil:
		is, err = parsed(doc)
	case errors.Is(err, persist.ErrNotFound):
		return persist.Document{}, named{Unused: true}, nil
	case ctx.Err() != nil && patience < n.enough:
		err = errLate
	}
	return doc, is, err
}

// parsed returns what a document says.
func parsed(doc persist.Document) (is named, err error) {
	if json.Unmarshal([]byte(doc.Body), &is) != nil || is.Incarnation == "" {
		err = fmt.Errorf("%w: the document %s is damaged", persist.ErrInvalid, doc.PersistID())
	}
	return is, err
}

// write names a registry, unless another node has changed the document since doc was read: then it
// returns nil, and changes nothing.
func (n *naming) write(ctx context.Context, doc persist.Document, next named) error {
	ctx, cancel := context.WithTimeout(ctx, namingPatience)
	defer cancel()
	body, _ := json.Marshal(next) // texts and a number never fail
	doc = persist.Document{Kind: namingKind, Key: n.registry, Revision: doc.Revision + 1, Body: string(body), Timestamp: n.now().UnixMilli()}
	err := persist.Put(ctx, n.documents, doc)
	if persist.Overtaken(err) {
		return nil // see what it named
	}
	if err == nil && !next.Unused {
		n.learn(next.Incarnation)
	}
	return err
}

// force names a registry whatever the store named before, for an operator. It returns when the
// store names it.
func (n *naming) force(ctx context.Context, next named) error {
	for n.last() != next.Incarnation {
		doc, is, err := n.read(ctx)
		if err != nil && !errors.Is(err, persist.ErrInvalid) { // a damaged document is replaced
			return err
		}
		next.Reach = max(next.Reach, is.Reach)
		if err := n.write(ctx, doc, next); err != nil {
			return err
		}
	}
	return nil
}

// elsewhere is Elsewhere of [strategy.Factory]: its cause is errUnnamed if the store names another
// registry than the one of a configuration.
func elsewhere(ctx context.Context, env strategy.Env, bizType seqd.BizType) (cause, err error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return nil, nil
	}
	l, wrong := newLayout(settings)
	if wrong != nil {
		return nil, nil // which is said elsewhere
	}
	registry, err := openRegistry(env, settings, true)
	if err != nil {
		return nil, err
	}
	t, err := registry.Look(ctx, registryName(l))
	if err != nil {
		return nil, err
	}
	return newNaming(env, settings, registryName(l), registry).elsewhere(ctx, t)
}

// elsewhere returns errUnnamed as the cause if a process that has used no registry yet may not use
// this one. It changes nothing.
func (n *naming) elsewhere(ctx context.Context, t persist.SlotTable) (cause, err error) {
	_, is, err := n.read(ctx)
	switch {
	case err != nil, n.holds(t, is), is.Unused && n.place == inStore:
	case is.Unused:
		err = n.first(ctx)
	default:
		err = unnamed(is)
	}
	if errors.Is(err, errUnnamed) {
		return err, nil
	}
	return nil, err
}

// away reports whether an error means that the store did not answer.
func away(err error) bool {
	return errors.Is(err, persist.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
