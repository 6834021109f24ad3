package seqd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// table finds biz types by name while they come and go. Looking one up costs a look into a map that
// nobody writes to; names that came later wait in a second one, until they are many enough, or
// asked for often enough, to be worth a copy of the first.
//
// A name keeps the entry that it got first, its head, until the biz type was removed; the head
// knows which entry stands in its place.
type table struct {
	base  atomic.Pointer[map[string]*entry]
	dear  atomic.Int64 // how often a name was found in added
	mu    sync.RWMutex // guards what follows, and replacing base
	added map[string]*entry
	gone  int // biz types that were removed since heads were forgotten last
	// legacies are what the next strategies of forgotten names inherit, if that is anything.
	legacies map[string]Strategy
}

// find returns the head of a name, nil when base has none: the common way, short enough to be
// inlined.
func (t *table) find(name string) *entry { return (*t.base.Load())[name] }

// findAdded returns the head of a name that base had not, nil when there is none.
func (t *table) findAdded(name string) *entry {
	t.mu.RLock()
	e, size := t.added[name], len(t.added)+len(*t.base.Load())
	if e == nil {
		e = (*t.base.Load())[name] // added may have moved there just now
	}
	t.mu.RUnlock()
	if e != nil && t.dear.Add(1) > int64(size) {
		t.mu.Lock()
		t.merge()
		t.mu.Unlock()
	}
	return e
}

// merge moves all names to base. mu is held.
func (t *table) merge() {
	if len(t.added) > 0 {
		base := *t.base.Load()
		all := make(map[string]*entry, len(base)+len(t.added))
		maps.Copy(all, base)
		maps.Copy(all, t.added)
		t.base.Store(&all)
		t.added = nil
	}
	t.dear.Store(0)
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
	e = &entry{gone: unknown(name), heritage: t.legacies[name]}
	delete(t.legacies, name)
	if t.added == nil {
		t.added = make(map[string]*entry)
	}
	if t.added[name] = e; len(t.added) > fewAdded+len(base)/4 {
		t.merge()
	}
	return e
}

// lock returns the head of a name, which nobody else changes or forgets until its turn is unlocked.
func (t *table) lock(name string) *entry {
	for {
		head := t.head(name)
		head.turn.Lock()
		if t.head(name) == head {
			return head
		}
		head.turn.Unlock() // it was forgotten meanwhile
	}
}

// forgetShare is the part of all names that may be gone before their heads are forgotten, which
// takes a copy of all names.
const forgetShare = 16

// removed notes that a biz type is gone. When these are many, their heads are forgotten: they hold
// the definition that the biz type had first. Callers who still have a head find in it that there
// is no such biz type.
func (t *table) removed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	base := *t.base.Load()
	if t.gone++; t.gone <= fewAdded+(len(base)+len(t.added))/forgetShare {
		return
	}
	left := make(map[string]*entry)
	for _, heads := range []map[string]*entry{base, t.added} {
		for name, head := range heads {
			if !t.forget(name, head) {
				left[name] = head
			}
		}
	}
	t.base.Store(&left)
	t.added, t.gone = nil, 0
	t.dear.Store(0)
}

// forget reports whether a head can be forgotten, and keeps what the next strategy inherits. mu is
// held.
func (t *table) forget(name string, head *entry) bool {
	if !head.turn.TryLock() {
		return false // it is being changed
	}
	defer head.turn.Unlock()
	e := head.newest()
	if e.gone == nil || e.gone.Code != CodeUnknownBizType {
		return false
	}
	if e.heritage != nil {
		if t.legacies == nil {
			t.legacies = make(map[string]Strategy)
		}
		t.legacies[name] = e.heritage
	}
	return true
}

// all returns all heads by name, in no order.
func (t *table) all() iter.Seq2[string, *entry] {
	t.mu.RLock()
	base, added := *t.base.Load(), maps.Clone(t.added)
	t.mu.RUnlock()
	return func(yield func(string, *entry) bool) {
		for _, heads := range []map[string]*entry{base, added} {
			for name, head := range heads {
				if !yield(name, head) {
					return
				}
			}
		}
	}
}

// current returns the entries that can issue now, or could once they are ready.
func (is *Issuer) current() []*entry {
	return slices.DeleteFunc(is.open(), func(e *entry) bool { return e.gone != nil })
}

