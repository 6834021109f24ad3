package issuer

import (
	"context"
	"slices"
	"time"

	"github.com/seqd/seqd"
)

// What follows is for biz types whose strategy is a [seqd.Ledger]. The code is
// [seqd.CodeInvalidRequest] for others.

// KeepsAnswers reports whether a biz type keeps the answers to all requests itself; see
// [seqd.Call.Once]. It is false while some may be kept where it kept them before a change, and if
// nothing issues.
func (is *Issuer) KeepsAnswers(bizType string) bool {
	i, err := is.issuing(bizType)
	return err == nil && i.hasAllAnswers()
}

// Find fills call.Reservation and call.Sequence with those of a reservation of call.BizType.
func (is *Issuer) Find(ctx context.Context, call *seqd.Call, id string) error {
	return is.account(ctx, call, func(ctx context.Context, l seqd.Ledger) (err error) {
		call.Reservation, err = l.Find(ctx, id, &call.Sequence)
		return err
	})
}

// Confirm makes the numbers of a reservation of call.BizType issued, and fills call.Reservation and
// call.Sequence. call.Caller asks; admin is true if it may confirm what others reserved. Confirm
// can be repeated.
func (is *Issuer) Confirm(ctx context.Context, call *seqd.Call, id string, admin bool) error {
	return is.account(ctx, call, func(ctx context.Context, l seqd.Ledger) (err error) {
		call.Reservation, err = l.Confirm(ctx, seqd.Settlement{ID: id, Caller: call.Caller, Admin: admin}, &call.Sequence)
		return err
	})
}

// Release ends a reservation of call.BizType without issuing its numbers. It can be repeated.
func (is *Issuer) Release(ctx context.Context, call *seqd.Call, id string, admin bool) error {
	return is.account(ctx, call, func(ctx context.Context, l seqd.Ledger) error {
		return l.Release(ctx, seqd.Settlement{ID: id, Caller: call.Caller, Admin: admin})
	})
}

// Void makes a number of a biz type void. id is the ID that callers see. If it does not show the
// key or the period, v.Key and v.Period name them; otherwise they must be the same or zero.
// v.Number is ignored.
func (is *Issuer) Void(ctx context.Context, bizType, id string, v seqd.Voiding) error {
	parsed, err := is.ParseOf(ctx, bizType, id, v.Key)
	if err != nil {
		return err
	}
	switch {
	case !parsed.Valid:
		return seqd.Errorf(seqd.CodeInvalidID, "the check digit of %s is wrong", shorten(id))
	case v.Period != 0 && parsed.Period != 0 && v.Period != parsed.Period:
		return seqd.Errorf(seqd.CodeInvalidRequest, "%s belongs to the period %s, not %s", shorten(id), parsed.Period, v.Period)
	}
	v.Number, v.Key = parsed.Number, parsed.Key
	if v.Period == 0 {
		v.Period = parsed.Period
	}
	return is.withLedger(ctx, bizType, v.Key, func(ctx context.Context, _ *instance, l seqd.Ledger) error { return l.Void(ctx, v) })
}

// Account returns what became of the numbers of a counter. Its gaps have IDs if plugins change how
// numbers are shown, unless the IDs also depend on when a number is handed out.
func (is *Issuer) Account(ctx context.Context, bizType string, q seqd.AccountQuery) (a seqd.Account, err error) {
	err = is.withLedger(ctx, bizType, q.Key, func(ctx context.Context, i *instance, l seqd.Ledger) error {
		if a, err = l.Account(ctx, q); err == nil {
			is.showGaps(ctx, i, q.Key, &a)
		}
		return err
	})
	return a, err
}

// otherDay is so far from now that each part of the date and of the time is another one.
const otherDay = 400*24*time.Hour + 5*time.Hour + time.Minute + time.Second

