package storesim

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// rules are what a database does, and which rules it keeps; see package sabotage.
type rules struct {
	mode                                    Mode
	compares, once, epochHeld, giveBackSwap bool
}

// operation is what a client asks for. It depends on its arguments and the database only: the standby
// repeats it.
type operation func(*database) (any, error)

// database is one server: what it has, and the fence of each counter. The cluster's lock is held.
type database struct {
	rules
	store *memory.Store
	at    time.Time // of the operation

	written                    map[string]int // the timeline that each counter was written on
	current, confirmed, origin int            // timelines
	since                      int            // on which it was told that it loses nothing; 0 if it was not
	shut                       bool           // see [persist.Shutter]
}

func newDatabase(r rules) *database {
	db := &database{rules: r, written: make(map[string]int), current: 1, confirmed: 1, origin: 1}
	db.store = memory.New(db.now)
	db.told()
	return db
}

// told notes what the database is told of what a failover loses, as package sqlstore does. An operator
// confirms that failovers lose something again, before nodes start.
func (db *database) told() {
	switch {
	case db.mode == Lossless && db.since == 0:
		db.since = db.current
	case db.mode == Lossy && db.since != 0:
		db.confirmed, db.since = db.current, 0
	}
}

// present is the timeline that is compared.
func (db *database) present() int {
	return cmp.Or(db.since, db.current)
}

func (db *database) now() time.Time { return db.at }

// copy returns a database of its own that has the same.
func (db *database) copy() *database {
	other := *db
	other.written = maps.Clone(db.written)
	other.store = db.store.Copy(other.now)
	return &other
}

// background is the context of operations on memory, which take no time.
var background = context.Background()

// fence is the text of a timeline.
func fence(timeline int) string { return fmt.Sprintf("7000000000000000001/%08X", timeline) }

// holds reports whether a text is the present fence, if that counts.
func (db *database) holds(text string) bool { return !db.compares || text == fence(db.present()) }

// seen returns a counter as clients see it.
func (db *database) seen(m persist.Counter) persist.Counter {
	if db.compares && db.written[m.BizTag] != db.present() {
		m.FailedOver, m.Epoch = true, ""
		m.Failovers = min(1000, max(1, int64(db.present()-db.written[m.BizTag])))
	}
	return m
}

// counters yields all counters.
func (db *database) counters() iter.Seq[persist.Counter] {
	return func(yield func(persist.Counter) bool) {
		for m := range persist.EveryCounter(background, db.store.Counters()) {
			if !yield(m) {
				return
			}
		}
	}
}

func (db *database) read(bizTag string) (persist.Counter, error) {
	m, err := db.store.Counters().Read(background, bizTag)
	if err != nil {
		return m, err
	}
	return db.seen(m), nil
}

func (db *database) list(after string, limit int) ([]persist.Counter, error) {
	list, err := db.store.Counters().List(background, after, limit)
	for i := range list {
		list[i] = db.seen(list[i])
	}
	return list, err
}

// create stores a counter, unless the database failed over and lost says nothing about it.
func (db *database) create(m persist.Counter, lost bool) error {
	if db.shut {
		return persist.ErrShut
	}
	_, err := db.store.Counters().Read(background, m.BizTag)
	if err != nil && m.Validate() == nil && !lost && db.compares && db.confirmed != db.present() {
		return fmt.Errorf("%q: %w", m.BizTag, persist.ErrFailedOver)
	}
	m.FailedOver, m.Failovers = false, 0
	if err := db.store.Counters().Create(background, m); err != nil {
		return err
	}
	db.written[m.BizTag] = db.present()
	return nil
}

func (db *database) delete(bizTag string) error {
	delete(db.written, bizTag)
	return db.store.Counters().Delete(background, bizTag)
}

// put replaces a counter that exists.
func (db *database) put(m persist.Counter) error {
	if err := db.store.Counters().Delete(background, m.BizTag); err != nil {
		return err
	}
	return db.store.Counters().Create(background, m)
}

