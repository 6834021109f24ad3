package seqd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// table finds biz types by name while they come and go. Looking one up costs a look into a map that nobody writes to; names that came later wait in a
// second one, until they are many enough to be worth a copy of the first.
//
// A name keeps the entry that it got first, its head, for ever; the head knows which entry stands in its place.
type table struct {
	base atomic.Pointer[map[string]*entry]

	mu    sync.RWMutex // guards what follows, and replacing base
	added map[string]*entry
}

// find returns the head of a name, nil when there is none.
func (t *table) find(name string) *entry {
	if e := (*t.base.Load())[name]; e != nil {
		return e
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if e := t.added[name]; e != nil {
		return e
	}
	return (*t.base.Load())[name] // added may have moved there just now
}

// fewAdded is how many names may wait in added whatever the size of base.
const fewAdded = 64

// head returns the head of a name, which is made where there is none.
func (t *table) head(name string) *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	base := *t.base.Load()
	e := base[name]
	if e == nil {
		e = t.added[name]
	}
	if e != nil {
		return e
	}
	e = &entry{gone: unknown(name)}
	if t.added == nil {
		t.added = make(map[string]*entry)
	}
	if t.added[name] = e; len(t.added) > fewAdded+len(base)/4 {
		grown := maps.Clone(base)
		maps.Copy(grown, t.added)
		t.base.Store(&grown)
		t.added = nil
	}
	return e
}

// heads returns all heads by name.
func (t *table) heads() map[string]*entry {
	t.mu.RLock()
	defer t.mu.RUnlock()
	base := *t.base.Load()
	if len(t.added) == 0 {
		return base
	}
	all := maps.Clone(base)
	maps.Copy(all, t.added)
	return all
}

// standing returns the entries that stand for their names now, but for those that are being changed.
func (is *Issuer) standing() map[string]*entry {
	heads := is.names.heads()
	all := make(map[string]*entry, len(heads))
	for name, head := range heads {
		if e := head.newest(); e.held == nil {
			all[name] = e
		}
	}
	return all
}

// current returns those of standing that can issue, or could once they are ready.
func (is *Issuer) current() map[string]*entry {
	all := is.standing()
	maps.DeleteFunc(all, func(_ string, e *entry) bool { return e.gone != nil })
	return all
}

// changes counts the changes under way, so that Close can wait for them.
type changes struct {
	mu    sync.Mutex // guards ended
	ended bool
	work  sync.WaitGroup // added to under mu and before ended
}

// begin reports whether a change may begin; done ends it.
func (c *changes) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.work.Add(1)
	}
	return !c.ended
}

func (c *changes) done() { c.work.Done() }

// over reports whether end was called.
func (c *changes) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// end keeps further changes from beginning, and waits for those under way until ctx ends.
func (c *changes) end(ctx context.Context) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { c.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// newest returns the entry that stands in the place of a head.
func (e *entry) newest() *entry {
	if next := e.next.Load(); next != nil {
		return next
	}
	return e
}

// present returns the entry that stands in the place of a head, after the change under way, or why there is none. Callers come by here whose entry is not
// ready: it may not be yet, or no longer.
func present(ctx context.Context, head *entry) (*entry, error) {
	e := head.newest()
	if e.held != nil {
		patience := time.NewTimer(initWait)
		defer patience.Stop()
		select {
		case <-e.held:
			e = head.newest()
		case <-patience.C:
			return nil, errChanging
		case <-ctx.Done():
			return nil, AsError(ctx.Err())
		}
		if e.held != nil {
			return nil, errChanging // one change after the other
		}
	}
	if e.gone != nil {
		return nil, e.gone
	}
	return e, nil
}

var errChanging = &Error{Code: CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second}

func unknown(name string) *Error { return Errorf(CodeUnknownBizType, "no biz type is called %q", name) }

// Heir is implemented by strategies that take over what an earlier one of the same biz type knew and the store does not, such as the highest number that
// this process has issued.
type Heir interface {
	// Inherit is called once, before Init, when from has been closed. from may be of any type.
	Inherit(from Strategy)
}

// Put adds a biz type, or puts another definition in the place of the one it has, while others go on issuing. Callers who come meanwhile wait for it, and
// those whose numbers had not been made yet get theirs from the new definition. build is called when the strategy and the plugins of before are closed, so
// that it finds free what they had; when it fails, the biz type refuses with that error until the next Put.
//
// Numbers stay unique and keep their order over the change as over a clean stop and a start: none is made by the new strategy before the old one has given
// back what it had left. ctx bounds the closing. An error says that something did not close well; the change counts all the same.
func (is *Issuer) Put(ctx context.Context, name string, build func() (Definition, error)) error {
	return is.change(ctx, name, func(heritage Strategy) *entry {
		e, err := is.build(name, build)
		if err != nil {
			is.log.Error("biz type cannot issue", "bizType", name, "error", err)
			return &entry{gone: AsError(err), heritage: heritage}
		}
		if heir, ok := e.Strategy.(Heir); ok && heritage != nil {
			heir.Inherit(heritage)
		}
		return e
	})
}

// build makes the entry of a definition that is still to be built.
func (is *Issuer) build(name string, build func() (Definition, error)) (e *entry, err error) {
	defer recoverFrom(CodeInternal, "biz type", name, &err)
	d, err := build()
	if err != nil {
		return nil, err
	}
	if d.BizType.Name != name {
		return nil, fmt.Errorf("biz type %s is called %s", name, d.BizType.Name)
	}
	return is.newEntry(d)
}

// Remove ends a biz type as [Issuer.Put] does. From then on callers get why, or that there is no such biz type when it is nil.
func (is *Issuer) Remove(ctx context.Context, name string, why *Error) error {
	if why == nil {
		why = unknown(name)
	}
	return is.change(ctx, name, func(heritage Strategy) *entry { return &entry{gone: why, heritage: heritage} })
}

// change closes what stands in the place of a name, and puts there what next returns, which gets the last strategy that the name had.
func (is *Issuer) change(ctx context.Context, name string, next func(heritage Strategy) *entry) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !is.changes.begin() {
		return errStopping
	}
	defer is.changes.done()
	head := is.names.head(name)
	head.turn.Lock()
	defer head.turn.Unlock()
	before := head.newest()
	held := &entry{held: make(chan struct{})}
	head.next.Store(held)
	before.stop()
	err := before.close(ctx)
	heritage := before.heritage
	if before.Strategy != nil {
		heritage = before.Strategy
	}
	after := &entry{gone: errStopping}
	if !is.changes.over() {
		after = next(heritage)
	}
	head.next.Store(after)
	close(held.held)
	if is.changes.over() { // Close may not have waited for it
		after.stop()
		err = errors.Join(err, after.close(ctx))
	}
	if err != nil {
		return fmt.Errorf("close biz type %s: %w", name, err)
	}
	return nil
}
