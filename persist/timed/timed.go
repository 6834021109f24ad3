// Package timed measures how long the operations of a store take.
package timed

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Took is called after each operation, also one that failed or panicked. operation is a name such as
// counters.allocate; there are fewer than 30.
type Took func(operation string, took time.Duration)

// Store returns a store that calls took. It is a [persist.Fenced], or a [persist.Answerer], if the store
// is. Nil measures nothing.
func Store(s persist.Store, took Took) persist.Store {
	if took == nil {
		return s
	}
	t := store{s, &watch{took}}
	if fence, ok := s.(persist.Fenced); ok {
		return fenced{t, fence}
	}
	if from, ok := s.(persist.Answerer); ok {
		return answerer{t, from}
	}
	return t
}

type (
	store struct {
		persist.Store
		took *watch
	}
	fenced struct {
		store
		persist.Fenced
	}
	answerer struct {
		store
		from persist.Answerer
	}
	counters struct {
		persist.Counters
		took *watch
	}
	documents struct {
		persist.Documents
		took *watch
	}
	slots struct {
		persist.SlotStore
		took *watch
	}
	history struct {
		persist.HistoryStore
		took *watch
	}
	answers struct {
		persist.Answers
		took *watch
	}
)

// watch is behind a pointer, because stores are compared, and functions cannot be.
type watch struct{ took Took }

// since is deferred, so that it allocates nothing.
func (w *watch) since(operation string, began time.Time) { w.took(operation, time.Since(began)) }

func (s store) Counters() persist.Counters    { return counters{s.Store.Counters(), s.took} }
func (s store) Documents() persist.Documents  { return documents{s.Store.Documents(), s.took} }
func (s store) Slots() persist.SlotStore      { return slots{s.Store.Slots(), s.took} }
func (s store) History() persist.HistoryStore { return history{s.Store.History(), s.took} }
func (a answerer) Answers() persist.Answers   { return answers{a.from.Answers(), a.took} }

func (s store) Now(ctx context.Context) (time.Time, error) {
	defer s.took.since("clock.now", time.Now())
	return s.Store.Now(ctx)
}

func (x counters) Create(ctx context.Context, c persist.Counter) error {
	defer x.took.since("counters.create", time.Now())
	return x.Counters.Create(ctx, c)
}
func (x counters) Read(ctx context.Context, bizTag string) (persist.Counter, error) {
	defer x.took.since("counters.read", time.Now())
	return x.Counters.Read(ctx, bizTag)
}
func (x counters) Delete(ctx context.Context, bizTag string) error {
	defer x.took.since("counters.delete", time.Now())
	return x.Counters.Delete(ctx, bizTag)
}
func (x counters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	defer x.took.since("counters.list", time.Now())
	return x.Counters.List(ctx, after, limit)
}
func (x counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	defer x.took.since("counters.allocate", time.Now())
	return x.Counters.Allocate(ctx, req)
}
func (x counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	defer x.took.since("counters.give_back", time.Now())
	return x.Counters.GiveBack(ctx, bizTag, r)
}
func (x counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	defer x.took.since("counters.epoch", time.Now())
	return x.Counters.Epoch(ctx, bizTag)
}

func (x documents) Create(ctx context.Context, d persist.Document) error {
	defer x.took.since("documents.create", time.Now())
	return x.Documents.Create(ctx, d)
}
func (x documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	defer x.took.since("documents.read", time.Now())
	return x.Documents.Read(ctx, kind, key)
}
func (x documents) Update(ctx context.Context, d persist.Document) error {
	defer x.took.since("documents.update", time.Now())
	return x.Documents.Update(ctx, d)
}
func (x documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	defer x.took.since("documents.delete", time.Now())
	return x.Documents.Delete(ctx, kind, key, revision)
}
func (x documents) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	defer x.took.since("documents.list", time.Now())
	return x.Documents.List(ctx, kind, after, limit)
}
func (x documents) Due(ctx context.Context, kind string, before int64, limit int) ([]persist.Document, error) {
	defer x.took.since("documents.due", time.Now())
	return x.Documents.Due(ctx, kind, before, limit)
}
func (x documents) Keep(ctx context.Context, list []persist.Document) error {
	defer x.took.since("documents.keep", time.Now())
	return x.Documents.Keep(ctx, list)
}
func (x documents) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	defer x.took.since("documents.purge", time.Now())
	return x.Documents.Purge(ctx, kind, before, limit)
}

func (s slots) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	defer s.took.since("slots.look", time.Now())
	return s.SlotStore.Look(ctx, registry, ids...)
}
func (s slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	defer s.took.since("slots.swap", time.Now())
	return s.SlotStore.Swap(ctx, registry, swap)
}
func (s slots) Drop(ctx context.Context, registry string) error {
	defer s.took.since("slots.drop", time.Now())
	return s.SlotStore.Drop(ctx, registry)
}

func (h history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	defer h.took.since("history.append", time.Now())
	return h.HistoryStore.Append(ctx, records)
}
func (h history) List(ctx context.Context, query persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	defer h.took.since("history.list", time.Now())
	return h.HistoryStore.List(ctx, query)
}
func (h history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	defer h.took.since("history.purge", time.Now())
	return h.HistoryStore.Purge(ctx, bizType, before, limit)
}

func (a answers) Claim(ctx context.Context, id, claim string, lease time.Duration) (string, error) {
	defer a.took.since("answers.claim", time.Now())
	return a.Answers.Claim(ctx, id, claim, lease)
}
func (a answers) Swap(ctx context.Context, id, old, text string, keep time.Duration) (string, error) {
	defer a.took.since("answers.swap", time.Now())
	return a.Answers.Swap(ctx, id, old, text, keep)
}
func (a answers) Drop(ctx context.Context, id, claim string) error {
	defer a.took.since("answers.drop", time.Now())
	return a.Answers.Drop(ctx, id, claim)
}
func (a answers) Purge(ctx context.Context) (int, error) {
	defer a.took.since("answers.purge", time.Now())
	return a.Answers.Purge(ctx)
}

func (f fenced) Fence(ctx context.Context) (persist.Fence, error) {
	defer f.took.since("fence.read", time.Now())
	return f.Fenced.Fence(ctx)
}
func (f fenced) ConfirmFence(ctx context.Context, current string) error {
	defer f.took.since("fence.confirm", time.Now())
	return f.Fenced.ConfirmFence(ctx, current)
}
func (f fenced) CreateLost(ctx context.Context, c persist.Counter) error {
	defer f.took.since("counters.create", time.Now())
	return f.Fenced.CreateLost(ctx, c)
}
func (f fenced) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	defer f.took.since("documents.create", time.Now())
	return f.Fenced.CreateFenced(ctx, d, fence)
}
func (f fenced) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	defer f.took.since("documents.update", time.Now())
	return f.Fenced.UpdateFenced(ctx, d, fence)
}
