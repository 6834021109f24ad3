package strategy

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

// Claim keeps the shape of a biz type in a store, beside its numbers (invariant U6). It refuses a
// definition that would make numbers in another shape than those that were issued, and lets a
// strategy notice that its counter was lost. Programs that embed an issuer get one from
// [NewClaim]. It is safe for concurrent use.
type Claim struct {
	Shapes persist.Shapes
	Now    func() time.Time
	// BizType is the name, and Shape what its IDs look like: that of the strategy, and after it
	// name(shape) of each plugin that changes how numbers are shown, in the order in which they
	// run.
	BizType, Shape string
	// Keeper is the strategy, nil if it keeps no copy of the shape.
	Keeper ShapeKeeper
	// Reopener is the strategy, nil if it closes no periods.
	Reopener Reopener
	// Since is when the shape on record replaced another one, in ms since the Unix epoch; 0 if it
	// replaced none, or if that is not known yet. If it is nil, nobody looks for answers of that
	// time.
	Since *atomic.Int64
	// Clock is that of the store. If it is nil, Now alone says when the shape changed, and for how
	// long answers of that time are looked for.
	Clock *storeclock.Clock
}

var _ seqd.Claim = Claim{}

// AnswersLast is for how long an answer may be kept: the largest idempotency.ttl, whatever it is
// now, and a day for clocks that differ.
const AnswersLast = (168 + 24) * time.Hour

// Reshaped implements [seqd.Claim].
func (c Claim) Reshaped() bool {
	if c.Since == nil {
		return false
	}
	since := c.Since.Load()
	return since != 0 && !sabotage.Off(sabotage.Recall) && c.earliest().Before(time.UnixMilli(since).Add(AnswersLast))
}

// A change is noted with the later, and looked at with the earlier, of the times of this node and
// of the store, as answers are: so one wrong clock ends the search for no answer early.

// earliest returns the earlier of the two times. It asks no store.
func (c Claim) earliest() time.Time { return c.Now().Add(-max(0, c.offset())) }

// Latest returns the later of the two times. It asks the store if that has never succeeded.
func (c Claim) Latest(ctx context.Context) (time.Time, error) {
	err := c.ask(ctx)
	return c.Now().Add(-min(0, c.offset())), err
}

// ask makes the store's time known.
func (c Claim) ask(ctx context.Context) error {
	if c.Clock == nil {
		return nil
	}
	_, err := c.Clock.Now(ctx)
	return unavailable(err)
}

// offset returns how far the clock of this node is ahead of the store's, 0 if that is not known.
func (c Claim) offset() time.Duration {
	if c.Clock != nil {
		if offset, ok := c.Clock.Known(); ok {
			return offset
		}
	}
	return 0
}

// NewClaim returns the claim of a biz type that s issues, in the store of env. The strategy of the
// biz type must be registered. plugins are texts, one for each plugin of the definition that
// changes how numbers are shown, in the order in which they run. A text has the form name(shape),
// and changes with every setting of the plugin that could show two numbers alike.
func NewClaim(env Env, bizType seqd.BizType, s seqd.Strategy, plugins ...string) (Claim, error) {
	factory, err := Lookup(bizType.Strategy)
	if err != nil {
		return Claim{}, err
	}
	shape := factory.Shape(bizType)
	for _, text := range plugins {
		shape += " " + text
	}
	c := Claim{Shapes: persist.ShapesIn(env.Store.Documents()), Now: env.Now, BizType: bizType.Name, Shape: shape, Since: new(atomic.Int64), Clock: env.Clock}
	c.Keeper, _ = s.(ShapeKeeper)
	c.Reopener, _ = s.(Reopener)
	return c, nil
}

// Check implements [seqd.Claim]. A conflict wraps an [OtherShape].
func (c Claim) Check(ctx context.Context) (fresh bool, err error) {
	known, err := c.Shapes.Read(ctx, c.BizType)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return true, nil
	case err != nil:
		return false, unavailable(err)
	case known.Shape != c.Shape:
		c.Remember("")
		return false, &seqd.Error{
			Code: seqd.CodeConflict,
			Detail: c.BizType + " has issued numbers in another shape than the configuration now says, " +
				"which could repeat them: use a new name, or put it back",
			Err: &OtherShape{known, c.Shape}, // only in the log: it may contain something of a key
		}
	}
	if known.Revision > 1 {
		if err := c.ask(ctx); err != nil {
			return false, err
		}
	}
	c.Agreed(known)
	return false, nil
}

// OtherShape is why a biz type is refused: the store has another shape of its numbers on record.
type OtherShape struct {
	Known persist.Shape
	Said  string
}

// Error implements error.
func (e *OtherShape) Error() string {
	return fmt.Sprintf("the store has %q, the configuration says %q", e.Known.Shape, e.Said)
}

// Record implements [seqd.Claim]. A conflict wraps an [OtherShape].
func (c Claim) Record(ctx context.Context) error {
	err := c.Shapes.Create(ctx, c.BizType, c.Shape, c.Now())
	if errors.Is(err, persist.ErrExists) {
		return c.Seen(ctx) // another node was first; it must have recorded the same
	}
	if err == nil {
		c.Remember(c.Shape)
	}
	return unavailable(err)
}

// Seen returns nil if the shape on record can be read and is the same.
func (c Claim) Seen(ctx context.Context) error {
	fresh, err := c.Check(ctx)
	if err == nil && fresh {
		err = unavailable(errUnseenShape)
	}
	return err
}

// errUnseenShape is why a shape that exists does not count as agreed on. The read came from a
// server that does not have it yet, or it is gone again.
var errUnseenShape = errors.New("another node has recorded a shape, which cannot be read yet")

// Agreed notes that the shape on record is that of the claim.
func (c Claim) Agreed(known persist.Shape) {
	if known.Revision > 1 && c.Since != nil {
		c.Since.Store(known.Timestamp)
	}
	c.Remember(known.Shape)
}

// Remember tells the strategy which shape is on record.
func (c Claim) Remember(shape string) {
	if c.Keeper != nil {
		c.Keeper.OnRecord(shape)
	}
}

// unavailable is the error for a store that cannot be asked, nil for nil.
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &seqd.Error{
		Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err,
	}
}
