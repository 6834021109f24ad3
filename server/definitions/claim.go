package definitions

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// shapes are the shapes on record in the store, and what decides whether one counts.
type shapes struct {
	onRecord persist.Shapes
	// said returns what the store says of a biz type.
	said    func(ctx context.Context, name string) (persist.Document, stored, error)
	sources sources
	// alone reports whether a biz type issues without the store, which has not been reached yet.
	alone func(name string) bool
	env   strategy.Env
	// unfit are the shapes of the biz types that are refused because the store has another one on
	// record, by name.
	unfit sync.Map
	// followed are the Follows of the definitions of this node's own, by name: see [Catalogue.Mend].
	followed sync.Map
}

// read returns the shape that a biz type has on record, "" if it has none.
func (s *shapes) read(ctx context.Context, name string) (string, error) {
	shape, err := shapeOnRecord(ctx, s.onRecord, name)
	return shape, unavailable(err)
}

// shapeOnRecord is [shapes.read] with the error of the store.
func shapeOnRecord(ctx context.Context, shapes persist.Shapes, name string) (string, error) {
	known, err := shapes.Read(ctx, name)
	if errors.Is(err, persist.ErrNotFound) {
		return "", nil
	}
	return known.Shape, err
}

// claim is a claim of a definition, whose shape may be forced.
type claim struct {
	strategy.Claim
	shapes  *shapes
	bizType seqd.BizType
	own     string // the strategy's part of the shape
	forced  string // the shape that was forced upon the definition, "" for none
}

var _ seqd.Claim = claim{}

// Check implements [seqd.Claim].
func (c claim) Check(ctx context.Context) (fresh bool, err error) {
	fresh, err = c.Claim.Check(ctx)
	if like, ok := c.like(err); ok {
		return like.Check(ctx)
	}
	if err == nil && c.forced != "" && c.forced != c.Shape {
		fresh, err = false, c.unlike()
	}
	if mismatch, ok := errors.AsType[*strategy.OtherShape](err); ok && c.forced != c.Shape {
		c.shapes.unfit.Store(c.BizType, mismatch.Said)
	}
	if mismatch, ok := errors.AsType[*strategy.OtherShape](err); ok && c.forced == c.Shape {
		if !c.sameStrategy(mismatch.Known.Shape) {
			if c.Reopener != nil {
				c.Reopener.Reopen()
			}
			// The strategy may have nothing in the store yet. Record comes after it has.
			return true, c.handOver(ctx, mismatch.Known.Shape, c.own)
		}
		return false, c.settle(ctx, mismatch.Known)
	}
	if err == nil && fresh {
		err = c.mayBegin()
	}
	if errors.Is(err, persist.ErrUnavailable) && c.shapes.alone(c.BizType) {
		return false, nil // it has issued in this shape before; Confirm compares it later
	}
	return fresh, err
}

// unlike returns why this node must not issue in the shape on record: another one was forced upon
// the definition, and whichever node makes that puts it on record. This node would go on beside it.
func (c claim) unlike() error {
	c.Remember("")
	return &seqd.Error{
		Code: seqd.CodeConflict,
		Detail: c.BizType + " was given another shape by force than the configuration and the files of this node give it: " +
			"make them the same on every node",
		Err: &strategy.OtherShape{Known: persist.Shape{Shape: c.forced}, Said: c.Shape},
	}
}

// mayBegin returns why the biz type must not get its first shape: the definition leaves it open.
func (c claim) mayBegin() error {
	problems := checkNew(c.bizType, "")
	if len(problems) == 0 || c.forced != "" {
		return nil
	}
	return seqd.Errorf(seqd.CodeConflict, "%s has issued nothing yet, and its definition must say more: %s: %s", c.BizType, problems[0].Key, problems[0].Text)
}

