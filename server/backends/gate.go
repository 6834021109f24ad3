package backends

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seqd/seqd/persist"
)

// gate is a store that could not be reached when the run began. Until it is known to be that of
// this node's cluster every operation returns persist.ErrUnavailable: a store that answers may be
// another one by now.
type gate struct {
	persist.Store
	open atomic.Bool
}

var _ persist.Store = (*gate)(nil)

var errGate = fmt.Errorf("%w: it could not be reached at the start, and is still to be compared with the cluster that the reservation on disk is of", persist.ErrUnavailable)

// shut returns why the store must not be used.
func (g *gate) shut() error {
	if g.open.Load() {
		return nil
	}
	return errGate
}

// Counters implements [persist.Store].
func (g *gate) Counters() persist.Counters {
	counters := g.Store.Counters()
	return gatedCounters{gated[persist.Counter]{g, counters}, counters}
}

// Shapes implements [persist.Store].
func (g *gate) Shapes() persist.Repository[persist.Shape] {
	return gated[persist.Shape]{g, g.Store.Shapes()}
}

// Clusters implements [persist.Store].
func (g *gate) Clusters() persist.Repository[persist.Cluster] {
	return gated[persist.Cluster]{g, g.Store.Clusters()}
}

// Slots implements [persist.Store].
func (g *gate) Slots() persist.SlotStore { return gatedSlots{g, g.Store.Slots()} }

// History implements [persist.Store].
func (g *gate) History() persist.HistoryStore { return gatedHistory{g, g.Store.History()} }

// Documents implements [persist.Store].
func (g *gate) Documents() persist.Documents { return gatedDocuments{g, g.Store.Documents()} }

// gated is a repository behind a gate.
type gated[M persist.Model] struct {
	gate *gate
	to   persist.Repository[M]
}

func (r gated[M]) Create(ctx context.Context, m M) error {
	if err := r.gate.shut(); err != nil {
		return err
	}
	return r.to.Create(ctx, m)
}

func (r gated[M]) Read(ctx context.Context, id string) (m M, err error) {
	if err := r.gate.shut(); err != nil {
		return m, err
	}
	return r.to.Read(ctx, id)
}

func (r gated[M]) Update(ctx context.Context, m M) error {
	if err := r.gate.shut(); err != nil {
		return err
	}
	return r.to.Update(ctx, m)
}

func (r gated[M]) Delete(ctx context.Context, id string) error {
	if err := r.gate.shut(); err != nil {
		return err
	}
	return r.to.Delete(ctx, id)
}

func (r gated[M]) List(ctx context.Context, after string, limit int) ([]M, error) {
	if err := r.gate.shut(); err != nil {
		return nil, err
	}
	return r.to.List(ctx, after, limit)
}

// gatedCounters are counters behind a gate.
type gatedCounters struct {
	gated[persist.Counter]
	to persist.Counters
}

func (c gatedCounters) Epoch(ctx context.Context, bizTag string) (string, error) {
	if err := c.gate.shut(); err != nil {
		return "", err
	}
	return c.to.Epoch(ctx, bizTag)
}

func (c gatedCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if err := c.gate.shut(); err != nil {
		return persist.Range{}, err
	}
	return c.to.Allocate(ctx, req)
}

func (c gatedCounters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := c.gate.shut(); err != nil {
		return false, err
	}
	return c.to.GiveBack(ctx, bizTag, r)
}

// gatedSlots are registries behind a gate.
type gatedSlots struct {
	gate *gate
	to   persist.SlotStore
}

func (s gatedSlots) Look(ctx context.Context, registry string, ids ...int64) (persist.SlotTable, error) {
	if err := s.gate.shut(); err != nil {
		return persist.SlotTable{}, err
	}
	return s.to.Look(ctx, registry, ids...)
}

func (s gatedSlots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := s.gate.shut(); err != nil {
		return false, err
	}
	return s.to.Swap(ctx, registry, swap)
}

func (s gatedSlots) Drop(ctx context.Context, registry string) error {
	if err := s.gate.shut(); err != nil {
		return err
	}
	return s.to.Drop(ctx, registry)
}

// gatedHistory is a history behind a gate.
type gatedHistory struct {
	gate *gate
	to   persist.HistoryStore
}

func (h gatedHistory) Append(ctx context.Context, records []persist.HistoryRecord) error {
	if err := h.gate.shut(); err != nil {
		return err
	}
	return h.to.Append(ctx, records)
}

func (h gatedHistory) List(ctx context.Context, q persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	if err := h.gate.shut(); err != nil {
		return nil, err
	}
	return h.to.List(ctx, q)
}

func (h gatedHistory) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	if err := h.gate.shut(); err != nil {
		return 0, err
	}
	return h.to.Purge(ctx, bizType, before, limit)
}

// gatedDocuments are documents behind a gate.
type gatedDocuments struct {
	gate *gate
	to   persist.Documents
}

func (d gatedDocuments) Create(ctx context.Context, doc persist.Document) error {
	if err := d.gate.shut(); err != nil {
		return err
	}
	return d.to.Create(ctx, doc)
}

func (d gatedDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := d.gate.shut(); err != nil {
		return persist.Document{}, err
	}
	return d.to.Read(ctx, kind, key)
}

func (d gatedDocuments) Update(ctx context.Context, doc persist.Document) error {
	if err := d.gate.shut(); err != nil {
		return err
	}
	return d.to.Update(ctx, doc)
}

func (d gatedDocuments) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := d.gate.shut(); err != nil {
		return err
	}
	return d.to.Delete(ctx, kind, key, revision)
}

func (d gatedDocuments) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if err := d.gate.shut(); err != nil {
		return nil, err
	}
	return d.to.List(ctx, kind, after, limit)
}

func (d gatedDocuments) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if err := d.gate.shut(); err != nil {
		return 0, err
	}
	return d.to.Purge(ctx, kind, before, limit)
}