// next returns a counter as it is after a request, and the range. The gap counts once for each
// failover since the counter was written. now is the time of the node, in ms.
func (db *database) next(req persist.Request, now int64) (persist.Counter, persist.Range, error) {
	m, err := db.read(req.BizTag)
	if err != nil {
		return m, persist.Range{}, err
	}
	if m.FailedOver {
		gap := max(req.FailoverGap, min(m.Step, req.MostFailoverStep())*req.FailoverSteps)
		req.FailoverGap, req.FailoverSteps = min(gap, persist.MaxNumber/m.Failovers)*m.Failovers, 0
	}
	if needed, ok := req.To.Needs(); ok && !db.epochHeld {
		m.Epoch = needed
	}
	return m.Allocated(req, now)
}

// allocated stores a counter that next returned.
func (db *database) allocated(m persist.Counter) error {
	if db.shut {
		return persist.ErrShut
	}
	db.written[m.BizTag] = db.present()
	return db.put(m)
}

func (db *database) allocate(req persist.Request, now int64) (persist.Range, error) {
	m, r, err := db.next(req, now)
	if err == nil {
		err = db.allocated(m)
	}
	return r, err
}

func (db *database) giveBack(bizTag string, r persist.Range) (bool, error) {
	if db.shut {
		return false, persist.ErrShut
	}
	if err := r.Validate(); err != nil {
		return false, err
	}
	m, err := db.store.Counters().Read(background, bizTag)
	if err != nil {
		return false, err
	}
	if db.giveBackSwap && (m.Max != r.Last || db.seen(m).FailedOver) {
		return false, nil
	}
	m.Max = r.First - 1
	return true, db.put(m)
}

func (db *database) epochs(bizTags []string) map[string]persist.FoundEpoch {
	found := make(map[string]persist.FoundEpoch, len(bizTags))
	for _, name := range bizTags {
		if m, err := db.read(name); err == nil {
			found[name] = persist.FoundEpoch{Epoch: m.Epoch}
		}
	}
	return found
}

// createFenced and updateFenced say what is there first: it is true whatever the fence is.
func (db *database) createFenced(doc persist.Document, under string) error {
	if db.shut {
		return persist.ErrShut
	}
	if _, err := db.store.Documents().Read(background, doc.Kind, doc.Key); err != nil && doc.CheckNew() == nil && !db.holds(under) {
		return fmt.Errorf("%q: %w", doc.PersistID(), persist.ErrFailedOver)
	}
	return db.store.Documents().Create(background, doc)
}

func (db *database) updateFenced(doc persist.Document, under string) error {
	if db.shut {
		return persist.ErrShut
	}
	if known, err := db.store.Documents().Read(background, doc.Kind, doc.Key); err == nil &&
		doc.Validate() == nil && known.CheckUpdate(doc) == nil && !db.holds(under) {
		return fmt.Errorf("%q: %w", doc.PersistID(), persist.ErrFailedOver)
	}
	return db.store.Documents().Update(background, doc)
}

func (db *database) confirm(current string) error {
	if current != fence(db.present()) {
		return fmt.Errorf("%w: another server took over", persist.ErrConflict)
	}
	db.confirmed = db.present()
	return nil
}

// fences returns the fences as clients see them.
func (db *database) fences() persist.Fence {
	return persist.Fence{Current: fence(db.present()), Confirmed: fence(db.confirmed)}
}

// look adds to a registry what package sqlstore says of it.
func (db *database) look(registry string, ids []int64) (persist.SlotTable, error) {
	t, err := db.store.Slots().Look(background, registry, ids...)
	if err == nil && db.mode != Unfenced {
		t.Source, t.Lag = fence(db.present()), lag.Milliseconds()
		if empty := len(ids) == 0 && t.Set == nil && len(t.Slots) == 0; db.present() == db.origin && (empty || db.mode == Lossless) {
			t.Lag = 0
		}
	}
	return t, err
}

// mayWrite returns why a document is not written without a fence. Only a command that is PastShut writes that
// of the cluster.
func (db *database) mayWrite(doc persist.Document) error {
	if db.shut && doc.Kind != persist.ClusterKind {
		return persist.ErrShut
	}
	return nil
}

func (db *database) swap(registry string, swap persist.SlotSwap) (bool, error) {
	if db.shut {
		return false, persist.ErrShut
	}
	if db.mode != Unfenced {
		if err := persist.CheckSwap(registry, swap); err != nil || swap.Source != fence(db.present()) {
			return false, err
		}
		swap.Source = ""
	}
	return db.store.Slots().Swap(background, registry, swap)
}
