package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// The counters of periods that are over are removed after PeriodRetention. What stays is one
// tombstone for a biz type, a counter whose maximum is the highest period that was removed, so that
// no node whose clock was set back begins such a period again. It is raised before anything is
// removed.

const (
	// purgeSkew is how far the node's clock may be from that of the store for it to remove
	// anything: one that is far ahead would take the present for past.
	purgeSkew = time.Hour
	// purgeDelay is for how long a node must have found the present period to be present before it
	// removes past ones: a clock that was ahead for a moment removes nothing, also where the store
	// has no other clock.
	purgeDelay = time.Hour
	// purgePage is how many counters are read at a time.
	purgePage = 100
)

func isNotFound(err error) bool { return errors.Is(err, persist.ErrNotFound) }

func isExists(err error) bool { return errors.Is(err, persist.ErrExists) }

// tombstone is the name of the counter that says up to which period all are gone.
func (s *Periodic) tombstone() string { return s.bizType.Name + "@" }

// checkPurged refuses a period whose counter was removed.
func (s *Periodic) checkPurged(ctx context.Context, p seqd.Period) error {
	gone, err := s.env.Store.Counters().Read(ctx, s.tombstone())
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return refusal(err)
	case !s.isGone(p, seqd.Period(gone.Max)):
		return nil
	}
	return &seqd.Error{
		Code:       seqd.CodeClockRollback,
		Detail:     "the clock says that it is " + p.String() + ", and what was known of " + seqd.Period(gone.Max).String() + " and before was removed after periodRetention",
		RetryAfter: time.Minute,
		Err:        errPurged,
	}
}

// isGone reports whether a period is at or below a tombstone. That can be of another length, from
// before a change of reset: the month, say, in which a day lies has a counter of its own, which was
// not removed with that of the day.
func (s *Periodic) isGone(p, tombstone seqd.Period) bool {
	same := s.settings.Reset.Of(tombstone.Date())
	return p < same || p == same && same == tombstone
}

// purge removes what is kept of periods that ended longer than PeriodRetention ago.
func (s *Periodic) purge() {
	began, real := s.env.Now(), time.Now()
	if !s.pause(purgeDelay) {
		return
	}
	if moved := s.env.Now().Sub(began) - time.Since(real); moved.Abs() > purgeSkew/2 {
		s.env.Log.Warn("the clock was set; the counters of past periods stay until the next period", "bizType", s.bizType.Name, "by", moved.String())
		return
	}
	ctx, cancel := s.context()
	defer cancel()
	removed, err := s.purgeBefore(ctx)
	switch {
	case err != nil && s.running.Err() == nil:
		s.env.Log.Warn("the counters of past periods could not be removed; the next period tries again", "bizType", s.bizType.Name, "counters", removed, "error", err)
	case removed > 0:
		s.env.Log.Info("the counters of past periods were removed", "bizType", s.bizType.Name, "counters", removed)
	}
}

func (s *Periodic) purgeBefore(ctx context.Context) (removed int, err error) {
	now := s.env.Now()
	table, err := s.env.Store.Slots().Look(ctx, s.tombstone()) // whose clock is the store's own
	if err != nil {
		return 0, err
	}
	if skew := now.Sub(time.UnixMilli(table.Now)).Abs(); skew > purgeSkew {
		return 0, errors.New("the clock is " + skew.String() + " off the store's")
	}
	keep := s.calendar.Now(now.Add(-s.settings.PeriodRetention))
	for {
		past, err := s.past(ctx, keep)
		if err != nil || len(past) == 0 {
			return removed, err
		}
		if err := s.bury(ctx, past[len(past)-1]); err != nil {
			return removed, err
		}
		for _, p := range past {
			if err := s.remove(ctx, p.Counter(s.bizType.Name)); err != nil {
				return removed, err
			}
			removed++
		}
	}
}

// past returns the first periods before keep that there are counters or claims of, ascending.
func (s *Periodic) past(ctx context.Context, keep seqd.Period) (past []seqd.Period, err error) {
	counters, err := s.env.Store.Counters().List(ctx, s.tombstone(), purgePage)
	if err != nil {
		return nil, err
	}
	claims, err := s.env.Store.Shapes().List(ctx, s.tombstone(), purgePage)
	if err != nil {
		return nil, err
	}
	add := func(name string) {
		if p, ok := s.periodOf(name); ok && p < keep {
			past = append(past, p)
		}
	}
	for _, c := range counters {
		add(c.BizTag)
	}
	for _, c := range claims { // a removal may have been cut off between the two
		add(c.BizTag)
	}
	slices.Sort(past)
	return slices.Compact(past), nil
}

// periodOf reads the name of a period's counter.
func (s *Periodic) periodOf(counter string) (p seqd.Period, ok bool) {
	digits, ok := strings.CutPrefix(counter, s.tombstone())
	if !ok {
		return 0, false
	}
	return s.settings.Reset.Parse(digits)
}

// bury raises the tombstone to p.
func (s *Periodic) bury(ctx context.Context, p seqd.Period) error {
	counters := s.env.Store.Counters()
	mark := persist.Counter{BizTag: s.tombstone(), Max: int64(p), Step: 1, Timestamp: s.env.Now().UnixMilli()}
	err := counters.Create(ctx, mark)
	if isExists(err) {
		err = counters.Update(ctx, mark)
	}
	if err != nil && !errors.Is(err, persist.ErrLowered) { // it is higher already
		return err
	}
	err = s.checkPurged(ctx, p)
	switch {
	case errors.Is(err, errPurged):
		return nil
	case err == nil:
		return fmt.Errorf("the tombstone is of a period of another length, which does not cover %s", p)
	}
	return err
}

// remove removes a counter and its claim, in this order: a claim without a counter is refused, a
// counter without a claim would be taken for a new one.
func (s *Periodic) remove(ctx context.Context, counter string) error {
	for _, remove := range []func(context.Context, string) error{s.env.Store.Counters().Delete, s.env.Store.Shapes().Delete} {
		if err := remove(ctx, counter); err != nil && !isNotFound(err) {
			return err
		}
	}
	named := s.bizType
	named.Name = counter
	if c, err := s.open(named); err == nil {
		_ = c.forget(ctx) // what is left in Redis does no harm
	}
	return nil
}