// like returns the claim with the shape that the definition has if plugins go on with what is on
// record. ok is false if that makes no difference. err is what the shape on record led to.
func (c claim) like(err error) (like claim, ok bool) {
	mismatch, ok := errors.AsType[*strategy.OtherShape](err)
	if !ok || c.forced != "" {
		return c, false
	}
	shape, err := Shape(c.bizType, mismatch.Known.Shape)
	if err != nil || shape == c.Shape {
		return c, false
	}
	c.Shape = shape
	return c, true
}

// sameStrategy reports whether a shape is of the same strategy, with the same layout or periods.
// The part of a plugin comes after it, as name(…).
func (c claim) sameStrategy(shape string) bool {
	rest, ok := strings.CutPrefix(shape, c.own)
	next, _, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
	return ok && (rest == "" || rest[0] == ' ' && strings.Contains(next, "("))
}

// handOver lets the strategy that made numbers of a shape tell the store where those of another
// shape begin.
func (c claim) handOver(ctx context.Context, from, to string) error {
	before, _, _ := strings.Cut(from, " ")
	now, _, _ := strings.Cut(to, " ")
	factory, err := strategy.Lookup(before)
	if err != nil || before == now || factory.Handover == nil {
		return nil // a strategy that this program does not have made numbers that others do not make
	}
	return factory.Handover(ctx, c.shapes.env, c.BizType)
}

// settle puts a forced shape on record, if it is that of the definition that counts. It is not put
// on record earlier, so of changes that are forced at the same time, the one whose definition
// counts wins.
func (c claim) settle(ctx context.Context, known persist.Shape) error {
	if err := cmp.Or(c.counts(ctx)); err != nil {
		return err
	}
	now, err := c.Latest(ctx)
	if err != nil {
		return err
	}
	next, err := c.shapes.onRecord.Replace(ctx, known, c.Shape, now)
	if errors.Is(err, persist.ErrConflict) {
		return c.overtaken(ctx)
	}
	if err != nil {
		return unavailable(err)
	}
	// It may have been changed back meanwhile, which needs no force. A node with definitions of its
	// own that is not seen here reads the new shape: it says that it is there before it compares
	// shapes.
	switch refused, err := c.counts(ctx); {
	case refused != nil:
		// Another node may have issued in the new shape since it is on record.
		if err := c.handOver(ctx, c.own, known.Shape); err != nil {
			return errors.Join(refused, err)
		}
		_, back := c.shapes.onRecord.Replace(ctx, next, known.Shape, time.UnixMilli(known.Timestamp))
		return errors.Join(refused, back)
	case err != nil:
		return err // other nodes may issue in the new shape, so it stays on record
	}
	c.Agreed(next)
	return nil
}

// counts returns why the forced shape must not be put on record: it is no longer that of the
// definition, or other nodes do not follow definitions. err says that this could not be found out.
func (c claim) counts(ctx context.Context) (refused, err error) {
	_, said, err := c.shapes.said(ctx, c.BizType)
	if err != nil {
		return nil, err
	}
	if said.Shape != c.Shape || said.Deleted {
		return beingChanged(nil), nil
	}
	return c.shapes.sources.settle(ctx, c.BizType)
}

// overtaken returns nil if what another node put on record first is the forced shape too.
func (c claim) overtaken(ctx context.Context) error {
	err := c.Seen(ctx)
	if mismatch, ok := errors.AsType[*strategy.OtherShape](err); ok {
		return beingChanged(mismatch)
	}
	if err != nil {
		return err
	}
	return cmp.Or(c.counts(ctx)) // as at the end of settle
}

func beingChanged(err error) error {
	return &seqd.Error{
		Code: seqd.CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second, Err: err,
	}
}

// Record implements [seqd.Claim].
func (c claim) Record(ctx context.Context) error {
	err := c.Claim.Record(ctx)
	if like, ok := c.like(err); ok {
		return like.Claim.Seen(ctx) // another node was first, in another way
	}
	if mismatch, ok := errors.AsType[*strategy.OtherShape](err); ok && c.forced == c.Shape {
		return c.settle(ctx, mismatch.Known)
	}
	return err
}
