package segment

import (
	"context"
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// mostRaces is how often a node tries again because another node changed the counter
// meanwhile.
const mostRaces = 3

// first takes the first range of a key's counter in this process: the smallest step, because
// nothing is known of the counter. If it exists, that is one call; if not, the call that creates it
// brings the range too. All numbers are above floor. If fresh is false, the counter existed, and is
// not created.
//
// Like fetch, it is not cancelled: a range whose fate is unknown is lost.
func (s *ranges) first(ctx context.Context, fresh bool, floor int64) (persist.Range, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchDeadline)
	defer cancel()
	exists := true
	if !s.env.Store.Shared() { // a read costs little there, and a write in vain as much as any write
		_, err := s.env.Store.Counters().Read(ctx, s.name)
		exists = !isNotFound(err) // or the allocation says what is wrong
	}
	for range mostRaces {
		r, err := s.firstOf(ctx, exists, fresh, floor)
		if exists = isExists(err); !exists && !(isNotFound(err) && fresh) {
			return r, err
		}
	}
	return persist.Range{}, persist.ErrUnavailable
}

// firstOf is one attempt of first, for a counter that exists or that does not.
func (s *ranges) firstOf(ctx context.Context, exists, fresh bool, floor int64) (persist.Range, error) {
	switch {
	case exists:
		return s.firstAllocated(ctx, floor)
	case fresh:
		return s.create(ctx, "", s.settings.Step)
	}
	return persist.Range{}, persist.ErrNotFound
}

// firstAllocated is first for a counter that exists. The step in its record is not known, so the
// store itself makes the failover gap large enough ([persist.Request.FailoverSteps]).
func (s *ranges) firstAllocated(ctx context.Context, floor int64) (persist.Range, error) {
	before := s.lookedAt(ctx)
	req := s.settings.withGaps(persist.Request{BizTag: s.name, Size: s.settings.Step, Floor: floor}, 0)
	r, err := s.env.Store.Counters().Allocate(ctx, req)
	if cursor.IsExhausted(err) {
		return s.allocate(ctx, req.To, 0, floor, cursor.Filling) // what is left
	}
	if err == nil {
		r, err = s.confirm(ctx, r)
	}
	switch {
	case err != nil:
	case before.FailedOver && r.First == s.beginsAt(before, req)+1:
		s.tellGap(before, req, r.First)
	case r.First == floor+req.Gap+1:
		s.tellGap(persist.Counter{Max: floor - 1}, req, r.First)
	}
	return r, err
}

// lookedAt returns the counter as it is before the first allocation, if a failover of the store may
// have to be reported and none of the biz type's keys was read for that in the last second. The
// zero Counter says that nothing is known. No number depends on it.
func (s *ranges) lookedAt(ctx context.Context) persist.Counter {
	if !s.env.Store.Lossy() || !s.part.family.looks() {
		return persist.Counter{}
	}
	counter, err := s.env.Store.Counters().Read(ctx, s.name)
	if err != nil {
		return persist.Counter{} // the allocation says why
	}
	return counter
}

// create creates the counter of a new key, if the biz type may have one more, with the first size
// numbers, or all if there are fewer, taken out of it. It returns ErrExists if there is one.
func (s *ranges) create(ctx context.Context, epoch string, size int64) (persist.Range, error) {
	places := s.part.family.Places(s.part.period)
	place, err := places.Take(ctx, s.part.by)
	if err != nil {
		if _, missing := s.env.Store.Counters().Read(ctx, s.name); missing == nil { // another node has created it
			err = persist.ErrExists
		}
		return persist.Range{}, err
	}
	before := s.settings.Start - 1
	r := persist.Range{First: before + 1, Last: before + min(size, s.last()-before)}
	err = s.env.Store.Counters().Create(ctx, persist.Counter{
		BizTag: s.name, Max: r.Last, Step: s.settings.Step, Timestamp: s.env.Now().UnixMilli(), Epoch: epoch,
	})
	if isExists(err) || errors.Is(err, persist.ErrFailedOver) {
		places.Spare(place)
		return persist.Range{}, err
	}
	if err != nil {
		places.Doubt()
		s.part.family.purger.Doubt() // it may have been created: the next call reads the tombstone
		return persist.Range{}, err
	}
	if err := storeError(s.part.family.purger.CheckAnew(ctx, s.part.period)); err != nil { // the period was purged
		s.unborn(ctx, r, err)
		return persist.Range{}, err
	}
	if size == 0 {
		return persist.Range{}, nil
	}
	return r, nil
}

// unborn abandons a counter that was created although its period may have been purged. If it was,
// the counter is used up, so that another node that does not know of it either gets nothing. It is
// not removed: then others could create it.
func (s *ranges) unborn(ctx context.Context, r persist.Range, why error) {
	if errors.Is(why, counters.ErrPurged) {
		_, _ = s.env.Store.Counters().Allocate(ctx, persist.Request{BizTag: s.name, Floor: s.last(), To: persist.Beside})
	}
	if r.Size() > 0 {
		s.abandon(r, why)
	}
}

// createFor creates the counter of a new key, if a take found none, with what the take wants.
func (s *stored) createFor(ctx context.Context, req persist.Request, none error) (persist.Range, error) {
	if req.Floor >= s.settings.Start {
		return persist.Range{}, none
	}
	r, err := s.create(ctx, persist.StoreEpoch, req.Size)
	if isExists(err) { // another node was faster
		return s.env.Store.Counters().Allocate(ctx, req)
	}
	return r, err
}

// retireBehind is called when the cursor of a key is closed while this node has issued numbers that
// the cursor may be behind. Only this process knows that, and it does not remember every key. So it
// retires the cursor: the next one begins above all that has left the store.
//
// If the store sequences the counter, there is no cursor, and the store's next take begins above
// all of that too. Then the epoch stays: without it the store would have to take over once more.
func (s *shared) retireBehind(ctx context.Context) error {
	k := s.knows()
	if !s.keyed() || !k.behind() {
		return nil
	}
	counters := s.env.Store.Counters()
	for range mostRaces {
		counter, err := counters.Read(ctx, s.name)
		if err != nil {
			return err
		}
		to := persist.Retire(counter.Epoch)
		if counter.Epoch == persist.StoreEpoch {
			if counter.Max >= k.issued {
				return nil
			}
			to = persist.Beside // the store was restored, and is only raised
		}
		req := s.settings.withGaps(persist.Request{BizTag: s.name, Floor: k.issued, To: to}, counter.Step)
		r, err := counters.Allocate(ctx, req)
		if errors.Is(err, persist.ErrEpoch) { // another node has taken over meanwhile
			continue
		}
		if err == nil && r.First == s.beginsAt(counter, req)+1 {
			s.tellGap(counter, req, r.First)
		}
		return err
	}
	return persist.ErrEpoch
}
