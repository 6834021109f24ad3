// Package workers leases worker IDs to other programs, so that they make numbers themselves and no
// two programs ever make the same one.
//
// A pool is a document (pool.go). Its worker IDs are the machine IDs of a registry in the store,
// and a program is a member of the protocol of package machineid. So rule U5 holds for programs,
// and the intervals of one worker ID never overlap (W1). The node acts for the program:
// Workers.lease and Renew read the registry, package machineid decides the interval (after, until],
// and the node writes it to the slot of the worker ID. The node keeps nothing of a lease: the
// caller gives back a text with what was granted, which only a node can have written (W2, text.go).
// A lease ends at its until, by the clock of the store, even if nobody else has leased the worker
// ID since (W3, Workers.held).
//
// The after of a lease is Lower in package machineid. docs/design/snowflake.md has the path of a
// lease, and what happens to leases when the store fails over.
package workers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/storeerror"
)

// Options are what [New] needs.
type Options struct {
	Documents persist.Documents
	Slots     persist.SlotStore
	// Cluster is the ID of the cluster.
	Cluster string
	Now     func() time.Time
	// Stopping reports whether the node is about to stop. Then nobody waits.
	Stopping func() bool
	Log      *slog.Logger
}

// Workers implements [admin.Workers].
type Workers struct {
	opts Options

	mu     sync.Mutex // guards what follows
	pools  map[string]known
	queues map[string]*queue
	key    []byte // of the texts of leases; nil until it is known
	keyAt  time.Time
}

var _ admin.Workers = (*Workers)(nil)

// known is a pool as the store had it at a time.
type known struct {
	pool admin.WorkerPool
	at   time.Time
}

const (
	// fresh is how long a node uses a definition, or the key, before it reads that again.
	fresh = 2 * time.Second
	// mostKnown is how many definitions a node remembers.
	mostKnown = 1000
	// mostPools is how many pools there are at most.
	mostPools = 1000
	// attempt limits what is done in the store for one request.
	attempt = 5 * time.Second
)

// New returns the pools of a store.
func New(opts Options) *Workers {
	return &Workers{opts: opts, pools: make(map[string]known), queues: make(map[string]*queue)}
}

// Pools implements [admin.Workers].
func (w *Workers) Pools(ctx context.Context, after string, limit int) (list []admin.WorkerPool, more bool, err error) {
	docs, err := w.opts.Documents.List(ctx, Kind, after, limit+1)
	if err != nil {
		return nil, false, failure(err)
	}
	if more = len(docs) > limit; more {
		docs = docs[:limit]
	}
	for _, doc := range docs {
		p, err := readPool(doc)
		if err != nil {
			return nil, false, failure(err)
		}
		list = append(list, p)
	}
	return list, more, nil
}

// Pool implements [admin.Workers].
func (w *Workers) Pool(ctx context.Context, name string) (p admin.WorkerPool, err error) {
	if err := seqd.CheckName(name); err != nil {
		return p, seqd.Errorf(seqd.CodeInvalidRequest, "the name of a pool is a letter followed by at most 63 letters, digits, '.', '_' or '-'")
	}
	doc, err := w.opts.Documents.Read(ctx, Kind, name)
	if err == nil {
		p, err = readPool(doc)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		delete(w.pools, name)
		if errors.Is(err, persist.ErrNotFound) {
			delete(w.queues, name)
			return p, seqd.Errorf(seqd.CodeUnknownPool, "there is no pool %s of worker IDs", name)
		}
		return p, failure(err)
	}
	if len(w.pools) >= mostKnown {
		clear(w.pools)
	}
	w.pools[name] = known{p, time.Now()}
	return p, nil
}

// recent returns a pool as it was at most [fresh] ago.
func (w *Workers) recent(ctx context.Context, name string) (admin.WorkerPool, error) {
	w.mu.Lock()
	k, ok := w.pools[name]
	w.mu.Unlock()
	if ok && time.Since(k.at) < fresh {
		return k.pool, nil
	}
	return w.Pool(ctx, name)
}

// SetPool implements [admin.Workers].
func (w *Workers) SetPool(ctx context.Context, name string, edit func(*admin.WorkerPool) error) (p admin.WorkerPool, err error) {
	for {
		p, err = w.Pool(ctx, name)
		if seqd.CodeOf(err) == seqd.CodeUnknownPool {
			p, err = admin.DefaultWorkerPool(name), nil
		}
		if err != nil {
			return p, err
		}
		if err := edit(&p); err != nil {
			return p, err
		}
		if err := check(p, w.opts.Now()); err != nil {
			return p, err
		}
		t, err := w.checkLayout(ctx, p)
		if err != nil {
			return p, err
		}
		if p.Revision++; p.Revision == 1 {
			if err := w.beforeCreate(ctx, p, t); err != nil {
				return p, err
			}
		}
		// The registry records how far leases reach before the definition is written, and before
		// the time that the definition gets (see ttlNow). So a failover that keeps the definition
		// keeps that too. And the floor of a new registry counts from now, not from the first
		// lease.
		if t, err = w.prepared(ctx, name, w.instance(p, "")); err != nil {
			return p, err
		}
		p.Updated = time.UnixMilli(t.Now)
		err = persist.Put(ctx, w.opts.Documents, documentOf(p))
		if persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound) {
			continue
		}
		if err != nil {
			return p, failure(err)
		}
		return w.Pool(ctx, name)
	}
}

