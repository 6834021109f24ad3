package server

import (
	"context"

	"github.com/seqd/seqd/persist"
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

// openTerms begins the session of this node, of which package terms needs the ID, and prepares what
// the leader distributes.
func (b *back) openTerms(ctx context.Context, id string) {
	store := b.store.Store
	fenced, _ := store.(persist.Fenced)
	b.terms = terms.New(terms.Options{
		Documents: store.Documents(), Fenced: fenced, Shared: store.Shared(), Node: id, Now: b.base.opts.now, Log: b.base.log,
		Wanted: func(ctx context.Context) (map[string]string, error) { return b.subscriptions.Wanted(ctx) },
	})
	b.openEvents()
	b.openSubscriptions(ctx)
	b.base.background.run(ctx, b.terms.Run)
}