// open returns the entries that are to be closed one day: the current ones, and those that are
// disabled, because of their plugins.
func (is *Issuer) open() (entries []*entry) {
	for _, head := range is.names.all() {
		if e := head.newest(); e.held == nil && (e.gone == nil || e.Disabled != nil) {
			entries = append(entries, e)
		}
	}
	return entries
}

// changes counts the changes under way, so that Close can wait for them.
type changes struct {
	ended chan struct{} // closed when no change may begin any more

	mu   sync.Mutex     // guards closing ended
	work sync.WaitGroup // added to under mu and before ended
}

// begin reports whether a change may begin; done ends it.
func (c *changes) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over() {
		return false
	}
	c.work.Add(1)
	return true
}

func (c *changes) done() { c.work.Done() }

// over reports whether end was called.
func (c *changes) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// end keeps further changes from beginning, and waits for those under way until ctx ends.
func (c *changes) end(ctx context.Context) {
	c.mu.Lock()
	if !c.over() {
		close(c.ended)
	}
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

// present returns the entry that stands in the place of a head, after the change under way, or why
// there is none that may issue, with the entry that says so. Callers come by here whose entry is
// not ready: it may not be yet, or no longer.
func (is *Issuer) present(ctx context.Context, head *entry, w *walk) (*entry, error) {
	for {
		e := head.newest()
		switch {
		case e.gone != nil:
			return e, e.gone
		case e.held == nil:
			return e, nil
		}
		patience := w.timer()
		select {
		case <-e.held:
		case <-is.changes.ended:
			return nil, errStopping
		case <-patience.C:
			return nil, errChanging
		case <-ctx.Done():
			patience.Stop()
			return nil, AsError(ctx.Err())
		}
		patience.Stop()
	}
}

var errChanging = &Error{Code: CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second}

func unknown(name string) *Error { return Errorf(CodeUnknownBizType, "no biz type is called %q", name) }

// Heir is implemented by strategies that take over what an earlier one of the same biz type knew
// and the store does not, such as the highest number that this process has issued.
type Heir interface {
	// Inherit is called once, before Init and after the Close of from, which may have given up on
	// something that goes on still. from may be of any type.
	Inherit(from Strategy)
}

// Testator is an [Heir] that can say in little what the next strategy inherits: of a biz type that
// is removed the issuer keeps that instead of the strategy. It keeps any other heir for as long as
// the process lives.
type Testator interface {
	Heir
	// Legacy is called after Close. It returns what the next strategy is given to inherit from,
	// which serves for nothing else; nil if there is nothing to inherit.
	Legacy() Strategy
}

// legacy is what is left of the last strategy of a biz type that was removed.
type legacy struct{ Strategy }

// legacyOf returns what is kept of the last strategy of a biz type that is removed, nil for
// nothing.
func legacyOf(last Strategy) (kept Strategy) {
	defer func() {
		if recover() != nil {
			kept = last
		}
	}()
	switch s := last.(type) {
	case legacy: // it was disabled before
		return s
	case Testator:
		if left := s.Legacy(); left != nil {
			return legacy{left}
		}
	case Heir:
		return last
	}
	return nil
}

// Put adds a biz type, or puts another definition in the place of the one it has, while others go
// on issuing. Callers who come meanwhile wait for it, and those whose numbers had not been made yet
// get theirs from the new definition. build is called when the strategy and the plugins of before
// are closed, so that it finds free what they had; when it fails, the biz type refuses with that
// error until the next Put. The new strategy is initialised in the background.
//
// Numbers stay unique and keep their order over the change as over a clean stop and a start: none
// is made by the new strategy before the old one has given back what it had left. ctx bounds the
// closing. An error says that something did not close well; the change counts all the same. After
// Close it is [CodeStopping], and nothing has changed.
func (is *Issuer) Put(ctx context.Context, name string, build func() (Definition, error)) error {
	err := is.change(ctx, name, (*entry).close, func(_ *entry, heritage Strategy) *entry {
		if is.changes.over() {
			return &entry{gone: errStopping}
		}
		e, err := is.build(name, build, heritage)
		if err == nil {
			return e
		}
		is.log.Error("biz type cannot issue", "bizType", name, "error", err)
		if e != nil {
			_ = e.close(ctx) // its plugins
		}
		return &entry{gone: AsError(err), heritage: heritage}
	})
	is.openSoon()
	return err
}

// build makes the entry of a definition that is still to be built. With an error comes what was
// built and is not wanted.
func (is *Issuer) build(name string, build func() (Definition, error), heritage Strategy) (e *entry, err error) {
	defer recoverFrom(CodeInternal, "biz type", name, &err)
	d, err := build()
	if err != nil {
		return nil, err
	}
	e = is.newEntry(d)
	if d.BizType.Name != name {
		return e, fmt.Errorf("biz type %s is called %s", name, d.BizType.Name)
	}
	if err := d.check(); err != nil {
		return e, err
	}
	heir, ok := d.Strategy.(Heir)
	switch {
	case !ok:
		e.heritage = heritage // for the next one that is an heir
	case heritage != nil:
		if l, ok := heritage.(legacy); ok {
			heritage = l.Strategy
		}
		heir.Inherit(heritage)
	}
	return e, nil
}

// Remove ends a biz type as [Issuer.Put] does. From then on callers get why, or that there is no
// such biz type when it is nil.
func (is *Issuer) Remove(ctx context.Context, name string, why *Error) error {
	if why == nil {
		if _, err := is.lookup(name); CodeOf(err) == CodeUnknownBizType {
			return nil // an entry would be kept for nothing
		}
		why = unknown(name)
	}
	err := is.change(ctx, name, (*entry).close, func(_ *entry, heritage Strategy) *entry {
		return &entry{gone: why, heritage: legacyOf(heritage)}
	})
	if why.Code == CodeUnknownBizType {
		is.names.removed()
	}
	return err
}

// Disable ends issuing as [Issuer.Remove] does, and keeps the plugins, so that [Issuer.Resource]
// goes on to show what they know. From then on callers get why. [Issuer.Put] ends it, and does the
// same with a definition that is Disabled for a biz type whose plugins are to be others.
func (is *Issuer) Disable(ctx context.Context, name string, why *Error) error {
	return is.change(ctx, name, (*entry).rest, func(before *entry, heritage Strategy) *entry {
		disabled := Definition{BizType: BizType{Name: name}, Disabled: why}
		return &entry{Definition: disabled, chain: before.chain, closes: before.closes, gone: why, heritage: legacyOf(heritage)}
	})
}

// change ends what stands in the place of a name, and puts there what next returns, which gets what
// was there and the last strategy that the name had.
func (is *Issuer) change(
	ctx context.Context, name string, end func(before *entry, ctx context.Context) error, next func(before *entry, heritage Strategy) *entry,
) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !is.changes.begin() {
		return errStopping
	}
	defer is.changes.done()
	head := is.names.lock(name)
	defer head.turn.Unlock()
	before := head.newest()
	held := &entry{held: make(chan struct{}), since: time.Now().UnixNano()}
	head.next.Store(held)
	before.stop()
	err := end(before, ctx)
	heritage := before.heritage
	if _, heir := before.Strategy.(Heir); heir || heritage == nil {
		heritage = before.Strategy
	}
	after := next(before, heritage)
	if is.changes.over() {
		after.gone = errStopping
	}
	if is.settle(head, after) {
		err = errors.Join(err, after.close(ctx))
	}
	close(held.held)
	if err != nil {
		return fmt.Errorf("close biz type %s: %w", name, err)
	}
	return nil
}

// settle puts an entry in the place of a head. late is true when Close has not waited for that;
// then the entry is stopped.
func (is *Issuer) settle(head, e *entry) (late bool) {
	is.changes.mu.Lock()
	defer is.changes.mu.Unlock()
	if late = is.changes.over(); late {
		e.stop()
	}
	head.next.Store(e)
	return late
}

// opener is who initialises in the background what was put.
type opener struct {
	mu      sync.Mutex // guards what follows
	running bool
	again   bool // something was put since the last look
}

// openSoon has what was put initialised in the background, until Close.
func (is *Issuer) openSoon() {
	o := &is.opener
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.again = true; o.running {
		return
	}
	o.running = true
	go func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-is.changes.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
		for o.more() {
			is.Init(ctx)
		}
	}()
}

// more reports whether there may be something to initialise; otherwise the next openSoon begins
// anew.
func (o *opener) more() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running, o.again = o.again, false
	return o.running
}
