package storesim

import (
	"context"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

// Counters implements [persist.Store].
func (s *store) Counters() persist.Counters { return s.counters }

// Documents implements [persist.Store].
func (s *store) Documents() persist.Documents { return documents{s} }

// Slots implements [persist.Store].
func (s *store) Slots() persist.SlotStore { return slots{s} }

// History implements [persist.Store].
func (s *store) History() persist.HistoryStore { return history{s} }

// Shared implements [persist.Store].
func (s *store) Shared() bool { return true }

// Lossy implements [persist.Store].
func (s *store) Lossy() bool { return s.view.c.opts.Mode == Lossy }

// Describe implements [persist.Store].
func (s *store) Describe() string { return "storesim: a simulated database that nodes share" }

// Now implements [persist.Clock].
func (s *store) Now(ctx context.Context) (time.Time, error) {
	return ask(ctx, s, Call{Op: "read clock"}, func(db *database) (time.Time, error) { return time.UnixMilli(db.at.UnixMilli()), nil })
}

// Kinds implements [persist.Whole].
func (s *store) Kinds(ctx context.Context) ([]string, error) {
	return ask(ctx, s, Call{Op: "list kinds"}, func(db *database) ([]string, error) { return db.store.Kinds(background) })
}

// Registries implements [persist.Whole].
func (s *store) Registries(ctx context.Context) ([]string, error) {
	return ask(ctx, s, Call{Op: "list registries"}, func(db *database) ([]string, error) { return db.store.Registries(background) })
}

// Refill implements [persist.Whole].
func (s *store) Refill(ctx context.Context, list []persist.Document) error {
	list = slices.Clone(list)
	return s.tell(ctx, Call{Op: "refill documents", Write: true}, func(db *database) error { return db.store.Refill(background, list) })
}

// Shut implements [persist.Shutter].
func (s *store) Shut(ctx context.Context) error { return s.setShut(ctx, true) }

// Unshut implements [persist.Shutter].
func (s *store) Unshut(ctx context.Context) error { return s.setShut(ctx, false) }

func (s *store) setShut(ctx context.Context, shut bool) error {
	return s.tell(ctx, Call{Op: "shut", Write: true}, func(db *database) error { db.shut = shut; return nil })
}

// Fence implements [persist.Fenced].
func (f *fenced) Fence(ctx context.Context) (persist.Fence, error) {
	return ask(ctx, f.store, Call{Op: "read fence"}, func(db *database) (persist.Fence, error) { return db.fences(), nil })
}

// ConfirmFence implements [persist.Fenced].
func (f *fenced) ConfirmFence(ctx context.Context, current string) error {
	return f.tell(ctx, Call{Op: "confirm fence", Write: true}, func(db *database) error { return db.confirm(current) })
}

// CreateLost implements [persist.Fenced].
func (f *fenced) CreateLost(ctx context.Context, m persist.Counter) error {
	return f.tell(ctx, Call{"create lost counter", m.BizTag, true}, func(db *database) error { return db.create(m, true) })
}

// CreateFenced implements [persist.Fenced].
func (f *fenced) CreateFenced(ctx context.Context, d persist.Document, under string) error {
	return f.tell(ctx, Call{"create fenced document", d.PersistID(), true}, func(db *database) error { return db.createFenced(d, under) })
}

// UpdateFenced implements [persist.Fenced].
func (f *fenced) UpdateFenced(ctx context.Context, d persist.Document, under string) error {
	return f.tell(ctx, Call{"update fenced document", d.PersistID(), true}, func(db *database) error { return db.updateFenced(d, under) })
}

// counters implements [persist.Counters].
type counters struct {
	s      *store
	shared *persist.Epochs
}

func (c counters) Create(ctx context.Context, m persist.Counter) error {
	return c.s.tell(ctx, Call{"create counter", m.BizTag, true}, func(db *database) error { return db.create(m, false) })
}

func (c counters) Read(ctx context.Context, bizTag string) (persist.Counter, error) {
	return ask(ctx, c.s, Call{"read counter", bizTag, false}, func(db *database) (persist.Counter, error) { return db.read(bizTag) })
}

func (c counters) Delete(ctx context.Context, bizTag string) error {
	return c.s.tell(ctx, Call{"delete counter", bizTag, true}, func(db *database) error { return db.delete(bizTag) })
}

func (c counters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	return ask(ctx, c.s, Call{Op: "list counters"}, func(db *database) ([]persist.Counter, error) { return db.list(after, limit) })
}

func (c counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if !c.s.view.c.rules().once {
		return c.readThenWrite(ctx, req)
	}
	now, taken := c.s.client.Now().UnixMilli(), &Unheard{Counter: req.BizTag}
	r, err := ask(ctx, c.s, Call{"allocate", req.BizTag, true}, func(db *database) (persist.Range, error) {
		r, err := db.allocate(req, now)
		if err == nil && r.Size() > 0 && db == c.s.view.c.primary {
			taken.Range = r
			c.s.view.c.unheard[taken] = struct{}{}
		}
		return r, err
	})
	if err == nil {
		c.s.view.c.told(taken)
	}
	return r, err
}

// readThenWrite allocates in two steps, between which another node may do the same. Only a cluster
// without the rule [sabotage.RangeOnce] does that.
func (c counters) readThenWrite(ctx context.Context, req persist.Request) (persist.Range, error) {
	type taken struct {
		m persist.Counter
		r persist.Range
	}
	now := c.s.client.Now().UnixMilli()
	t, err := ask(ctx, c.s, Call{"read counter", req.BizTag, false}, func(db *database) (t taken, err error) {
		t.m, t.r, err = db.next(req, now)
		return t, err
	})
	if err != nil {
		return persist.Range{}, err
	}
	time.Sleep(50 * time.Millisecond)
	err = c.s.tell(ctx, Call{"write counter", req.BizTag, true}, func(db *database) error { return db.allocated(t.m) })
	return t.r, err
}

func (c counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	return ask(ctx, c.s, Call{"give back", bizTag, true}, func(db *database) (bool, error) { return db.giveBack(bizTag, r) })
}

func (c counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	return c.shared.Read(ctx, bizTag)
}

func (s *store) findEpochs(ctx context.Context, bizTags []string) (map[string]persist.FoundEpoch, error) {
	return ask(ctx, s, Call{Op: "read epochs"}, func(db *database) (map[string]persist.FoundEpoch, error) { return db.epochs(bizTags), nil })
}

// documents implements [persist.Documents].
type documents struct{ s *store }

// of returns the documents of a database, which take no time.
func of(db *database) persist.Documents { return db.store.Documents() }

func (d documents) Create(ctx context.Context, doc persist.Document) error {
	return d.s.tell(ctx, Call{"create document", doc.PersistID(), true}, func(db *database) error {
		if err := db.mayWrite(doc); err != nil {
			return err
		}
		return of(db).Create(background, doc)
	})
}

func (d documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	return ask(ctx, d.s, Call{"read document", kind + "/" + key, false}, func(db *database) (persist.Document, error) {
		return of(db).Read(background, kind, key)
	})
}

func (d documents) Update(ctx context.Context, doc persist.Document) error {
	return d.s.tell(ctx, Call{"update document", doc.PersistID(), true}, func(db *database) error {
		if err := db.mayWrite(doc); err != nil {
			return err
		}
		return of(db).Update(background, doc)
	})
}

func (d documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	return d.s.tell(ctx, Call{"delete document", kind + "/" + key, true}, func(db *database) error {
		return of(db).Delete(background, kind, key, revision)
	})
}

func (d documents) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	return ask(ctx, d.s, Call{"list documents", kind, false}, func(db *database) ([]persist.Document, error) {
		return of(db).List(background, kind, after, limit)
	})
}

