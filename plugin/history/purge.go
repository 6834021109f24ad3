package history

import (
	"context"
	"fmt"
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

// purgeSkew is how far the node's clock may be from that of the store for it to remove anything: one that is ahead would take what others must keep for
// old.
const purgeSkew = time.Hour

// skew returns how far the clock is off the store's, where that has one of its own.
func (p *pipe) skew(ctx context.Context) (time.Duration, error) {
	if p.target.store == nil {
		return 0, nil // files are this node's alone
	}
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	table, err := p.target.store.Slots().Look(ctx, name)
	return p.now().Sub(time.UnixMilli(table.Now)).Abs(), err
}

// purgeAll removes what is too old of every biz type.
func (p *pipe) purgeAll(ctx context.Context) error {
	skew, err := p.skew(ctx)
	if err != nil {
		return err
	}
	if skew > purgeSkew {
		return fmt.Errorf("the clock is %s off the store's", skew)
	}
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
