package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// counters keeps each counter as one document.
type counters struct {
	repository[persist.Counter, storedCounter]
	now    func() time.Time
	epochs *persist.Epochs
}

var _ persist.Counters = (*counters)(nil)

// between selects documents whose field is a number from least to most.
func between(field string, least, most int64) bson.E {
	return bson.E{Key: field, Value: bson.D{{Key: "$gte", Value: least}, {Key: "$lte", Value: most}}}
}

// rounds is how often an operation tries again that other nodes interfere with.
const rounds = 10

// Allocate implements [persist.Counters] by one findAndModify, which MongoDB executes atomically
// (invariant U1). Its filter holds the conditions on the counter, so the common case is one round
// trip. If nothing matches, the counter is read to see why, and a maximum below the floor is raised
// first. Raising and taking are two steps. That is safe: only a give-back lowers a maximum, and
// then the filter fails again. The read decides only which error is returned, because a new primary
// may return an older state.
func (c *counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if err := req.Validate(); err != nil {
		return persist.Range{}, err
	}
	if sabotage.Off(sabotage.RangeOnce) {
		return c.readThenWrite(ctx, req)
	}
	for range rounds {
		r, err := c.take(ctx, req)
		if !errors.Is(err, persist.ErrNotFound) {
			return r, err
		}
		stored, err := c.Read(ctx, req.BizTag)
		if err != nil {
			return persist.Range{}, err
		}
		if _, _, err := stored.Allocated(req, 0); err != nil {
			return persist.Range{}, err
		}
		if err := c.raise(ctx, req); err != nil {
			return persist.Range{}, err
		}
	}
	return persist.Range{}, c.orShut(ctx, fmt.Errorf("%q: %w: the counter changes too often", req.BizTag, persist.ErrUnavailable))
}

// take allocates above the present maximum. It returns ErrNotFound if that is below the floor or
// too near the end.
func (c *counters) take(ctx context.Context, req persist.Request) (persist.Range, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return persist.Range{}, err
	}
	filter := append(believing(req), between("max", req.Floor, persist.MaxNumber-req.Size))
	change := bson.D{{Key: "$inc", Value: bson.D{{Key: "max", Value: req.Size}}}}
	var set bson.D
	if req.Step > 0 {
		set = bson.D{{Key: "step", Value: req.Step}, {Key: "timestamp", Value: c.now().UnixMilli()}}
	}
	if !req.To.Keeps() {
		set = append(set, bson.E{Key: "epoch", Value: req.To.Epoch()})
	}
	if set != nil {
		change = append(change, bson.E{Key: "$set", Value: set})
	}
	var d storedCounter
	err = c.collection.FindOneAndUpdate(ctx, filter, change, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&d)
	if err != nil {
		return persist.Range{}, about(req.BizTag, translate(err))
	}
	after, err := d.model()
	if err != nil {
		return persist.Range{}, err
	}
	r := persist.Range{First: after.Max - req.Size + 1, Last: after.Max}
	if req.Size == 0 {
		return r, nil
	}
	return r, r.Validate()
}

// readThenWrite allocates in two steps, between which another node may do the same. Allocate must
// never do that: only a sabotaged build for tests calls it.
func (c *counters) readThenWrite(ctx context.Context, req persist.Request) (persist.Range, error) {
	stored, err := c.Read(ctx, req.BizTag)
	if err != nil {
		return persist.Range{}, err
	}
	next, r, err := stored.Allocated(req, c.now().UnixMilli())
	if err != nil {
		return persist.Range{}, err
	}
	time.Sleep(50 * time.Millisecond)
	change := bson.D{{Key: "max", Value: next.Max}, {Key: "epoch", Value: next.Epoch}, {Key: "step", Value: next.Step}, {Key: "timestamp", Value: next.Timestamp}}
	_, err = c.collection.UpdateOne(ctx, known(req.BizTag), bson.D{{Key: "$set", Value: change}})
	return r, err
}

// believing selects the counter of a request, if it has the epoch that the request needs.
func believing(req persist.Request) bson.D {
	filter := known(req.BizTag)
	switch epoch, ok := req.To.Needs(); {
	case !ok || sabotage.Off(sabotage.EpochHeld):
		return filter
	case epoch == "": // records of the first versions lack the field, which null selects
		return append(filter, bson.E{Key: "epoch", Value: bson.D{{Key: "$in", Value: bson.A{"", nil}}}})
	default:
		return append(filter, bson.E{Key: "epoch", Value: epoch})
	}
}

// raise sets a maximum that is below the floor to the floor plus the gap. It leaves a field that is
// missing or not a number as it is.
func (c *counters) raise(ctx context.Context, req persist.Request) error {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	to := req.Floor + min(req.Gap, persist.MaxNumber-req.Floor)
	filter := append(believing(req), between("max", 0, req.Floor-1))
	_, err = c.collection.UpdateOne(ctx, filter, bson.D{{Key: "$max", Value: bson.D{{Key: "max", Value: to}}}})
	return about(req.BizTag, translate(err))
}

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	return c.epochs.Read(ctx, bizTag)
}

// GiveBack implements [persist.Counters].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	bounded, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return false, err
	}
	filter := append(known(bizTag), bson.E{Key: "max", Value: r.Last})
	if sabotage.Off(sabotage.GiveBackSwap) {
		filter = known(bizTag)
	}
	result, err := c.collection.UpdateOne(bounded, filter, bson.D{{Key: "$set", Value: bson.D{{Key: "max", Value: r.First - 1}}}})
	if err != nil {
		return false, about(bizTag, translate(err))
	}
	if result.MatchedCount == 0 {
		// a counter that is missing or of another format is an error
		_, err := c.Read(ctx, bizTag)
		return false, err
	}
	return true, nil
}