// showGaps sets the IDs of the gaps. An account is worth more than its IDs: if a plugin cannot show
// one, none is set.
func (is *Issuer) showGaps(ctx context.Context, i *instance, key string, a *seqd.Account) {
	if len(a.Gaps) == 0 || !i.reset.Fits(a.Period) || !slices.ContainsFunc(i.chain, func(plug *chainPlugin) bool { return plug.Rewrites }) {
		return
	}
	w := &waits{pluginTimeout: is.pluginTimeout}
	show := func(made time.Time) []string {
		call := &seqd.Call{BizType: i.name, Key: key, Replayed: true}
		call.Sequence.In(a.Period)
		call.Sequence.For(key)
		call.Sequence.MadeAt(made)
		for _, g := range a.Gaps {
			call.Sequence.Add(g.From, 1, 1)
			call.Sequence.Add(g.To, 1, 1)
		}
		if is.showAll(ctx, i, call, w) != nil {
			return nil
		}
		return call.Sequence.IDs()
	}
	now := time.Now()
	ids := show(now)
	if len(ids) != 2*len(a.Gaps) || !slices.Equal(ids, show(now.Add(-otherDay))) {
		return // they show the day, which the account of a counter without periods does not keep
	}
	for n := range a.Gaps {
		a.Gaps[n].FromID, a.Gaps[n].ToID = ids[2*n], ids[2*n+1]
	}
}

// Keys returns at most limit keys of a keyed biz type that have a counter. They begin behind after,
// in the order of [seqd.KeyLister].
func (is *Issuer) Keys(ctx context.Context, bizType, after string, limit int) (keys []string, err error) {
	err = is.with(ctx, bizType, func(ctx context.Context, i *instance) error {
		lister := ask[seqd.KeyLister](i.strategy)
		if lister == nil || !i.keyed {
			return seqd.Errorf(seqd.CodeInvalidRequest, "%s has one counter for all callers, and no keys", bizType)
		}
		keys, err = lister.Keys(ctx, after, limit)
		return err
	})
	return keys, err
}

// account calls f with the ledger of call.BizType, and shows the numbers that it adds as they were
// shown when they were handed out. The call is answered without numbers after an error, and if the
// biz type has another reset by now.
func (is *Issuer) account(ctx context.Context, call *seqd.Call, f func(context.Context, seqd.Ledger) error) error {
	clearAnswer(call)
	err := is.with(ctx, call.BizType, func(ctx context.Context, i *instance) (err error) {
		ledger, err := i.ledger()
		if err != nil {
			return err
		}
		if err := f(ctx, ledger); err != nil || call.Sequence.Len() == 0 {
			return err
		}
		if !i.shows(&call.Sequence) {
			call.Sequence.Reset()
			return nil
		}
		call.Replayed = true
		return is.showAll(ctx, i, call, &waits{pluginTimeout: is.pluginTimeout})
	})
	if err != nil {
		call.Sequence.Reset()
	}
	return err
}

// withLedger calls f with the ledger of a biz type that has the key.
func (is *Issuer) withLedger(ctx context.Context, bizType, key string, f func(context.Context, *instance, seqd.Ledger) error) error {
	return is.with(ctx, bizType, func(ctx context.Context, i *instance) error {
		ledger, err := i.ledger()
		if err != nil {
			return err
		}
		if err := i.checkKey(key); err != nil {
			return err
		}
		return f(ctx, i, ledger)
	})
}

// with calls f with the instance of a biz type, initialised. It calls it again if the instance was
// stopped because another one replaces it.
func (is *Issuer) with(ctx context.Context, bizType string, f func(context.Context, *instance) error) error {
	w := waits{pluginTimeout: is.pluginTimeout}
	for {
		s, i, err := is.admit(ctx, bizType, &w, false)
		if err != nil {
			return err
		}
		if err = is.initialise(ctx, i, &w); err == nil {
			err = call(ctx, i, f)
		}
		i.leave()
		if !is.replaced(s, i, err) {
			if err != nil {
				return seqd.AsError(err)
			}
			return nil
		}
	}
}

// call calls f, whose panics are errors.
func call(ctx context.Context, i *instance, f func(context.Context, *instance) error) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	return f(ctx, i)
}

func (i *instance) ledger() (seqd.Ledger, error) {
	if i.can.ledger != nil {
		return i.can.ledger, nil
	}
	return nil, seqd.Errorf(seqd.CodeInvalidRequest, "%s is of the strategy %s, which keeps no account of its numbers: only gapless does", i.name, i.kind)
}
