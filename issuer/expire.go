package issuer

import (
	"context"

	"github.com/seqd/seqd"
)

// Reclaim ends the reservations of a counter of a biz type whose time is over. done is false if the
// biz type does not issue here, or if its strategy is no [seqd.Ledger].
func (is *Issuer) Reclaim(ctx context.Context, bizType, key string, period seqd.Period) (done bool, err error) {
	if _, c, err := is.settled(ctx, bizType, &waits{}); c.kind != serving {
		if c.kind == refusing || seqd.CodeOf(err) == seqd.CodeUnknownBizType {
			err = nil
		}
		return false, err
	}
	err = is.with(ctx, bizType, func(ctx context.Context, i *instance) error {
		if i.can.ledger == nil || i.keyed != (key != "") {
			return nil
		}
		done = true
		return i.can.ledger.Reclaim(ctx, key, period)
	})
	return done, err
}

// hearExpiries lets an instance tell its rejection handlers of reservations that expired: nobody
// else would hear of them.
func (is *Issuer) hearExpiries(i *instance) {
	if l := i.can.ledger; l != nil {
		l.OnExpired(func(e seqd.Expiry) { is.expired(i, e) })
	}
}

// expired tells the rejection handlers of an instance that a reservation expired.
func (is *Issuer) expired(i *instance, e seqd.Expiry) {
	ctx, cancel := context.WithTimeout(context.Background(), is.pluginTimeout)
	defer cancel()
	call := &seqd.Call{
		BizType: i.name, Count: e.Count, Key: e.Key, Want: seqd.ReservedNumbers,
		Caller: seqd.Caller{Name: e.Caller}, Reservation: e.Reservation,
	}
	refusal := seqd.Errorf(seqd.CodeReservationExpired, "the reservation %s expired", e.ID)
	if !i.enter() {
		return // its handlers are closed
	}
	defer i.leave()
	w := waits{pluginTimeout: is.pluginTimeout}
	for _, plug := range i.chain {
		if plug.rejected == nil {
			continue
		}
		if err := w.rejected(ctx, plug, call, refusal); err != nil {
			is.failures.Error("plugin failed to handle an expiry", "bizType", i.name, "error", err)
		}
	}
	if err := tell(ctx, i.rejected, call, refusal); err != nil {
		is.failures.Error("rejection handler failed", "bizType", i.name, "error", err)
	}
}