func (d documents) Due(ctx context.Context, kind string, before int64, limit int) ([]persist.Document, error) {
	return ask(ctx, d.s, Call{"find due documents", kind, false}, func(db *database) ([]persist.Document, error) {
		return of(db).Due(background, kind, before, limit)
	})
}

func (d documents) Keep(ctx context.Context, list []persist.Document) error {
	list = slices.Clone(list)
	return d.s.tell(ctx, Call{Op: "keep documents", Write: true}, func(db *database) error { return of(db).Keep(background, list) })
}

func (d documents) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	return ask(ctx, d.s, Call{"purge documents", kind, true}, func(db *database) (int, error) {
		return of(db).Purge(background, kind, before, limit)
	})
}

// slots implements [persist.SlotStore].
type slots struct{ s *store }

func (s slots) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	ids = slices.Clone(ids)
	return ask(ctx, s.s, Call{"read slots", registry, false}, func(db *database) (persist.SlotTable, error) { return db.look(registry, ids) })
}

func (s slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	swap.OldSet, swap.NewSet, swap.OldSlot, swap.NewSlot = clone(swap.OldSet), clone(swap.NewSet), clone(swap.OldSlot), clone(swap.NewSlot)
	return ask(ctx, s.s, Call{"swap slot", registry, true}, func(db *database) (bool, error) { return db.swap(registry, swap) })
}

// clone returns a pointer to a copy: the standby reads it later.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func (s slots) Drop(ctx context.Context, registry string) error {
	return s.s.tell(ctx, Call{"drop slots", registry, true}, func(db *database) error { return db.store.Slots().Drop(background, registry) })
}

// history implements [persist.HistoryStore].
type history struct{ s *store }

func (h history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	records = slices.Clone(records)
	return h.s.tell(ctx, Call{Op: "append history", Write: true}, func(db *database) error {
		return db.store.History().Append(background, records)
	})
}

func (h history) List(ctx context.Context, query persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	return ask(ctx, h.s, Call{"list history", query.BizType, false}, func(db *database) ([]persist.HistoryRecord, error) {
		return db.store.History().List(background, query)
	})
}

func (h history) Remove(ctx context.Context, bizType string, ids []string) error {
	return h.s.tell(ctx, Call{"remove history", bizType, true}, func(db *database) error {
		return db.store.History().Remove(background, bizType, ids)
	})
}

func (h history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	return ask(ctx, h.s, Call{"purge history", bizType, true}, func(db *database) (int, error) {
		return db.store.History().Purge(background, bizType, before, limit)
	})
}
