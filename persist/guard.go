package persist

import (
	"context"
	"time"

	"github.com/seqd/seqd/internal/bounded"
)

// Guard returns a store whose operations return an error if its driver panics. As after a lost
// connection, it is not known then whether the operation took effect. The guarded store is a
// [Fenced] and [Lossy], or an [Answerer], if the store is.
//
// If the store was restored from a snapshot, counters that it may have lost do not begin at their
// start: see [Restored].
func Guard(store Store) Store {
	g := guarded{store, &lacking{documents: store.Documents()}}
	if fenced, ok := store.(Fenced); ok {
		return guardedFenced{g, fenced}
	}
	if answerer, ok := store.(Answerer); ok {
		return guardedAnswerer{g, answerer}
	}
	return g
}

type (
	guarded struct {
		Store
		lacks *lacking
	}
	guardedFenced struct {
		guarded
		fenced Fenced
	}
	guardedAnswerer struct {
		guarded
		answerer Answerer
	}
	guardedCounters struct {
		Counters
		lacks *lacking
	}
	guardedDocuments struct {
		Documents
		g guarded
	}
	guardedSlots   struct{ SlotStore }
	guardedHistory struct{ HistoryStore }
	guardedAnswers struct{ Answers }
)

// safely calls an operation of a driver.
func safely[T any](f func() (T, error)) (v T, err error) {
	defer bounded.Recover("the store's driver", &err)
	return f()
}

// do is safely for an operation that returns only an error.
func do(f func() error) (err error) {
	defer bounded.Recover("the store's driver", &err)
	return f()
}

func (g guarded) Counters() Counters       { return guardedCounters{g.Store.Counters(), g.lacks} }
func (g guarded) Documents() Documents     { return guardedDocuments{g.Store.Documents(), g} }
func (g guarded) Slots() SlotStore         { return guardedSlots{g.Store.Slots()} }
func (g guarded) History() HistoryStore    { return guardedHistory{g.Store.History()} }
func (g guardedAnswerer) Answers() Answers { return guardedAnswers{g.answerer.Answers()} }
func (g guarded) Close() error             { return do(g.Store.Close) }

func (g guarded) Now(ctx context.Context) (time.Time, error) {
	return safely(func() (time.Time, error) { return g.Store.Now(ctx) })
}

func (g guarded) Kinds(ctx context.Context) ([]string, error) {
	return safely(func() ([]string, error) { return g.Store.Kinds(ctx) })
}
func (g guarded) Registries(ctx context.Context) ([]string, error) {
	return safely(func() ([]string, error) { return g.Store.Registries(ctx) })
}
func (g guarded) Refill(ctx context.Context, list []Document) error {
	return do(func() error { return g.Store.Refill(ctx, list) })
}

func (g guardedCounters) Create(ctx context.Context, c Counter) error {
	return do(func() error { return g.lacks.create(ctx, g.Counters, c) })
}
func (g guardedCounters) Read(ctx context.Context, bizTag string) (Counter, error) {
	return safely(func() (Counter, error) { return g.Counters.Read(ctx, bizTag) })
}
func (g guardedCounters) Delete(ctx context.Context, bizTag string) error {
	return do(func() error { return g.Counters.Delete(ctx, bizTag) })
}
func (g guardedCounters) List(ctx context.Context, after string, limit int) ([]Counter, error) {
	return safely(func() ([]Counter, error) { return g.Counters.List(ctx, after, limit) })
}
func (g guardedCounters) Allocate(ctx context.Context, req Request) (Range, error) {
	return safely(func() (Range, error) { return g.Counters.Allocate(ctx, req) })
}
func (g guardedCounters) GiveBack(ctx context.Context, bizTag string, r Range) (bool, error) {
	return safely(func() (bool, error) { return g.Counters.GiveBack(ctx, bizTag, r) })
}
func (g guardedCounters) Epoch(ctx context.Context, bizTag string) (string, error) {
	return safely(func() (string, error) { return g.Counters.Epoch(ctx, bizTag) })
}

