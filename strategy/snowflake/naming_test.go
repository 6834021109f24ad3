package snowflake

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// A process uses the registry that the store names. One that is new, or was put back, becomes that
// only for who has used the one before it, on the server where that was named, or by the word of an
// operator.
func TestTheStoreNamesTheRegistry(t *testing.T) {
	const right, wrong = "right", "wrong"
	store := memory.New(time.Now)
	process := func() *naming {
		return &naming{documents: store.Documents(), registry: "machineIds", place: "db 0", now: time.Now, used: new(atomic.Pointer[string])}
	}
	parts := make(map[string]*persist.SlotSet) // of Redis, by source
	// look settles until nothing changes any more, as prepared does.
	look := func(n *naming, source string) error {
		for {
			incarnation, settled, err := n.settle(t.Context(), persist.SlotTable{Source: source, Set: parts[source]})
			if err != nil || settled && incarnation == "" {
				return err
			}
			if settled {
				parts[source] = &persist.SlotSet{Incarnation: incarnation}
			}
		}
	}
	uses := func(n *naming, source string) {
		t.Helper()
		must.Do(t, look(n, source))
		must.Equal(t, parts[source].Incarnation, n.last(), "the incarnation in %s, which the process knows,", source)
	}
	refused := func(n *naming, source string) {
		t.Helper()
		must.Is(t, look(n, source), errUnnamed, "%s is not refused", source)
		if cause, err := n.elsewhere(t.Context(), persist.SlotTable{Source: source, Set: parts[source]}); !errors.Is(cause, errUnnamed) || err != nil {
			t.Errorf("%s is not elsewhere: %v, %v", source, cause, err)
		}
	}
	runs, starts := process(), process()
	uses(runs, right)
	uses(starts, right)
	for _, table := range []persist.SlotTable{{Source: right}, {Source: "moved", Set: parts[right]}} {
		if cause, err := starts.elsewhere(t.Context(), table); cause != nil || err != nil {
			t.Errorf("%v is elsewhere: %v, %v", table, cause, err)
		}
	}
	refused(process(), wrong)
	if parts[wrong] != nil {
		t.Error("the other Redis was changed")
	}
	elsewhere := process()
	elsewhere.place = "db 1"
	if _, _, err := elsewhere.settle(t.Context(), persist.SlotTable{Source: right}); !errors.Is(err, errUnnamed) {
		t.Errorf("another database of the same server is not refused: %v", err)
	}
	parts[wrong] = &persist.SlotSet{Incarnation: machineid.Drawn()}
	refused(process(), wrong) // also if it has a registry

	parts[right] = nil // FLUSHALL
	uses(process(), right)
	older := *parts[right]
	delete(parts, right) // a restart without data
	refused(process(), "restarted")
	uses(runs, "restarted")
	uses(process(), "restarted")
	uses(starts, "restarted") // which knew the one before
	parts["put back"] = &older
	refused(process(), "put back")
	uses(runs, "put back")

	// A holder that comes after another one in the same process asks the store, and knows what that
	// used.
	later := process()
	later.used = runs.used
	uses(later, "lost again")
	runs.used = process().used

	operator := process()
	must.Do(t, operator.force(t.Context(), named{Incarnation: machineid.Drawn(), Source: wrong, Place: "db 0"}))
	uses(process(), wrong)
	refused(runs, "put back")
}

// cutOff are documents that cannot be read.
type cutOff struct{ persist.Documents }

func (cutOff) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, persist.ErrUnavailable
}

