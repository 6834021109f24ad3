package gapless

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Account implements [seqd.Ledger]. It reads the document first and the records of voids after it,
// so that what has left the document is found.
func (s *Strategy) Account(ctx context.Context, q seqd.AccountQuery) (a seqd.Account, err error) {
	name := counters.Name{Key: q.Key}
	if name.Period, err = s.period(q.Period); err != nil {
		return a, err
	}
	a = seqd.Account{Period: name.Period, First: s.settings.Start, Last: s.settings.Start - 1}
	counter := name.Counter(s.BizType.Name)
	doc, err := s.Documents.Read(ctx, persist.LedgerKind, counter)
	if errors.Is(err, persist.ErrNotFound) {
		return a, s.fits(name.Period)
	}
	if err != nil {
		return a, unavailable(err)
	}
	state, err := ledger.Decode(&doc)
	if err != nil {
		return a, unavailable(err)
	}
	voids, more, err := state.ListVoids(ctx, s.Documents, counter, q.After, q.Limit)
	if err != nil {
		return a, unavailable(err)
	}
	policy := s.policyOf(s.Calendar.Ends(name.Period))
	policy.Awake = s.Env.Attendance.Since(s.now())
	gaps, next := state.Account(&policy, q.After, q.Limit, voids, more)
	a.First, a.Last, a.Issued, a.Next = state.First, state.Last, state.NumIssued(), next
	for _, g := range gaps {
		a.Gaps = append(a.Gaps, gap(name, g))
	}
	return a, nil
}

// gap returns a gap of a counter as callers see it.
func gap(name counters.Name, g ledger.Gap) seqd.NumberGap {
	shown := seqd.NumberGap{From: g.From, To: g.To, State: g.State, Reason: g.Reason, By: g.By}
	if g.At != 0 {
		shown.At = time.UnixMilli(g.At)
	}
	if g.ID != "" {
		shown.Reservation, shown.ExpiresAt = fullID(g.ID, name), time.UnixMilli(g.Due)
	}
	return shown
}
