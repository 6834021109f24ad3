package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
)

const (
	purgeStep  = 500 // records
	purgePause = 10 * time.Millisecond
	mostPurge  = time.Hour
)

// purgeDeleted removes the old records of a biz type that was deleted.
func purgeDeleted(ctx context.Context, env plugin.Env, bizType string, binding seqd.PluginBinding, gone func(string) bool) error {
	p, err := join(env, *binding.Settings.(*Settings), bizType)
	if errors.Is(err, errHeld) {
		return nil // whoever writes to the file removes what is old there
	}
	if err != nil {
		return err
	}
	return errors.Join(p.purgeGone(ctx, bizType, gone), p.leave(ctx, bizType))
}

// purgeGone removes the old records of a deleted biz type.
func (p *pipe) purgeGone(ctx context.Context, bizType string, gone func(string) bool) error {
	f, ok := p.store.(*files)
	if !ok {
		return p.purgeAll(ctx)
	}
	pipes.mu.Lock()
	shared := len(p.members) > 1
	pipes.mu.Unlock()
	if shared {
		return nil // as if another process had the file
	}
	before, known, err := p.cutoff(ctx)
	if !known {
		return err
	}
	return f.purgeGone(ctx, before, func(name string) bool { return name == bizType || gone(name) })
}

// purge removes old records in small steps until the pipe is closed. Every node does so; a record
// that another node has removed is no error.
func (p *pipe) purge() {
	defer close(p.purger)
	every := min(p.settings.Retention/10, mostPurge)
	failing := false
	// The jitter keeps nodes that were started together from purging together.
	for wait := every/2 + rand.N(every/2); sleep(p.open, wait); wait = every {
		err := p.purgeAll(p.open)
		if err != nil && !failing && p.open.Err() == nil {
			p.log.Error("old history cannot be removed; trying again", "error", err)
		}
		failing = err != nil
	}
}

// purgeAll removes the old records of every biz type.
func (p *pipe) purgeAll(ctx context.Context) error {
	pipes.mu.Lock()
	names := slices.Collect(maps.Keys(p.members))
	pipes.mu.Unlock()
	before, known, err := p.cutoff(ctx)
	if !known {
		return err
	}
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

// cutoff returns the time before which records are too old, in ms since the Unix epoch. known is
// false if nothing may be removed now: a clock that is ahead would remove records that must be
// kept.
func (p *pipe) cutoff(ctx context.Context) (before int64, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	now, ok, err := p.clock.Past(ctx, p.documents)
	if !ok {
		return 0, false, err
	}
	if f, ok := p.store.(*files); ok {
		err = f.trust(ctx, time.UnixMilli(now), p.settings.Retention)
	}
	return now - p.settings.Retention.Milliseconds(), err == nil, err
}

// mostIdle limits how much older than the retention the newest record in files may be for them to
// be purged. A running process removes its last record within this time. If the record is still
// there, either the clock was set or the process did not run.
const mostIdle = 2 * mostPurge

// trust compares the clock with the newest record: the store in memory, whose clock may be ahead
// from the start, does not know when it was last seen.
func (f *files) trust(ctx context.Context, now time.Time, retention time.Duration) error {
	newest, err := f.newest(ctx)
	if err != nil || newest < 0 {
		return err
	}
	if at := time.UnixMilli(newest); now.Sub(at) > retention+mostIdle {
		return fmt.Errorf("the newest record is from %s, so the clock may be ahead; nothing is removed until the next record", at.UTC().Format(time.RFC3339))
	}
	return nil
}

// newest returns the latest time of all records, in ms, or −1 if there is none.
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

// sleep returns false if ctx ended first.
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
