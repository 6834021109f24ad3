package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/admin"
)

// reservations serves /seq/{bizType}/reservations and what is below it. Reserving itself is issuing.
type reservations struct {
	*issuing
	admission *admission
}

// reserve answers POST /seq/{bizType}/reservations.
func (r reservations) reserve(c *gin.Context) { r.answer(c, seqd.ReservedNumbers) }

// find answers GET /seq/{bizType}/reservations/{reservation}.
func (r reservations) find(c *gin.Context) error {
	return r.with(c, func(issuer *issuer.Issuer, call *seqd.Call, id string) error {
		if err := issuer.Find(c.Request.Context(), call, id); err != nil {
			return err
		}
		if call.Reservation.Owner != call.Caller.OwnerID() && !r.admission.mayRead(c) {
			return seqd.Errorf(seqd.CodeForbidden, "another caller made this reservation")
		}
		writeReservation(c, call)
		return nil
	})
}

// confirm answers POST /seq/{bizType}/reservations/{reservation}/confirm.
func (r reservations) confirm(c *gin.Context) error {
	return r.with(c, func(issuer *issuer.Issuer, call *seqd.Call, id string) error {
		if err := issuer.Confirm(c.Request.Context(), call, id, r.admission.mayAdminister(c)); err != nil {
			return err
		}
		writeReservation(c, call)
		return nil
	})
}

// release answers DELETE /seq/{bizType}/reservations/{reservation}.
func (r reservations) release(c *gin.Context) error {
	return r.with(c, func(issuer *issuer.Issuer, call *seqd.Call, id string) error {
		if err := issuer.Release(c.Request.Context(), call, id, r.admission.mayAdminister(c)); err != nil {
			return err
		}
		c.Writer.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// with calls f with the reservation in the path of a request, which takes no parameters.
func (r reservations) with(c *gin.Context, f func(issuer *issuer.Issuer, call *seqd.Call, id string) error) error {
	c.Writer.Header()["Cache-Control"] = noStore
	issuer, err := r.gate.Issuer()
	if err != nil {
		return err
	}
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	id := c.Param(reservationParam)
	call := &seqd.Call{BizType: c.Param("bizType"), Key: seqd.ReservationKey(id)}
	call.Caller = callerOf(c, &r.proxies)
	return f(issuer, call, id)
}

func writeReservation(c *gin.Context, call *seqd.Call) {
	write(c, http.StatusOK, jsonType, appendReservation(nil, call, true))
}

// appendReservation appends {"bizType":"invoice","reservation":"4f…","ids":["7"],
// "state":"reserved","expiresAt":"…"} and a newline, or the same without a state.
func appendReservation(dst []byte, call *seqd.Call, state bool) []byte {
	r := &call.Reservation
	dst = append(dst, `{"bizType":"`...)
	dst = append(dst, call.BizType...) // a valid name needs no escaping
	dst = append(dst, `","reservation":`...)
	dst = appendQuoted(dst, []byte(r.ID))
	dst = append(dst, `,"ids":[`...)
	dst = appendStrings(dst, &call.Sequence)
	if state {
		dst = append(append(dst, `],"state":"`...), r.State...)
		dst = append(dst, `","expiresAt":"`...)
	} else {
		dst = append(dst, `],"expiresAt":"`...)
	}
	return append(r.ExpiresAt.UTC().AppendFormat(dst, admin.TimeFormat), "\"}\n"...)
}

// reservationPath returns where a reservation is, relative to the path that reserves: only a proxy
// in front knows below which path callers find this node.
func reservationPath(id string) string { return "reservations/" + id }
