package httpapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// probes answers load balancers and orchestrators.
type probes struct {
	gate      *gate.Gate
	errors    *errorWriter
	admission *admission
}

// healthz answers /healthz: the process runs.
func healthz(c *gin.Context) {
	write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`))
}

// mostListed is how many biz types /readyz names.
const mostListed = 100

// readyz answers 503 while a biz type cannot issue for a reason of this node or its back ends.
// Otherwise it answers 200, with a list of the biz types that are degraded. Names, machine IDs and
// addresses are only shown to callers with the scope read. Load balancers, which have no token, do
// not need them.
func (p probes) readyz(c *gin.Context) {
	issuer, err := p.gate.Issuer()
	if p.gate.Draining() {
		err = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping"}
	}
	if err != nil {
		p.errors.fail(c, err)
		return
	}
	list, total := issuer.Health(mostListed)
	if total == 0 {
		p.ready(c, issuer)
		return
	}
	worst := list[0].Reason
	answer := newProblem(&seqd.Error{Code: worst.Code, Detail: "biz types cannot issue; a caller whose token has the scope read is told which and why"})
	answer.Status, answer.Title = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)
	if p.admission.mayRead(c) {
		answer.Detail = strconv.Itoa(total) + " biz types cannot issue"
		answer.Unready = total
		answer.BizTypes, answer.Details = lines(list), detailsOf(issuer)
	}
	p.errors.write(c, worst, answer)
}

// unready is one biz type in the answer of /readyz.
type unready struct {
	BizType string    `json:"bizType"`
	Code    seqd.Code `json:"code"`
	Detail  string    `json:"detail"`
}

// readiness is the answer of /readyz if every biz type can issue.
type readiness struct {
	Status string `json:"status"`
	// Degraded is how many biz types are degraded. BizTypes names the first of them.
	Degraded int       `json:"degraded,omitempty"`
	BizTypes []unready `json:"bizTypes,omitempty"`
	// Store is what an operator has to look at in the store.
	Store *trouble `json:"store,omitempty"`
	// Definitions is that the definitions of nodes come from different places.
	Definitions *trouble `json:"definitions,omitempty"`
	Details     details  `json:"details,omitempty"`
}

// trouble is something that an operator has to look at.
type trouble struct {
	Code   seqd.Code `json:"code"`
	Detail string    `json:"detail"`
}

// troubleOf returns nil for nil.
func troubleOf(why *seqd.Error) *trouble {
	if why == nil {
		return nil
	}
	return &trouble{why.Code, why.Detail}
}

// details are what strategies report to operators, by biz type.
type details map[string]map[string]any

func detailsOf(issuer *seqd.Issuer) details {
	d := make(details)
	for _, of := range issuer.Details(mostListed) {
		d[of.BizType] = of.Values
	}
	return d
}

// ready answers that every biz type can issue.
func (p probes) ready(c *gin.Context, issuer *seqd.Issuer) {
	answer := readiness{Status: "ready"}
	list, total := issuer.Degraded(mostListed)
	store, definitions := p.gate.Troubles()
	if total > 0 || store != nil || definitions != nil {
		answer.Status = "degraded"
	}
	if p.admission.mayRead(c) {
		answer.Store, answer.Definitions = troubleOf(store), troubleOf(definitions)
		answer.Degraded, answer.BizTypes, answer.Details = total, lines(list), detailsOf(issuer)
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, answer)
}

// lines converts a list for the answer of /readyz. It leaves out the causes, which may contain what
// callers must not see. The log has them.
func lines(list []seqd.Unready) []unready {
	lines := make([]unready, len(list))
	for i, u := range list {
		lines[i] = unready{BizType: u.BizType, Code: newProblem(u.Reason).Code, Detail: u.Reason.Detail}
	}
	return lines
}
