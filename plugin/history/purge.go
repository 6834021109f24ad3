package history

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

const (
	purgeStep  = 500 // records
	purgePause = 10 * time.Millisecond
	mostPurge  = time.Hour
)

// purge removes old records by small steps until the pipe is closed. Every node does; what one
// finds gone is no matter.
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
	now := p.now()
	if err := p.trusts(ctx, now); err != nil {
		return err
	}
	before := now.Add(-p.settings.Retention).UnixMilli()
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

func (p *pipe) trusts(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	return p.trust(ctx, now)
}

// mostAhead is how far the clock of a node may be ahead of that of the store for it to purge.
const mostAhead = time.Hour

// trustStore compares the clock of this node with that of the store, which all nodes share: one
// that is ahead would remove what the others must keep.
func trustStore(ctx context.Context, clock persist.Clock, now time.Time) error {
	stores, err := clock.Now(ctx)
	if err != nil {
		return err
	}
	if ahead := now.Sub(stores); ahead > mostAhead {
		return fmt.Errorf("the clock of this node is %s ahead of the store's", ahead.Round(time.Second))
	}
	return nil
}

// mostIdle is how much longer ago than the retention the newest record of files may be for them to
// be purged. A process that runs removes the last record within this time; where it did not, the
// clock was set, or the process did not run.
const mostIdle = 2 * mostPurge

// trust compares the clock with the newest record, since files have no clock.
func (f *files) trust(ctx context.Context, now time.Time, retention time.Duration) error {
	newest, err := f.newest(ctx)
	if err != nil || newest < 0 {
		return err
	}
	if at := time.UnixMilli(newest); now.Sub(at) > retention+mostIdle {
		return fmt.Errorf("the newest record is of %s, so the clock may be ahead; nothing is removed before the next record", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// newest returns the greatest time of all records, in ms; −1 when there is none.
func (f *files) newest(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(ctx); err != nil {
		return 0, err
	}
	list, err := f.olderFiles()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	newest := f.last
	for _, o := range list {
		newest = max(newest, o.last)
	}
	return newest, nil
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
