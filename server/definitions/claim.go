package definitions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// shapes are the shapes on record in the store, and what decides whether one counts.
type shapes struct {
	onRecord persist.Shapes
	now      func() time.Time
	// said returns what the store says of a biz type.
	said    func(ctx context.Context, name string) (persist.Document, stored, error)
	sources sources
	// alone reports whether a biz type issues without the store, which has not been reached yet.
	alone func(name string) bool
	env   strategy.Env
}

// claim keeps the shape of a biz type in the store (invariant U6).
type claim struct {
	shapes      *shapes
	name, shape string
	own         string               // the strategy's part of the shape
	forced      string               // the shape that was forced upon the definition, "" for none
	keeper      strategy.ShapeKeeper // nil if the strategy is none
}

var _ seqd.Claim = claim{}

// Check implements [seqd.Claim].
func (c claim) Check(ctx context.Context) (fresh bool, err error) {
	fresh, err = c.compare(ctx)
	if mismatch, ok := errors.AsType[*otherShape](err); ok && c.forced == c.shape {
		if !c.sameStrategy(mismatch.known.Shape) {
			// The strategy may have nothing in the store yet. Record comes after it has.
			return true, c.handOver(ctx, mismatch.known.Shape)
		}
		return false, c.settle(ctx, mismatch.known)
	}
	if errors.Is(err, persist.ErrUnavailable) && c.shapes.alone(c.name) {
		return false, nil // it has issued in this shape before; Confirm compares it later
	}
	return fresh, err
}

// compare returns fresh = true if there is no shape on record, and a conflict if it is another one.
func (c claim) compare(ctx context.Context) (fresh bool, err error) {
	known, err := c.shapes.onRecord.Read(ctx, c.name)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return true, nil
	case err != nil:
		return false, unavailable(err)
	case known.Shape != c.shape:
		c.remember("")
		return false, &seqd.Error{
			Code: seqd.CodeConflict,
			Detail: c.name + " has issued numbers in another shape than the configuration now says, " +
				"which could repeat them: use a new name, or put it back",
			Err: &otherShape{known, c.shape}, // only in the log: it may contain something of a key
		}
	}
	c.remember(c.shape)
	return false, nil
}

// otherShape is why a biz type is refused: the store has another shape of its numbers on record.
type otherShape struct {
	known persist.Shape
	said  string
}

// Error implements error.
func (e *otherShape) Error() string {
	return fmt.Sprintf("the store has %q, the configuration says %q", e.known.Shape, e.said)
}

// sameStrategy reports whether a shape is of the same strategy, with the same layout or periods.
// The part of a plugin comes after it, as name(…).
func (c claim) sameStrategy(shape string) bool {
	rest, ok := strings.CutPrefix(shape, c.own)
	next, _, _ := strings.Cut(strings.TrimPrefix(rest, " "), " ")
	return ok && (rest == "" || rest[0] == ' ' && strings.Contains(next, "("))
}

// handOver lets the previous strategy, which made numbers of a shape, tell the store where others
// begin.
func (c claim) handOver(ctx context.Context, shape string) error {
	before, _, _ := strings.Cut(shape, " ")
	now, _, _ := strings.Cut(c.own, " ")
	factory, err := strategy.Lookup(before)
	if err != nil || before == now || factory.Handover == nil {
		return nil // a strategy that this program does not have made numbers that others do not make
	}
	return factory.Handover(ctx, c.shapes.env, c.name)
}

// settle puts a forced shape on record, if it is that of the definition that counts. It is not put
// on record earlier, so of changes that are forced at the same time, the one whose definition
// counts wins.
func (c claim) settle(ctx context.Context, known persist.Shape) error {
	if err := c.counts(ctx); err != nil {
		return err
	}
	next, err := c.shapes.onRecord.Replace(ctx, known, c.shape, c.shapes.now())
	if errors.Is(err, persist.ErrConflict) {
		return c.overtaken(ctx)
	}
	if err != nil {
		return unavailable(err)
	}
	// It may have been changed back meanwhile, which needs no force. A node with definitions of its own
	// that is not seen here reads the new shape: it says that it is there before it compares shapes.
	if err := c.counts(ctx); err != nil {
		_, back := c.shapes.onRecord.Replace(ctx, next, known.Shape, time.UnixMilli(known.Timestamp))
		return errors.Join(err, back)
	}
	c.remember(c.shape)
	return nil
}

// counts returns why the forced shape must not be put on record: it is no longer that of the
// definition, or other nodes do not follow definitions.
func (c claim) counts(ctx context.Context) error {
	_, said, err := c.shapes.said(ctx, c.name)
	if err == nil && (said.Shape != c.shape || said.Deleted) {
		err = beingChanged(nil)
	}
	if err != nil {
		return err
	}
	return c.shapes.sources.settle(ctx, c.name)
}

// overtaken returns nil if what another node put on record first is the forced shape too.
func (c claim) overtaken(ctx context.Context) error {
	err := c.seen(ctx)
	if mismatch, ok := errors.AsType[*otherShape](err); ok {
		return beingChanged(mismatch)
	}
	if err != nil {
		return err
	}
	return c.counts(ctx) // as at the end of settle
}

func beingChanged(err error) error {
	return &seqd.Error{
		Code: seqd.CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second, Err: err,
	}
}

// Record implements [seqd.Claim].
func (c claim) Record(ctx context.Context) error {
	err := c.create(ctx)
	if mismatch, ok := errors.AsType[*otherShape](err); ok && c.forced == c.shape {
		return c.settle(ctx, mismatch.known)
	}
	return err
}

// create puts the shape on record.
func (c claim) create(ctx context.Context) error {
	err := c.shapes.onRecord.Create(ctx, c.name, c.shape, c.shapes.now())
	if errors.Is(err, persist.ErrExists) {
		return c.seen(ctx) // another node was first; it must have recorded the same
	}
	if err == nil {
		c.remember(c.shape)
	}
	return unavailable(err)
}

// seen returns nil if what another node has recorded can be read and is the same shape.
func (c claim) seen(ctx context.Context) error {
	fresh, err := c.compare(ctx)
	if err == nil && fresh {
		err = unavailable(errUnseenShape)
	}
	return err
}

// errUnseenShape is why a shape that exists does not count as agreed on. The read came from a
// server that does not have it yet, or it is gone again.
var errUnseenShape = errors.New("another node has recorded a shape, which cannot be read yet")

// remember tells the strategy which shape is on record.
func (c claim) remember(shape string) {
	if c.keeper != nil {
		c.keeper.OnRecord(shape)
	}
}
