package server

import (
	"context"
	"errors"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/terms"
)

// duties are documents from which only the leader removes what has expired. If another node removes
// something as well, it does no harm; if no node leads, it waits.
type duties struct {
	persist.Documents
	leading func() bool
}

// duties returns the documents of the store for all whose Purge is a duty of the leader.
func (b *back) duties() persist.Documents {
	return duties{b.store.Store.Documents(), func() bool { return b.terms.Leading() }}
}

// Purge implements [persist.Documents].
func (d duties) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if !d.leading() {
		return 0, nil
	}
	return d.Documents.Purge(ctx, kind, before, limit)
}

// openCoordinator opens the coordinator, if the configuration has one and the store is one that nodes
// share. It is closed after the background work, which ends the session of this node.
func (b *back) openCoordinator(ctx context.Context) (err error) {
	if !b.store.Store.Shared() {
		return nil
	}
	b.coordinator, err = backends.NewCoordinator(ctx, b.base.cfg.Coordination, b.store.Cluster)
	if b.coordinator != nil {
		b.base.cleanups.add("the coordinator", b.base.cfg.Server.StopTimeout, func(context.Context) error { return b.coordinator.Close() })
	}
	return err
}

// openTerms begins the session of this node, of which package terms needs the ID, and prepares what
// the leader distributes.
func (b *back) openTerms(ctx context.Context, id string) {
	store := b.store.Store
	fenced, _ := store.(persist.Fenced)
	b.terms = terms.New(terms.Options{
		Documents: store.Documents(), Fenced: fenced, Coordinator: b.coordinator, Shared: store.Shared(), Node: id, Now: b.base.opts.now, Log: b.base.log,
		Elsewhere: func() error {
			if why := b.nodes.Elsewhere(); why != nil {
				return why
			}
			return nil
		},
		Wanted: func(ctx context.Context) (map[string]string, error) { return b.subscriptions.Wanted(ctx) },
	})
	b.openEvents()
	b.openSubscriptions(ctx)
	b.base.background.run(ctx, b.terms.Run)
}

// coordinated returns the ID of what keeps the session of this node, whether that is a coordinator,
// and why this node cannot use it, "" if it can.
func (b *back) coordinated() (id string, used bool, trouble string) {
	id, err := b.terms.Coordinator()
	if why := withoutSession(err); why != nil {
		trouble = why.Detail
	}
	return id, b.coordinator != nil, trouble
}

// uncoordinated returns why this node does no jobs, nil if it does: its coordinator cannot be used,
// or is another one than that of other nodes.
func (b *back) uncoordinated() *seqd.Error {
	_, err := b.terms.Coordinator()
	return withoutSession(err)
}

// withoutSession returns what operators see of an error of a beat, nil if the coordinator can be used.
func withoutSession(err error) *seqd.Error {
	var why *seqd.Error
	switch {
	case errors.As(err, &why):
		return why
	case errors.Is(err, coordination.ErrUnavailable):
		return seqd.Errorf(seqd.CodeNoCoordinator, "the coordinator does not answer: this node does no jobs; its log says why")
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return seqd.Errorf(seqd.CodeNoCoordinator, "this node does no jobs: %v", err)
	}
	return nil
}