// While the store is away a process goes on with the registry in Redis that it knows, and with no
// other. Otherwise it asks each time: the others may use another one by now, where their Redis is.
func TestTheStoreIsAsked(t *testing.T) {
	store := memory.New(time.Now)
	documents := store.Documents()
	n := &naming{documents: documents, registry: "machineIds", place: "db 0", now: time.Now, used: new(atomic.Pointer[string])}
	known, other := persist.SlotTable{Source: "one", Set: &persist.SlotSet{Incarnation: machineid.Drawn()}}, persist.SlotTable{Source: "two", Set: &persist.SlotSet{Incarnation: machineid.Drawn()}}
	for settled := false; !settled; {
		_, settled, _ = n.settle(t.Context(), known)
	}
	n.documents = cutOff{documents}
	if _, settled, err := n.settle(t.Context(), known); !settled || err != nil {
		t.Errorf("the known registry: %t, %v", settled, err)
	}
	_, _, err := n.settle(t.Context(), other)
	must.Is(t, err, persist.ErrUnavailable)
	n.documents = documents
	others := &naming{documents: documents, registry: "machineIds", place: "db 0", now: time.Now, used: new(atomic.Pointer[string])}
	must.Do(t, others.force(t.Context(), named{Incarnation: machineid.Drawn(), Source: "two", Place: "db 0"}))
	_, _, err = n.settle(t.Context(), known)
	must.Is(t, err, errUnnamed)
	n.documents = cutOff{documents}
	_, _, err = n.settle(t.Context(), known)
	must.Is(t, err, persist.ErrUnavailable, "after the store has named another registry")
}

// silent are documents that do not answer.
type silent struct{ persist.Documents }

func (silent) Read(ctx context.Context, _, _ string) (persist.Document, error) {
	<-ctx.Done()
	return persist.Document{}, ctx.Err()
}

// A store counts as away only if it had time to answer: the registry may have taken the time of a
// renewal.
func TestTooLateToAskTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		n := newNaming(strategy.Env{Store: memory.New(time.Now), Now: time.Now}, &settings, "machineIds", nil)
		known := persist.SlotTable{Set: &persist.SlotSet{Incarnation: machineid.Drawn()}}
		for settled := false; !settled; {
			_, settled, _ = n.settle(t.Context(), known)
		}
		n.documents = silent{}
		for left, want := range map[time.Duration]error{settings.Horizon / 3: nil, settings.Horizon / 5: nil, settings.Horizon / 7: errLate, time.Millisecond: errLate} {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			_, settled, err := n.settle(ctx, known)
			cancel()
			if settled != (want == nil) || !errors.Is(err, want) {
				t.Errorf("with %v left: %t, %v", left, settled, err)
			}
		}
	})
}

// watched are documents that call f before one is created.
type watched struct {
	persist.Documents
	f func()
}

func (w watched) Create(ctx context.Context, doc persist.Document) error {
	w.f()
	return w.Documents.Create(ctx, doc)
}

// A node that uses a registry in Redis as soon as it is named keeps off what the store has granted,
// however far that reaches.
func TestReachOfTheStore(t *testing.T) {
	const day = int64(24 * time.Hour / time.Millisecond)
	ours, theirs := memory.New(time.Now), memory.New(time.Now)
	must.Get(ours.Slots().Swap(t.Context(), "machineIds", persist.SlotSwap{NewSet: &persist.SlotSet{Layout: "l", Incarnation: machineid.Drawn(), Ahead: day}}))(t)
	ahead := int64(0)
	names := &naming{documents: watched{ours.Documents(), func() {
		if known := must.Get(theirs.Slots().Look(t.Context(), "machineIds"))(t); known.Set != nil {
			ahead = known.Set.Ahead
		}
	}}, slots: theirs.Slots(), registry: "machineIds", place: "db 0", now: time.Now, used: new(atomic.Pointer[string])}
	m := machineid.Member{Layout: "l", Horizon: 5000, MaxSkew: 2000}
	from := must.Get(restore(t.Context(), &m, names, ours.Slots()))(t)
	if now := time.Now().UnixMilli(); ahead < day || from <= now+day-1000 {
		t.Errorf("when it is named, Redis knows of %d ms; it grants from %d ms on", ahead, from-now)
	}
}

