package definitions

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
)

// tombstones are the deleted biz types of which plugins may still keep records, and when each is
// looked at next.
type tombstones struct {
	mu  sync.Mutex // guards due
	due map[string]time.Time
}

// set says when a biz type is looked at; the zero time means never again.
func (t *tombstones) set(name string, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case due.IsZero():
		delete(t.due, name)
	case t.due == nil:
		t.due = map[string]time.Time{name: due}
	default:
		t.due[name] = due
	}
}

// dueAt returns the names that must be looked at now, in their order.
func (t *tombstones) dueAt(now time.Time) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := maps.Clone(t.due)
	maps.DeleteFunc(due, func(_ string, at time.Time) bool { return at.After(now) })
	return slices.Sorted(maps.Keys(due))
}

const (
	// purgeTick is how often Purge looks which tombstones are due: a tenth of the shortest retention
	// is 6 s.
	purgeTick = 5 * time.Second
	mostPurge = time.Hour
)

// Purge removes what plugins keep of deleted biz types when it is too old, until ctx ends. It reads
// all definitions once.
func (c *Catalogue) Purge(ctx context.Context) {
	if c.locked {
		return
	}
	if retry.Do(ctx, retry.Policy{First: retryPause, Last: time.Minute}, c.findDeleted) != nil {
		return // ctx has ended
	}
	every(ctx, purgeTick, func() {
		for _, name := range c.tombstones.dueAt(c.records.now()) {
			if next := c.purge(ctx, name); next > 0 {
				c.tombstones.set(name, c.records.now().Add(next))
			} else {
				c.tombstones.set(name, time.Time{})
			}
		}
	})
}

// findDeleted notes all biz types that were deleted.
func (c *Catalogue) findDeleted(ctx context.Context) error {
	for doc, err := range persist.EveryDocument(ctx, c.records.documents, kind) {
		if err != nil {
			return err
		}
		if said, err := decode(doc); err == nil && said.Deleted {
			c.tombstones.set(doc.Key, c.records.now())
		}
	}
	return nil
}

// purge removes what is too old of a deleted biz type, and returns when it must be called again, 0
// for never.
func (c *Catalogue) purge(ctx context.Context, name string) (next time.Duration) {
	doc, said, err := c.records.read(ctx, name)
	if err != nil {
		return time.Minute
	}
	b, err := c.builder.decode(name, said.Definition)
	if err != nil || !said.Deleted {
		return 0
	}
	for _, binding := range b.Plugins {
		kept := seqd.TraitsOf(binding.Settings).KeptFor
		factory, err := plugin.Lookup(binding.Name)
		if err != nil || factory.Purge == nil || kept == 0 {
			continue
		}
		every := min(kept/10, mostPurge)
		gone := func(other string) bool { return c.keepsNoLonger(ctx, other, binding.Name, kept) }
		err = factory.Purge(ctx, PluginEnv(c.builder.env), name, binding, gone)
		if err != nil && ctx.Err() == nil {
			c.log.Warn("what a plugin keeps of a deleted biz type cannot be removed; trying again", "bizType", name, "plugin", binding.Name, "error", err)
		}
		if err != nil || c.records.now().Sub(time.UnixMilli(doc.Timestamp)) < kept+every {
			next = max(next, every)
		}
	}
	return next
}

// keepsNoLonger reports whether a biz type is deleted too, and a plugin kept its records no longer.
func (c *Catalogue) keepsNoLonger(ctx context.Context, name, plugged string, kept time.Duration) bool {
	_, said, err := c.records.read(ctx, name)
	if err != nil || !said.Deleted {
		return false
	}
	b, err := c.builder.decode(name, said.Definition)
	if err != nil {
		return false
	}
	for _, binding := range b.Plugins {
		if longer := seqd.TraitsOf(binding.Settings).KeptFor; binding.Name == plugged && (longer == 0 || longer > kept) {
			return false
		}
	}
	return true
}
