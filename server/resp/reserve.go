package resp

import (
	"cmp"
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/access"
)

// confirm is SEQ.CONFIRM bizType reservation.
func (c *conn) confirm(cmd int, args [][]byte) error {
	var call seqd.Call
	err := c.settle(cmd, args, &call, func(ctx context.Context, issuer *issuer.Issuer, id string, admin bool) error {
		return issuer.Confirm(ctx, &call, id, admin)
	})
	if err == nil {
		c.appendReservation(&call)
	}
	return err
}

// release is SEQ.RELEASE bizType reservation.
func (c *conn) release(cmd int, args [][]byte) error {
	var call seqd.Call
	err := c.settle(cmd, args, &call, func(ctx context.Context, issuer *issuer.Issuer, id string, admin bool) error {
		return issuer.Release(ctx, &call, id, admin)
	})
	if err == nil {
		c.ok()
	}
	return err
}

// settle ends a reservation by f, for a caller that may issue its numbers, or has the scope admin.
// What [conn.do] logs of an error it does not log.
func (c *conn) settle(cmd int, args [][]byte, call *seqd.Call, f func(ctx context.Context, issuer *issuer.Issuer, id string, admin bool) error) error {
	g, id := c.server.gate, string(args[2])
	r := run{bizType: c.names.of(args[1]), takes: []take{{command: cmd}}, errs: []error{nil}}
	ctx, rec := c.server.begin()
	r.errs[0] = func() error {
		who, err := c.allow(access.ScopeIssue, seqd.CounterOf(r.bizType, seqd.ReservationKey(id)))
		admin, notAdmin := c.allow(access.ScopeAdmin, "")
		if err != nil && notAdmin != nil {
			return err
		}
		r.caller = cmp.Or(who, admin)
		if !g.Requests.Enter() {
			g.Requests.Refused.Count()
			c.slowDown()
			return g.Requests.Refusal()
		}
		defer g.Requests.Leave()
		issuer, err := g.Issuer()
		if err != nil {
			return err
		}
		call.BizType, call.Key = r.bizType, seqd.ReservationKey(id)
		call.Caller = seqd.Caller{Name: r.caller.Name, Owner: r.caller.Owner, Addr: c.addr, RequestID: c.requestID}
		return f(ctx, issuer, id, notAdmin == nil)
	}()
	r.numbers = call.Sequence.Len()
	if err := r.errs[0]; err != nil {
		rec.began = time.Time{}
	}
	rec.end(c, &r)
	return r.errs[0]
}

// appendReservation appends a reservation, with the names that the HTTP API uses.
func (c *conn) appendReservation(call *seqd.Call) {
	r := &call.Reservation
	c.appendMap(5)
	for _, text := range [...]string{
		"bizType", call.BizType, "reservation", r.ID, "state", string(r.State), "expiresAt", r.ExpiresAt.UTC().Format(timeFormat), "ids",
	} {
		c.out = appendBulk(c.out, text)
	}
	c.out = appendIDs(c.out, &call.Sequence, true)
}
