package history

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	purgeStep  = 500 // records
	purgePause = 10 * time.Millisecond
	mostPurge  = time.Hour
)

// purge removes old records by small steps until the pipe is closed. Every node does; what one finds gone is no matter.
func (p *pipe) purge() {
	defer close(p.purger)
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	go func() {
		select {
		case <-p.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	every := min(p.settings.Retention/10, mostPurge)
	failing := false
	// Nodes that were started together do not purge together.
	for wait := every/2 + rand.N(every/2); sleep(ctx, wait); wait = every {
		err := p.purgeAll(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			p.log.Error("old history cannot be removed; it is tried again", "error", err)
		}
		failing = err != nil
	}
}

// purgeAll removes what is too old of every biz type.
func (p *pipe) purgeAll(ctx context.Context) error {
	pipes.mu.Lock()
	names := slices.Collect(maps.Keys(p.members))
	pipes.mu.Unlock()
	before := p.now().Add(-p.settings.Retention).UnixMilli()
	for _, name := range names {
		for {
			n, err := p.purgeSome(ctx, name, before)
			if err != nil {
				return err
			}
			if n < purgeStep {
				break
			}
			if !sleep(ctx, purgePause) {
				return ctx.Err()
			}
		}
	}
	return nil
}

func (p *pipe) purgeSome(ctx context.Context, name string, before int64) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	return p.store.Purge(ctx, name, before, purgeStep)
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
