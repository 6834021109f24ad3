package gapless

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// recall returns what an earlier period gave to an order that may be repeated: it may have been
// carried out before midnight, and answers may be kept for longer than a period lasts. If it was
// not carried out, it never will be in that period, although a write may still be under way.
func (s *Strategy) recall(ctx context.Context, name counters.Name, op ledger.Op) (before counters.Name, res ledger.Result, err error) {
	before = name
	for op.Recall, op.Close = true, true; ; {
		before.Period = s.Calendar.Before(before.Period)
		ended := time.Duration(s.now()-s.Calendar.Ends(before.Period)) * time.Millisecond
		if ended > strategy.AnswersLast || before.Period.Check() != nil {
			return before, res, nil
		}
		if s.isBare(before) {
			continue
		}
		doc, e, err := s.gave(ctx, before.Counter(s.BizType.Name), op.Once)
		if err == nil && e == nil && ended > max(s.Env.AnswerTTL, lateWrite) {
			err = s.lookIfBare(ctx, before, doc)
		}
		if err != nil {
			return before, res, s.noted(err)
		}
		if e == nil && (doc == nil && (ended > lateWrite || sabotage.Off(sabotage.LateWrite)) || doc != nil && doc.state.Closed) {
			continue
		}
		if res, err = s.do(ctx, before, op); err != nil || len(res.Runs) > 0 {
			return before, res, err
		}
	}
}

// lateWrite is how long after its period has ended the first write of a ledger may still come.
// Until then a ledger that does not exist is made and closed.
const lateWrite = time.Minute

// mostBare is how many ledgers are known to be bare.
const mostBare = 10_000

// isBare reports whether a ledger whose period has ended is known to have no answer, and never to
// get one.
func (s *Strategy) isBare(name counters.Name) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bare := s.bare[name]
	return bare
}

// lookIfBare finds out whether a ledger is bare, and remembers it: few ledgers have answers that
// were to be kept for longer than answers are now, and requests must not look into the others again
// and again. doc is its document, nil if there is none.
func (s *Strategy) lookIfBare(ctx context.Context, name counters.Name, doc *document) error {
	if doc != nil {
		if !doc.state.Closed || doc.state.HasAnswers() {
			return nil
		}
		prefix := ledger.AnswerKey(doc.Key, "")
		records, err := s.List(ctx, persist.AnswerKind, prefix, 1)
		if err != nil || len(records) > 0 && strings.HasPrefix(records[0].Key, prefix) {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bare) >= mostBare {
		clear(s.bare)
	}
	s.bare[name] = struct{}{}
	return nil
}

// document is the document of a counter.
type document struct {
	persist.Document
	state *ledger.State
}

// gave returns the document of a counter, nil if there is none, and what it gave to a request that
// may be repeated, nil if nothing. It reads the document before the records, so that what leaves
// the document is found.
func (d *documents) gave(ctx context.Context, counter, once string) (*document, *ledger.Entry, error) {
	doc, err := d.Read(ctx, persist.LedgerKind, counter)
	if errors.Is(err, persist.ErrNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	state, err := ledger.Decode(&doc)
	if err != nil {
		return nil, nil, err
	}
	e, err := state.Recall(ctx, d.Documents, counter, once)
	return &document{doc, state}, e, err
}

// recall implements [strategy.Factory].Recall. The biz type may have had other periods, another
// time zone or another strategy, and may have them again. So it looks into every counter of the key
// that was in use while answers are kept. It closes none: nodes have used none but those of the
// present settings since before the change (settleTime in package definitions), and must go on with
// those.
func recall(ctx context.Context, env strategy.Env, bizType string, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	docs, clock := documentsOf(env.Store), clockOf(env)
	now, err := clock.Now(ctx)
	if err != nil {
		return r, false, unavailable(err)
	}
	until := time.UnixMilli(now)
	for _, p := range periodsIn(until.Add(-strategy.AnswersLast), until) {
		name := counters.Name{Key: seq.Key(), Period: p}
		doc, e, err := docs.gave(ctx, name.Counter(bizType), o.Once)
		if err != nil {
			return r, false, unavailable(err)
		}
		if e == nil {
			continue
		}
		op := orderOp(o)
		op.Recall = true
		req, err := docs.alone(ctx, env, clock, doc, op)
		if err == nil {
			err = req.Err
		}
		if err != nil {
			return r, false, unavailable(err)
		}
		r, replayed = handed(name, req.Result, seq)
		return r, replayed, nil
	}
	return r, false, nil
}

// clockOf returns the clock of the store.
func clockOf(env strategy.Env) *storeclock.Clock {
	if env.Clock != nil {
		return env.Clock
	}
	return storeclock.New(env.Store, env.Now, nil)
}

// Time zones are from 12 hours behind UTC to 14 hours ahead of it.
const (
	mostBehind = 12 * time.Hour
	mostAhead  = 14 * time.Hour
)

// periodsIn returns the periods of each length that contain a moment from one time to another in
// some time zone, and 0, which is that of numbers that never reset.
func periodsIn(from, until time.Time) []seqd.Period {
	periods := []seqd.Period{0}
	last := until.Add(mostAhead).UTC()
	for day := from.Add(-mostBehind).UTC(); ; day = day.AddDate(0, 0, 1) {
		if day.After(last) {
			day = last
		}
		for _, reset := range []seqd.Reset{seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
			if p := reset.Of(day); !slices.Contains(periods, p) {
				periods = append(periods, p)
			}
		}
		if day.Equal(last) {
			return periods
		}
	}
}

// alone carries out an operation on a counter that no biz type uses here, or beside one that does.
func (d *documents) alone(ctx context.Context, env strategy.Env, clock *storeclock.Clock, doc *document, op ledger.Op) (*ledger.Request, error) {
	t, _ := clock.Times(ctx) // the caller has asked it
	policy := doc.state.Policy()
	policy.Keep = env.AnswerTTL.Milliseconds()
	timed(&policy, t, env.Attendance)
	m := ledger.New(ledger.Config{Counter: doc.Key, Writer: newID(), Without: sabotage.OfMachine(ledger.ParseRules)}, policy)
	req := &ledger.Request{Op: op}
	m.Submit(req)
	if err := d.drive(ctx, clock, m); err != nil {
		return nil, err
	}
	for _, e := range m.Expired() {
		env.Log.Info("a reservation expired", "counter", doc.Key, "reservation", e.ID, "numbers", ledger.Count(e.Runs), "caller", seqd.OwnerName(e.Caller))
	}
	return req, nil
}

// drive executes what a machine wants, one command after the other, until it wants nothing more.
func (d *documents) drive(ctx context.Context, clock *storeclock.Clock, m *ledger.Machine) error {
	for {
		now, _ := clock.Now(ctx) // alone has asked it
		list, wake := m.Next(time.Now(), now)
		if m.Idle() {
			return nil
		}
		for _, c := range append([]ledger.Command(nil), list...) {
			m.Done(time.Now(), now, &c, d.execute(ctx, &c))
		}
		if len(list) > 0 {
			continue
		}
		select {
		case <-time.After(time.Until(wake)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
