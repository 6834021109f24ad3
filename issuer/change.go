package issuer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

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

// settled returns the seat of a name and what it holds, after the change under way, and why nothing
// may issue, if so. A biz type that the issuer does not hold is fetched first. s is nil if there is
// none.
func (is *Issuer) settled(ctx context.Context, name string, w *waits) (s *seat, c seatState, err error) {
	for {
		if s = is.names.find(name); s != nil {
			c = s.look()
		}
		switch {
		case s == nil || c.kind == vacant || c.kind == dropped:
			if err := is.fetch(ctx, name, w); err != nil {
				return nil, seatState{}, err
			}
		case c.kind == serving:
			return s, c, nil
		case c.kind == refusing:
			return s, c, c.why
		default:
			if err := is.wait(ctx, c.change, w); err != nil {
				return s, c, err
			}
		}
	}
}

// wait waits until a change has ended, or as long as requests do.
func (is *Issuer) wait(ctx context.Context, c *change, w *waits) error {
	tooLong := w.timer()
	select {
	case <-c.ended:
		return nil
	case <-is.changes.ended:
		return errStopping
	case <-tooLong:
		return errChanging
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

var errChanging = &seqd.Error{Code: seqd.CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second}

func unknown(name string) *seqd.Error {
	return seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
}

// Put adds a biz type or replaces its definition, while all others continue to issue. Callers that
// come meanwhile wait for it, and those whose numbers had not been made yet get theirs from the new
// definition. build is called when the previous strategy and plugins are closed, so that it finds
// free what they held. If it fails, the biz type refuses with that error until the next Put. The
// new strategy is initialised in the background.
//
// Numbers stay unique and keep their order over the change as over a clean stop and a start: the
// new strategy makes none before the old one has given back what it had left. ctx bounds the
// closing. An error says that something did not close well; the change counts all the same. After
// Close it is [seqd.CodeStopping], and nothing has changed.
func (is *Issuer) Put(ctx context.Context, name string, build func() (Definition, error)) error {
	var next *instance
	err := is.change(ctx, name, (*instance).close, func(_ *instance, known knowledge) (seatState, knowledge) {
		if is.changes.over() {
			return refusingState(errStopping, nil), nil
		}
		after, left, err := is.build(name, build, known)
		if err == nil {
			if after.kind == serving {
				next = after.instance
			}
			return after, left
		}
		is.log.Error("biz type cannot issue", "bizType", name, "error", err)
		if after.instance != nil {
			_ = after.instance.close(ctx) // its plugins
		}
		return refusingState(seqd.AsError(err), nil), known
	})
	if next != nil {
		is.openSoon(next)
	}
	return err
}

// build makes what a seat holds from a definition that is still to be built, and lets its strategy
// learn. With an error comes what was built and is not wanted.
func (is *Issuer) build(name string, build func() (Definition, error), known knowledge) (c seatState, left knowledge, err error) {
	defer recoverFrom(seqd.CodeInternal, "biz type", name, &err)
	d, err := build()
	if err != nil {
		return c, nil, err
	}
	c = is.stateOf(d)
	if c.instance != nil {
		c.instance.late = true
	}
	if d.BizType.Name != name {
		return c, nil, fmt.Errorf("biz type %s is called %s", name, d.BizType.Name)
	}
	if err := d.check(); err != nil {
		return c, nil, err
	}
	return c, known.teach(c.instance), nil
}

// Remove removes a biz type, as [Issuer.Put] replaces one. From then on callers get why, or that
// there is no such biz type if why is nil.
func (is *Issuer) Remove(ctx context.Context, name string, why *seqd.Error) error {
	gone := why == nil || why.Code == seqd.CodeUnknownBizType
	if gone && seqd.CheckName(name) == nil && !is.Holds(name) {
		return nil
	}
	return is.change(ctx, name, (*instance).close, func(_ *instance, known knowledge) (seatState, knowledge) {
		if gone {
			return seatState{}, known.condense()
		}
		return refusingState(why, nil), known.condense()
	})
}

// Disable ends issuing as [Issuer.Remove] does, and keeps the plugins, so that [Issuer.Resource]
// still shows what they know. From then on callers get why. [Issuer.Put] ends this. To disable a
// biz type with other plugins, use Put with a definition that is Disabled.
func (is *Issuer) Disable(ctx context.Context, name string, why *seqd.Error) error {
	return is.change(ctx, name, (*instance).closeForRest, func(before *instance, known knowledge) (seatState, knowledge) {
		if before == nil {
			before = &instance{name: name}
		}
		return refusingState(why, before.atRest()), known.condense()
	})
}

// change begins a change of a name, ends the instance in its seat, and settles the seat with what
// next returns: the state, and what a later strategy learns.
func (is *Issuer) change(
	ctx context.Context, name string,
	end func(before *instance, ctx context.Context) error,
	next func(before *instance, known knowledge) (seatState, knowledge),
) error {
	if err := seqd.CheckName(name); err != nil {
		return err
	}
	if !is.changes.begin() {
		return errStopping
	}
	defer is.changes.done()
	s, c := is.names.beginChange(name)
	return is.replace(ctx, name, s, c, end, next)
}

// replace is change for a caller who has begun the change.
func (is *Issuer) replace(
	ctx context.Context, name string, s *seat, c *change,
	end func(before *instance, ctx context.Context) error,
	next func(before *instance, known knowledge) (seatState, knowledge),
) (err error) {
	before := c.before.instance
	if before != nil {
		before.stop() // after beginChange: a call that it turns away finds the seat changing
		err = end(before, ctx)
	}
	after, left := next(before, knowledgeAfter(before, c.record.known))
	c.record.known = left
	if err = errors.Join(err, is.finish(ctx, name, s, c, after)); err != nil {
		return fmt.Errorf("close biz type %s: %w", name, err)
	}
	return nil
}

// finish settles a seat, and closes what Close did not wait for.
func (is *Issuer) finish(ctx context.Context, name string, s *seat, c *change, after seatState) error {
	if unwanted := is.settle(name, s, c, after); unwanted != nil {
		return unwanted.close(ctx)
	}
	return nil
}

// settle ends a change of a seat. If Close did not wait for that, the seat refuses, and what it was
// to hold is stopped and returned to be closed.
func (is *Issuer) settle(name string, s *seat, c *change, after seatState) (unwanted *instance) {
	is.changes.mu.Lock()
	defer is.changes.mu.Unlock()
	if is.changes.over() {
		if unwanted = after.instance; unwanted != nil {
			unwanted.stop()
		}
		after = refusingState(errStopping, nil)
	}
	if after.kind == vacant && is.names.drop(name, s, c.record.known) {
		after.kind, c.record.known = dropped, nil
	}
	s.settle(c, after)
	return unwanted
}