// checkLayout reads the bootstrap part of a pool's registry. It returns an error if a pool of this
// name was made for numbers of another layout, because programs may hold leases for them.
func (w *Workers) checkLayout(ctx context.Context, p admin.WorkerPool) (t persist.SlotTable, err error) {
	t, err = w.opts.Slots.Look(ctx, registry(p.Name), 0)
	if err != nil {
		return t, failure(err)
	}
	if t.Set == nil || t.Set.Layout == layout(p) {
		return t, nil
	}
	return t, seqd.Errorf(seqd.CodeConflict, "the pool %s was made for numbers with %s: epoch, bitsMachine and bitsSequence cannot change any more; "+
		"make a pool with another name", p.Name, t.Set.Layout)
}

// beforeCreate checks that there is room for a pool that is about to be made. If a pool had the
// name before, beforeCreate raises the floor of its registry: the store may have been restored from
// a backup in which that pool was deleted, and so lack leases of it (Restored).
func (w *Workers) beforeCreate(ctx context.Context, p admin.WorkerPool, t persist.SlotTable) error {
	if err := w.checkRoom(ctx); err != nil || t.Set == nil {
		return err
	}
	if _, err := refloor(ctx, w.opts.Slots, member(p, w.opts.Cluster), p.Name); err != nil {
		return failure(err)
	}
	return nil
}

// checkRoom returns an error if there are mostPools pools.
func (w *Workers) checkRoom(ctx context.Context) error {
	docs, err := w.opts.Documents.List(ctx, Kind, "", mostPools)
	if err != nil {
		return failure(err)
	}
	if len(docs) >= mostPools {
		return seqd.Errorf(seqd.CodeConflict, "there are %d pools of worker IDs, which is the most: delete one that is not used", mostPools)
	}
	return nil
}

// DeletePool implements [admin.Workers]. The registry of the pool stays: if a pool gets the name
// again, its leases begin above all leases of the deleted one.
func (w *Workers) DeletePool(ctx context.Context, name string, force bool, may func(*admin.WorkerPool) error) (p admin.WorkerPool, err error) {
	if p, err = w.Pool(ctx, name); err != nil {
		return p, err
	}
	if err := may(&p); err != nil {
		return p, err
	}
	if !force {
		holders, _, err := w.Holders(ctx, name)
		if err != nil {
			return p, err
		}
		if len(holders) > 0 {
			return p, seqd.Errorf(seqd.CodeConflict, "%d worker IDs of the pool %s are held, %d by %s: end these programs first, or add force=true; "+
				"then their leases end at their until", len(holders), name, holders[0].ID, holders[0].Instance)
		}
	}
	err = w.opts.Documents.Delete(ctx, Kind, name, p.Revision)
	w.mu.Lock()
	delete(w.pools, name)
	delete(w.queues, name)
	w.mu.Unlock()
	switch {
	case errors.Is(err, persist.ErrConflict):
		return p, seqd.Errorf(seqd.CodePreconditionFailed, "the pool %s was changed meanwhile", name)
	case errors.Is(err, persist.ErrNotFound):
		return p, nil
	case err != nil:
		return p, failure(err)
	}
	return p, nil
}

// Holders implements [admin.Workers].
func (w *Workers) Holders(ctx context.Context, name string) (holders []admin.WorkerHolder, standingBy int64, err error) {
	t, err := w.opts.Slots.Look(ctx, registry(name))
	if err != nil {
		return nil, 0, failure(err)
	}
	for _, s := range t.Slots {
		if isHeld(s, t.Now) {
			holders = append(holders, admin.WorkerHolder{ID: s.ID, Instance: s.Key, Until: time.UnixMilli(s.Until).UTC()})
		}
	}
	return holders, w.queue(name).waiting.Load(), nil
}

// isHeld reports whether the lease in a slot has not ended.
func isHeld(s persist.Slot, now int64) bool { return s.Token != "" && s.Until >= now }

// registry returns the name of the registry of a pool's worker IDs.
func registry(pool string) string { return "workers " + pool }

// failure returns what callers see of an error of the store.
func failure(err error) error { return storeerror.Of(err, "the pool", "worker IDs") }
