package backends

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// fencePause is the pause between two looks at the fence of the store.
const fencePause = 5 * time.Second

// fence is what is known of the fence of a store; see [persist.Fenced].
type fence struct {
	known      atomic.Bool // it was read at least once
	failedOver atomic.Bool
}

// errFailedOver is why nodes of a store that failed over are degraded.
var errFailedOver = &seqd.Error{
	Code:   seqd.CodeStoreFailedOver,
	Detail: "the store failed over and may have lost what it acknowledged last: no counter is created until an operator runs seqd failover --confirm",
}

// FailedOver returns why an operator has to look at the store: it failed over, may have lost
// counters, and nobody has confirmed that. It returns nil otherwise. ok is false if the store
// cannot fail over, or is not known yet. It does no I/O.
func (s *Store) FailedOver() (why *seqd.Error, ok bool) {
	if s.fence.failedOver.Load() {
		return errFailedOver, true
	}
	return nil, s.fence.known.Load()
}

// WatchFence looks at the fence of the store every few seconds until ctx ends, and logs what
// changes. It returns at once if the store has none. While the store is away, what was known
// counts.
func (s *Store) WatchFence(ctx context.Context) {
	fenced, ok := s.Store.(persist.Fenced)
	if !ok {
		return
	}
	ticker := time.NewTicker(fencePause)
	defer ticker.Stop()
	for {
		if f, err := fenced.Fence(ctx); err == nil {
			s.note(f)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// note keeps a fence, and logs each change once.
func (s *Store) note(f persist.Fence) {
	over := f.FailedOver()
	switch before := s.fence.failedOver.Swap(over); {
	case over && !before:
		s.log.Error("the store failed over and may have lost what it acknowledged last; counters that it knows continue above a gap, "+
			"and none is created until an operator has raised what may be missing and runs seqd failover --confirm",
			"current", f.Current, "confirmed", f.Confirmed)
	case before && !over:
		s.log.Info("an operator has confirmed the failover of the store; counters are created again", "current", f.Current)
	}
	s.fence.known.Store(true)
}
