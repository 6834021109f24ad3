package check

import "fmt"

// refusals are the codes that a node may refuse what the load asks for with, and their statuses
// (DESIGN §6, docs/API.md "Errors"). All else is a defect, such as internal and plugin_panic, or
// refuses a request as wrong that is none.
var refusals = map[string]int{
	"starting": 503, "stopping": 503, "overloaded": 503, "store_unavailable": 503, "redis_unavailable": 503, "clock_rollback": 503, "no_machine_id": 503, "timeout": 503,
	"rate_limited": 429, "disabled": 409, "unknown_biz_type": 404,
}

// administered are those of refusals that an administrator causes.
var administered = map[string]bool{"disabled": true, "unknown_biz_type": true}

// checkRefusals demands that each refusal has a code of the closed set with its status (DESIGN §6),
// that none is a defect of the service, and that only biz types that an administrator changed are
// disabled or unknown. An ID that is refused as none is the business of checkParse.
func (h *history) checkRefusals(r *Report) {
	changed := make(map[*bizType]bool)
	for i := range h.admins {
		changed[h.admins[i].bizType] = true
		h.checkDefect(r, &h.admins[i].call)
	}
	for i := range h.calls {
		h.checkRefusal(r, &h.calls[i], changed)
	}
	for i := range h.parses {
		if h.parses[i].code != "invalid_id" {
			h.checkRefusal(r, &h.parses[i].call, changed)
		}
	}
}

func (h *history) checkRefusal(r *Report, c *call, changed map[*bizType]bool) {
	switch status, known := refusals[c.code]; {
	case c.status == 0 || c.answered():
		return
	case !known || status != c.status:
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("refused with status %d and code %q", c.status, c.code), c)
	case administered[c.code] && !changed[c.bizType]:
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("%s, and nobody changed it", c.code), c)
	}
}

// checkDefect demands of a refused change only that it has a code, and that it is not for a defect:
// which changes are possible is not known here.
func (h *history) checkDefect(r *Report, c *call) {
	if c.status != 0 && !c.answered() && (c.code == "" || c.status >= 500 && refusals[c.code] != c.status) {
		h.fail(r, RuleRefusal, c.bizType.Name, 1, c.end, fmt.Sprintf("a change was refused with status %d and code %q", c.status, c.code), c)
	}
}
