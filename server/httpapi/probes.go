package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
)

// probes answers load balancers and orchestrators.
type probes struct {
	gate      *gate.Gate
	errors    *errorWriter
	admission *admission
	looks     chan struct{} // one for each probe that looks at a named biz type
	surveys   *surveys
}

// healthz answers /healthz: the process runs.
func healthz(c *gin.Context) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	write(c, http.StatusOK, jsonType, []byte(`{"status":"ok"}`+"\n"))
	return nil
}

// mostListed is how many biz types /readyz names, and how many a probe may name.
const mostListed = 100

// health is how the biz types are that a probe asks for.
type health struct {
	out                    bool             // the node should get no requests
	unready, degraded      []issuer.Unready // the first of them
	allUnready, allLimping int              // how many there are
}

// readyz answers 503 if nothing can be issued, or a biz type that the probe names cannot: see
// [issuer.Issuer.Serves] and [issuer.Issuer.Look]. Otherwise it answers 200, with a list of the biz
// types that cannot issue or are degraded. Names, machine IDs and addresses are only shown to
// callers with the scope read. Load balancers, which have no token, do not need them.
func (p probes) readyz(c *gin.Context) error {
	names, err := probed(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	is, err := p.gate.Issuer()
	if p.gate.Draining() {
		err = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping"}
	}
	if err != nil {
		return err
	}
	h, err := p.look(c.Request.Context(), is, names)
	if err != nil {
		return err
	}
	if h.out {
		p.unready(c, is, h)
	} else {
		p.ready(c, is, h)
	}
	return nil
}

// probed returns the biz types that a probe names, none for all.
func probed(query string) ([]string, error) {
	values, err := readQuery(query, "bizType")
	if err != nil {
		return nil, err
	}
	list, named := values["bizType"]
	if !named {
		return nil, nil
	}
	names := strings.Split(list, ",")
	if len(names) > mostListed {
		return nil, seqd.Errorf(seqd.CodeInvalidRequest, "bizType names %d biz types, and may name %d", len(names), mostListed)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// look returns how the biz types are that a probe names, or all.
func (p probes) look(ctx context.Context, is *issuer.Issuer, names []string) (h health, err error) {
	if names == nil {
		return p.surveys.survey(is), nil
	}
	for _, name := range names {
		state, err := p.lookAt(ctx, is, name)
		switch {
		case err != nil:
			return h, err
		case state.Unready != nil:
			h.unready = append(h.unready, issuer.Unready{BizType: name, Reason: state.Unready})
		case state.Disabled:
			state.Degraded = &seqd.Error{Code: seqd.CodeDisabled, Detail: "an administrator disabled it"}
		}
		if state.Degraded != nil {
			h.degraded = append(h.degraded, issuer.Unready{BizType: name, Reason: state.Degraded})
		}
	}
	h.allUnready, h.allLimping = len(h.unready), len(h.degraded)
	h.out = h.allUnready > 0
	return h, nil
}

// surveys are looks at all biz types. A probe needs no token, and with 100,000 biz types a look
// takes a processor for a good part of a second. So there is one at a time, for all who asked
// before it began, and then a rest of restFactor times as long, at most mostRest. Surveys are safe
// for concurrent use.
type surveys struct {
	begun atomic.Int64  // how many looks have begun
	turn  longlock.Lock // held during a look, and the rest before it; guards what follows
	last  health
	rest  time.Time // when the next look may begin
}

// A probe must be answered within 2 s, as in deploy.
const (
	restFactor = 3
	mostRest   = 500 * time.Millisecond
)

// survey returns how all biz types are, as a look says that begins now or later.
func (s *surveys) survey(is *issuer.Issuer) (h health) {
	before := s.begun.Load()
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.begun.Load() > before { // while this probe waited
		return s.last
	}
	time.Sleep(time.Until(s.rest))
	s.begun.Add(1)
	began := time.Now()
	h.unready, h.allUnready = is.Health(mostListed)
	h.degraded, h.allLimping = is.Degraded(mostListed)
	h.out = h.allUnready > 0 && !is.Serves()
	now := time.Now()
	s.last, s.rest = h, now.Add(min(restFactor*now.Sub(began), mostRest))
	return h
}

// mostLooks is how many probes may wait at once for biz types that the node does not hold. A probe
// needs no token, and such a biz type is read from the store: that must not crowd out requests.
const mostLooks = 16

// lookAt is Look of the issuer, for at most mostLooks probes at once if it has to fetch.
func (p probes) lookAt(ctx context.Context, is *issuer.Issuer, name string) (issuer.State, error) {
	if !is.Holds(name) {
		select {
		case p.looks <- struct{}{}:
			defer func() { <-p.looks }()
		default:
			return issuer.State{}, &seqd.Error{Code: seqd.CodeOverloaded, Detail: "too many probes ask for biz types that the node has to read first", RetryAfter: time.Second}
		}
	}
	return is.Look(ctx, name)
}

// unready answers that the node should get no requests.
func (p probes) unready(c *gin.Context, is *issuer.Issuer, h health) {
	worst := h.unready[0].Reason
	answer := newProblem(&seqd.Error{Code: worst.Code, Detail: "biz types cannot issue; a caller whose token has the scope read is told which and why"})
	answer.Status, answer.Title = http.StatusServiceUnavailable, http.StatusText(http.StatusServiceUnavailable)
	if p.admission.mayRead(c) {
		answer.Detail = strconv.Itoa(h.allUnready) + " biz types cannot issue"
		answer.Unready = h.allUnready
		answer.BizTypes, answer.Details = h.lines(), detailsOf(is)
	}
	p.errors.write(c, worst, answer)
}

// unready is one biz type in the answer of /readyz.
type unready struct {
	admin.Reason
	// Unready is true if it cannot issue.
	Unready bool `json:"unready,omitempty"`
}

// readiness is the answer of /readyz if the node should get requests.
type readiness struct {
	Status string `json:"status"`
	// Unready is how many biz types cannot issue, and Degraded how many are degraded. BizTypes names
	// the first of them.
	Unready  int       `json:"unready,omitempty"`
	Degraded int       `json:"degraded,omitempty"`
	BizTypes []unready `json:"bizTypes,omitempty"`
	// Store is what an operator has to look at in the store.
	Store *trouble `json:"store,omitempty"`
	// Definitions is that the definitions of nodes come from different places.
	Definitions *trouble `json:"definitions,omitempty"`
	// Coordinator is why this node does no jobs.
	Coordinator *trouble `json:"coordinator,omitempty"`
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

func detailsOf(is *issuer.Issuer) details {
	d := make(details)
	for _, of := range is.Details(mostListed) {
		d[of.BizType] = of.Values
	}
	return d
}

// ready answers that the node should get requests.
func (p probes) ready(c *gin.Context, is *issuer.Issuer, h health) {
	answer := readiness{Status: "ready"}
	store, definitions, coordinator := p.gate.Troubles()
	if h.allUnready+h.allLimping > 0 || store != nil || definitions != nil || coordinator != nil {
		answer.Status = "degraded"
	}
	if p.admission.mayRead(c) {
		answer.Store, answer.Definitions, answer.Coordinator = troubleOf(store), troubleOf(definitions), troubleOf(coordinator)
		answer.Unready, answer.Degraded, answer.BizTypes = h.allUnready, h.allLimping, h.lines()
		answer.Details = detailsOf(is)
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, answer)
}

// lines returns the first of the biz types that cannot issue or are degraded, for the answer of
// /readyz. It leaves out the causes, which may contain what callers must not see. The log has them.
func (h *health) lines() []unready {
	var lines []unready
	for _, u := range h.unready {
		lines = append(lines, unready{gate.ReasonOf(u.BizType, u.Reason), true})
	}
	for _, u := range h.degraded {
		lines = append(lines, unready{gate.ReasonOf(u.BizType, u.Reason), false})
	}
	return lines[:min(len(lines), mostListed)]
}
