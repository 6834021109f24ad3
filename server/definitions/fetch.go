package definitions

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
)

// A change reaches a biz type that is held because its document is read again after each
// announcement. One that is not held needs no announcement: a fetch reads what the store says. A
// document can also be written just after a fetch has read it. If its announcement is followed
// after the fetch, the biz type is held by then: both need the turn of the name. If it was followed
// before, the next poll reads the document again, because it came less than [feed.WatchFor] ago. If
// this process has missed announcements, [Catalogue.reload] lets the fetch read again.

var _ issuer.Source = (*Catalogue)(nil)

// Fetch implements [issuer.Source]: it reads the definition of a biz type, and puts it into the
// issuer.
func (c *Catalogue) Fetch(ctx context.Context, name string) error {
	if c.locked || c.absent.has(name, c.states.now()) {
		return noBizType(name)
	}
	if known, held := c.states.get(name); held && known.deleted {
		return noBizType(name) // this process follows it
	}
	there, err := c.look(ctx, name, true)
	if err != nil {
		return storeError(err)
	}
	c.makeRoom()
	if !there {
		return noBizType(name)
	}
	return nil
}

// look does what the store says of a biz type, and reports whether there is one. If the biz type is
// not held, look does nothing, unless it is needed.
func (c *Catalogue) look(ctx context.Context, name string, needed bool) (there bool, err error) {
	defer c.turns.take(name)()
	c.absent.remove(name)
	before, held := c.states.get(name)
	if !held && !needed {
		return false, nil
	}
	for {
		reloads := c.reloads.Load()
		doc, err := c.records.documents.Read(ctx, kind, name)
		switch {
		case errors.Is(err, persist.ErrNotFound):
			if !held {
				c.absent.add(name, c.states.now())
			}
			return held && !before.deleted, nil
		case err != nil:
			return false, err
		}
		c.apply(ctx, doc)
		if c.reloads.Load() == reloads { // a later reload finds it among those that are held
			after, _ := c.states.get(name)
			return !after.deleted, nil
		}
	}
}

// learn makes this process hold a biz type, and do what the store says of it. doc is what the
// caller has read or written. It may be older than what this process has dropped since, so the
// document is read again unless the biz type is held.
func (c *Catalogue) learn(ctx context.Context, doc persist.Document) {
	if c.followHeld(ctx, doc) {
		return
	}
	if _, err := c.look(ctx, doc.Key, true); err != nil {
		c.log.Warn("a biz type was changed, and cannot be read yet; it will be when it is needed",
			"bizType", doc.Key, "error", err)
	}
}

// followHeld is follow for a biz type that is held; otherwise it returns false.
func (c *Catalogue) followHeld(ctx context.Context, doc persist.Document) (held bool) {
	defer c.turns.take(doc.Key)()
	if _, held = c.states.get(doc.Key); held {
		c.apply(ctx, doc)
	}
	return held
}

const (
	// mostAbsent is how many names are known not to exist.
	mostAbsent = 10_000
	// absentFor is how long a name is known not to exist. A node learns of a new biz type as it
	// learns of a change. This is for a node that cannot.
	absentFor = 5 * time.Second
)

// absent are names that the store had no biz type for, so that callers who ask for one again and
// again cost the store little. It is safe for concurrent use.
type absent struct {
	mu    sync.Mutex // guards until
	until map[string]time.Time
}

func (a *absent) has(name string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[name]
	return ok && now.Before(until)
}

func (a *absent) add(name string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil || len(a.until) >= mostAbsent {
		a.until = make(map[string]time.Time)
	}
	a.until[name] = now.Add(absentFor)
}

func (a *absent) remove(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, name)
}

func (a *absent) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = nil
}