// A registry that takes the place of one in Redis keeps off what that granted, also if the settings
// reach less far by then: after Redis lost everything, and after a move.
func TestReachOfAFormerRegistry(t *testing.T) {
	const day = int64(24 * time.Hour / time.Millisecond)
	ours, source := memory.New(time.Now), "one Redis"
	registry := func(offline int64, place string, slots persist.SlotStore) *slotRegistry {
		documents := ours.Documents()
		return &slotRegistry{
			Member: machineid.Member{Layout: "l", Horizon: 5000, MaxSkew: 2000, Offline: offline}, slots: slots, name: "machineIds",
			env:    &environment{Env: strategy.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}},
			naming: &naming{documents: documents, slots: slots, registry: "machineIds", place: place, now: time.Now, used: new(atomic.Pointer[string])},
		}
	}
	redis := func() persist.SlotStore { return from{memory.New(time.Now).Slots(), source} }
	must.Get(registry(day, "db 0", redis()).prepared(t.Context()))(t)
	lost := must.Get(registry(0, "db 0", redis()).prepared(t.Context()))(t)
	if after := lost.Set.Floor - time.Now().UnixMilli(); after < day-1000 {
		t.Errorf("after Redis lost everything, leases begin after %d ms", after)
	}
	for place, slots := range map[string]persist.SlotStore{"db 1": redis(), inStore: ours.Slots()} {
		r := registry(0, place, slots)
		first := must.Get(restore(t.Context(), &r.Member, r.naming, ours.Slots()))(t)
		if after := first - time.Now().UnixMilli(); after < day-1000 {
			t.Errorf("after a move to %s leases begin after %d ms", place, after)
		}
	}
}

// from is a registry of a Redis with a source.
type from struct {
	persist.SlotStore
	source string
}

func (f from) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	t, err := f.SlotStore.Look(ctx, registry, ids...)
	t.Source = f.source
	return t, err
}

func (f from) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	swap.Source = ""
	return f.SlotStore.Swap(ctx, registry, swap)
}

// An operator can name a registry although the document that named one is damaged.
func TestDamagedName(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: namingKind, Key: "machineIds", Revision: 1, Body: "?"}))
	n := &naming{documents: store.Documents(), registry: "machineIds", place: inStore, now: time.Now, used: new(atomic.Pointer[string])}
	table := persist.SlotTable{Set: &persist.SlotSet{Incarnation: machineid.Drawn()}}
	_, _, err := n.settle(t.Context(), table)
	must.Is(t, err, persist.ErrInvalid)
	must.Do(t, n.force(t.Context(), named{Incarnation: table.Set.Incarnation, Place: inStore}))
	_, settled, err := n.settle(t.Context(), table)
	must.Do(t, err)
	must.Equal(t, settled, true)
}

// Of the store and a Redis only one counts, until an operator says otherwise.
func TestTheStoreOrRedis(t *testing.T) {
	for _, first := range []string{inStore, "db 0"} {
		t.Run(first, func(t *testing.T) {
			store := memory.New(time.Now)
			parts := map[string]*persist.SlotSet{inStore: {Incarnation: machineid.Drawn()}} // by place
			process := func(place string) *naming {
				return &naming{documents: store.Documents(), registry: "machineIds", place: place, now: time.Now, used: new(atomic.Pointer[string])}
			}
			look := func(n *naming) error {
				for {
					incarnation, settled, err := n.settle(t.Context(), persist.SlotTable{Set: parts[n.place]})
					if err != nil || settled && incarnation == "" {
						return err
					}
					if settled {
						parts[n.place] = &persist.SlotSet{Incarnation: incarnation}
					}
				}
			}
			// counts checks which place counts for a process that has used none.
			counts := func(right, wrong string) {
				t.Helper()
				must.Do(t, look(process(right)))
				must.Is(t, look(process(wrong)), errUnnamed, "%s is not refused", wrong)
				for place, want := range map[string]bool{right: false, wrong: true} {
					if cause, err := process(place).elsewhere(t.Context(), persist.SlotTable{Set: parts[place]}); errors.Is(cause, errUnnamed) != want || err != nil {
						t.Errorf("of %s doctor says %v, %v", place, cause, err)
					}
				}
			}
			second := map[string]string{inStore: "db 0", "db 0": inStore}[first]
			runs := process(first)
			must.Do(t, look(runs))
			counts(first, second)
			if first == inStore { // which has lost its bootstrap part, and got another one
				parts[inStore] = &persist.SlotSet{Incarnation: machineid.Drawn()}
				counts(first, second)
			}
			must.Do(t, look(runs))
			// seqd restored may fail after this
			was, word := parts[second], machineid.Drawn()
			must.Do(t, process(second).force(t.Context(), named{Incarnation: word, Place: second}))
			counts(second, first)
			if is := parts[second]; is == was || is.Incarnation != word {
				t.Errorf("%s has %v and no new floor: leases that others had elsewhere may go on", second, is)
			}
			must.Is(t, look(runs), errUnnamed, "a process that used %s is not refused", first)
		})
	}
}