func (g guardedDocuments) Create(ctx context.Context, d Document) error {
	return do(func() error {
		return g.g.lacks.begin(ctx, g.g.Store, d, func() error { return g.Documents.Create(ctx, d) })
	})
}
func (g guardedDocuments) Read(ctx context.Context, kind, key string) (Document, error) {
	return safely(func() (Document, error) { return g.Documents.Read(ctx, kind, key) })
}
func (g guardedDocuments) Update(ctx context.Context, d Document) error {
	return do(func() error { return g.Documents.Update(ctx, d) })
}
func (g guardedDocuments) Delete(ctx context.Context, kind, key string, revision int64) error {
	return do(func() error { return g.Documents.Delete(ctx, kind, key, revision) })
}
func (g guardedDocuments) List(ctx context.Context, kind, after string, limit int) ([]Document, error) {
	return safely(func() ([]Document, error) { return g.Documents.List(ctx, kind, after, limit) })
}
func (g guardedDocuments) Due(ctx context.Context, kind string, before int64, limit int) ([]Document, error) {
	return safely(func() ([]Document, error) { return g.Documents.Due(ctx, kind, before, limit) })
}
func (g guardedDocuments) Keep(ctx context.Context, list []Document) error {
	return do(func() error { return g.Documents.Keep(ctx, list) })
}
func (g guardedDocuments) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	return safely(func() (int, error) { return g.Documents.Purge(ctx, kind, before, limit) })
}

func (g guardedSlots) Look(ctx context.Context, registry string, ids ...int64) (SlotTable, error) {
	return safely(func() (SlotTable, error) { return g.SlotStore.Look(ctx, registry, ids...) })
}
func (g guardedSlots) Swap(ctx context.Context, registry string, swap SlotSwap) (bool, error) {
	return safely(func() (bool, error) { return g.SlotStore.Swap(ctx, registry, swap) })
}
func (g guardedSlots) Drop(ctx context.Context, registry string) error {
	return do(func() error { return g.SlotStore.Drop(ctx, registry) })
}

func (g guardedHistory) Append(ctx context.Context, records []HistoryRecord) error {
	return do(func() error { return g.HistoryStore.Append(ctx, records) })
}
func (g guardedHistory) List(ctx context.Context, query HistoryQuery) ([]HistoryRecord, error) {
	return safely(func() ([]HistoryRecord, error) { return g.HistoryStore.List(ctx, query) })
}
func (g guardedHistory) Remove(ctx context.Context, bizType string, ids []string) error {
	return do(func() error { return g.HistoryStore.Remove(ctx, bizType, ids) })
}
func (g guardedHistory) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	return safely(func() (int, error) { return g.HistoryStore.Purge(ctx, bizType, before, limit) })
}

func (g guardedAnswers) Claim(ctx context.Context, id, claim string, lease time.Duration) (string, error) {
	return safely(func() (string, error) { return g.Answers.Claim(ctx, id, claim, lease) })
}
func (g guardedAnswers) Swap(ctx context.Context, id, old, text string, keep time.Duration) (string, error) {
	return safely(func() (string, error) { return g.Answers.Swap(ctx, id, old, text, keep) })
}
func (g guardedAnswers) Drop(ctx context.Context, id, claim string) error {
	return do(func() error { return g.Answers.Drop(ctx, id, claim) })
}
func (g guardedAnswers) Purge(ctx context.Context) (int, error) {
	return safely(func() (int, error) { return g.Answers.Purge(ctx) })
}

func (g guardedFenced) Fence(ctx context.Context) (Fence, error) {
	return safely(func() (Fence, error) { return g.fenced.Fence(ctx) })
}
func (g guardedFenced) ConfirmFence(ctx context.Context, current string) error {
	return do(func() error { return g.fenced.ConfirmFence(ctx, current) })
}
func (g guardedFenced) CreateLost(ctx context.Context, c Counter) error {
	return do(func() error { return g.fenced.CreateLost(ctx, c) })
}
func (g guardedFenced) CreateFenced(ctx context.Context, d Document, fence string) error {
	return do(func() error {
		return g.lacks.begin(ctx, g.Store, d, func() error { return g.fenced.CreateFenced(ctx, d, fence) })
	})
}
func (g guardedFenced) UpdateFenced(ctx context.Context, d Document, fence string) error {
	return do(func() error { return g.fenced.UpdateFenced(ctx, d, fence) })
}
