package check

import (
	"fmt"

	"github.com/seqd/seqd/internal/testing/record"
)

// refusals are the codes with which a node may reject requests of the load, and their statuses
// (docs/API.md "Errors"). Other codes are defects, such as internal and plugin_panic, or
// reject a correct request as invalid.
var refusals = map[string]int{
	"starting": 503, "stopping": 503, "overloaded": 503, "store_unavailable": 503, "redis_unavailable": 503, "clock_rollback": 503, "no_machine_id": 503, "timeout": 503,
	"rate_limited": 429, "disabled": 409, "unknown_biz_type": 404,
}

// administered are the codes in refusals that an administrator causes.
var administered = map[string]bool{"disabled": true, "unknown_biz_type": true}

// checkRefusals requires that each error answer has a code of the closed set with its status
// (docs/API.md "Errors"), that none is a defect of the service, and that only biz types that an
// administrator changed are disabled or unknown. IDs that are rejected as invalid are left to
// checkParse.
func (h *evidence) checkRefusals(r *Report) {
	changed := make(map[*bizType]bool)
	for i := range h.admins {
		changed[h.admins[i].bizType] = true
		h.checkDefect(r, &h.admins[i].call)
	}
	for i := range h.calls {
		h.checkRefusal(r, &h.calls[i], changed)
	}
	for i := range h.bookings {
		h.checkBookingRefusal(r, &h.bookings[i], changed)
	}
	for i := range h.parses {
		if h.parses[i].code != "invalid_id" {
			h.checkRefusal(r, &h.parses[i].call, changed)
		}
	}
}

func (h *evidence) checkRefusal(r *Report, c *call, changed map[*bizType]bool) {
	switch status, known := refusals[c.code]; {
	case c.status == 0 || c.answered():
		return
	case c.code == "unauthorized" && c.status == 401 && (c.caller != "" || h.storeLost(c.start, c.end)): // its token is new, or gone, or not restored yet
		return
	case (c.code == "too_many_reserved" || c.code == "number_void") && c.status == 409 && c.bizType.Strategy == record.Gapless:
		return
	case c.code == "conflict" && c.status == 409 && (h.storeLost(0, c.end) || h.forced(c.bizType, c.end)): // a counter that is gone begins nowhere
		return
	case c.code == "invalid_request" && c.status == 400 && c.proto == record.RESP && changed[c.bizType]: // INCRBY of what has become gapless
		return
	case c.code == "store_failed_over" && c.status == 409 && h.storeLost(0, c.end):
		return
	case !known || status != c.status:
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("rejected with status %d and code %q", c.status, c.code), c)
	case administered[c.code] && !changed[c.bizType]:
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("%s, and it was not changed", c.code), c)
	}
}

// forced reports whether an increment was forced upon a biz type before. Two such changes at once,
// and a store that does not answer, may leave a shape on record that is not that of the definition.
// The biz type is refused then until somebody forces one of them.
func (h *evidence) forced(b *bizType, at int64) bool {
	_, first := h.increments(b)
	return first <= at
}

// bookingRefusals are further codes with which a node may reject requests about reservations.
var bookingRefusals = map[string]int{
	"too_many_reserved": 409, "reservation_expired": 409, "reservation_released": 409, "reservation_confirmed": 409, "number_void": 409,
}

// checkBookingRefusal is checkRefusal for a request about a reservation. Whether a code is right
// for its reservation is left to checkReservations.
func (h *evidence) checkBookingRefusal(r *Report, b *booking, changed map[*bizType]bool) {
	if b.code == "forbidden" && b.status == 403 && b.caller != "" { // see checkOwner
		return
	}
	if status, known := bookingRefusals[b.code]; known && status == b.status || b.code == unknownReservation {
		return
	}
	h.checkRefusal(r, &b.call, changed)
}

// checkDefect requires only that a rejected change has a code, and that the code is not that of a
// defect. The checker does not know which changes are possible.
func (h *evidence) checkDefect(r *Report, c *call) {
	if c.status != 0 && !c.answered() && (c.code == "" || c.status >= 500 && refusals[c.code] != c.status) {
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("a change was rejected with status %d and code %q", c.status, c.code), c)
	}
}