// registries is a Redis with nothing but registries.
type registries struct {
	persist.SlotStore
	source string
	parts  map[string]*persist.SlotSet
}

func (r *registries) Look(_ context.Context, registry string, _ ...int64) (persist.SlotTable, error) {
	return persist.SlotTable{Source: r.source, Set: r.parts[registry]}, nil
}

// A node with a wrong Redis does not name the registry of a layout that it is the first one with.
func TestOneRedisHasTheRegistriesOfAllLayouts(t *testing.T) {
	store := memory.New(time.Now)
	// uses lets a new process use a registry, and returns why it must not, as doctor says it, too.
	uses := func(r *registries, registry string) error {
		n := &naming{documents: store.Documents(), slots: r, registry: registry, place: "db 0", now: time.Now, used: new(atomic.Pointer[string])}
		table, _ := r.Look(t.Context(), registry)
		told, err := n.elsewhere(t.Context(), table)
		must.Do(t, err)
		for {
			table, _ := r.Look(t.Context(), registry)
			incarnation, settled, err := n.settle(t.Context(), table)
			if errors.Is(err, errUnnamed) != (told != nil) {
				t.Errorf("%s: doctor says %v, and the node %v", registry, told, err)
			}
			if err != nil || settled && incarnation == "" {
				return err
			}
			if settled {
				r.parts[registry] = &persist.SlotSet{Incarnation: incarnation}
			}
		}
	}
	right, wrong := &registries{source: "right", parts: make(map[string]*persist.SlotSet)}, &registries{source: "wrong", parts: make(map[string]*persist.SlotSet)}
	must.Do(t, uses(right, "wide"))
	err := uses(wrong, "narrow")
	if !errors.Is(err, errUnnamed) || !strings.Contains(err.Error(), "seqd restored") || !strings.Contains(err.Error(), "db 0 of the Redis with the replication ID right") {
		t.Errorf("the wrong Redis gets the registry of another layout: %v", err)
	}
	right.source = "restarted" // with its data
	must.Do(t, uses(right, "narrow"))
	must.Do(t, uses(right, "wide"))
}

// Only a registry in Redis or in a coordinator can be another one than the store names, and that needs a
// Redis or a coordinator.
func TestElsewhereNeedsRedis(t *testing.T) {
	for registry, fails := range map[string]bool{registryStore: false, registryRedis: true, registryCoord: true} {
		settings := DefaultSettings()
		settings.Registry = registry
		if cause, err := elsewhere(t.Context(), strategy.Env{Store: memory.New(time.Now)}, seqd.BizType{Settings: &settings}); cause != nil || (err != nil) != fails {
			t.Errorf("%s: %v, %v", registry, cause, err)
		}
	}
}

// A name that its Redis lost before any lease was granted gives way to another one, and never
// counts again.
func TestAnUnusedName(t *testing.T) {
	store, now := memory.New(time.Now), time.Now()
	process := func() *naming {
		return &naming{documents: store.Documents(), registry: "machineIds", place: "db 0", now: func() time.Time { return now }, used: new(atomic.Pointer[string])}
	}
	const refused, again, done = "refused", "look again", "may lease"
	// step settles once with a registry that has an incarnation, "" for none. It returns what comes
	// of it, or the incarnation that the registry must get.
	step := func(n *naming, source, has string) string {
		t.Helper()
		table := persist.SlotTable{Source: source}
		if has != "" {
			table.Set = &persist.SlotSet{Incarnation: has}
		}
		incarnation, settled, err := n.settle(t.Context(), table)
		switch {
		case errors.Is(err, errUnnamed):
			return refused
		case !settled:
			return again
		case incarnation == "":
			return done
		}
		return incarnation
	}
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%q instead of %q", got, want)
		}
	}
	// One that was there before registries had to be named keeps its incarnation: it has leases.
	old := process()
	old.documents = memory.New(time.Now).Documents()
	is(step(old, "one", "old"), again)
	is(step(old, "one", "old"), done)

	early, late := process(), process()
	is(step(early, "one", ""), again)
	first := step(early, "one", "") // early fails before its Redis has it
	is(step(late, "restarted", ""), refused)
	now = now.Add(unusedFor + time.Millisecond)
	is(step(late, "restarted", ""), again)
	second := step(late, "restarted", "")
	if len(first) != len(machineid.Drawn()) || len(second) != len(first) || second == first {
		t.Fatalf("two names are %q and %q", first, second)
	}
	is(step(early, "one", first), refused) // it has it after all
	is(step(late, "restarted", second), again)
	now = now.Add(time.Hour)
	is(step(early, "one", first), refused) // the other one is used now
	is(step(late, "restarted", second), done)
}

// sometimes are documents that cannot be read while away is true.
type sometimes struct {
	persist.Documents
	away atomic.Bool
}

func (s *sometimes) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if s.away.Load() {
		return persist.Document{}, persist.ErrUnavailable
	}
	return s.Documents.Read(ctx, kind, key)
}

// A node with offlineStart used a Redis, and the registry was moved to another one, while that node
// was dead or while it ran. It starts with the former Redis, and the store tells it so, or has told the
// process before. It issues nothing, also once the store is away, and after further restarts.
func TestReservationInAFormerRegistry(t *testing.T) {
	for name, runs := range map[string]bool{"dead": false, "running": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { reservationInAFormerRegistry(t, runs) })
		})
	}
}

func reservationInAFormerRegistry(t *testing.T, runs bool) {
	store := memory.New(time.Now)
	documents := &sometimes{Documents: store.Documents()}
	start := func(r *registry, place, dir string) *Strategy {
		s := instance(t, r, "1", func(s *Settings) { s.StateDir, s.OfflineStart, s.MachineID = dir, time.Minute, "5" })
		n := s.held().registry.naming
		n.documents, n.place, n.used = documents, place, new(atomic.Pointer[string]) // as in a process of its own
		_ = s.Init(t.Context(), true)
		return s
	}
	former, present, dir := newRegistry(true), newRegistry(true), t.TempDir()
	s := start(former, "db 0", dir)
	time.Sleep(2 * time.Minute)
	one(t, s)
	if !runs {
		crash(s)
	}
	synctest.Wait() // a renewal of this very moment has ended
	m := s.held().registry.Member
	operator := &naming{documents: documents, slots: present, registry: s.held().registry.name, place: "db 1", now: time.Now, used: new(atomic.Pointer[string])}
	must.Get(restore(t.Context(), &m, operator, store.Slots()))(t)
	right := start(present, "db 1", t.TempDir())
	closes(t, right)
	time.Sleep(3 * time.Minute)
	one(t, right)
	if runs {
		crash(s)
		documents.away.Store(true)
	}
	for range 2 {
		wrong := start(former, "db 0", dir)
		time.Sleep(time.Second)
		documents.away.Store(true)
		time.Sleep(10 * time.Second)
		if n, err := try(wrong); err == nil {
			t.Errorf("without the store it issues %d, and the others %d", n, one(t, right))
		}
		crash(wrong)
	}
}
