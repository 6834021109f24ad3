package httpapi

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/connections"
	"github.com/seqd/seqd/server/gate"
)

// busyReply refuses requests for lack of places or room.
type busyReply struct {
	written atomic.Pointer[refusal]
	refused *gate.Episodes
	refusal func() *seqd.Error // the same until a limit changes
}

// refusal is an answer that refuses requests.
type refusal struct {
	of     *seqd.Error
	before []byte // the answer up to its request ID
}

// mostScrapes is how many requests for metrics are answered at once. It is more than any number of
// Prometheus servers needs, and few enough that constant requests take nothing from issuing.
const mostScrapes = 64

// retryAfter is how long a client should wait after a refusal.
const retryAfter = time.Second

// oneSecond is retryAfter as a header. Do not modify it.
var oneSecond = []string{"1"}

// impatience is how long a refusal is delayed for a client that returns on the same connection
// before retryAfter has passed. Without the delay, clients that ask again at once would take the
// processor from those that are served.
const impatience = 100 * time.Millisecond

// connKey is the key in a request's context for what is known of its connection.
type connKey struct{}

// connection is what is known of a connection.
type connection struct {
	place *connections.Place // nil if nobody counts it
	// shed is when a request was last refused, in nanoseconds since 1970; 0 means never.
	shed atomic.Int64
}

// ConnContext is for [http.Server] with a [Listener]. It lets the API recognise connections: those
// that return too early after a refusal, and those whose callers have shown who they are.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	of := new(connection)
	if counted, ok := c.(*conn); ok {
		of.place = counted.place
	}
	return context.WithValue(ctx, connKey{}, of)
}

// placeOf returns the place of the connection of a request, which may be nil.
func placeOf(r *http.Request) *connections.Place {
	if of, ok := r.Context().Value(connKey{}).(*connection); ok {
		return of.place
	}
	return nil
}

// tooEarly records a refusal and reports whether the previous refusal on the connection was less
// than retryAfter ago.
func tooEarly(r *http.Request) bool {
	of, known := r.Context().Value(connKey{}).(*connection)
	if !known {
		return false
	}
	now := time.Now().UnixNano()
	before := of.shed.Swap(now)
	return before != 0 && now-before < int64(retryAfter) && now >= before
}

// newBusyReply returns a reply with that refusal, whose detail must need no escaping in JSON.
func newBusyReply(refused *gate.Episodes, refusal func() *seqd.Error) *busyReply {
	return &busyReply{refused: refused, refusal: refusal}
}

// now returns the present answer.
func (f *busyReply) now() *refusal {
	of, w := f.refusal(), f.written.Load()
	if w == nil || w.of != of {
		p := newProblem(of)
		w = &refusal{of, []byte(`","title":"` + p.Title + `","status":` + strconv.Itoa(p.Status) + `,"code":"` + string(p.Code) + `","detail":"` + p.Detail + `","requestId":"`)}
		f.written.Store(w)
	}
	return w
}

// answer refuses a request, at once if the caller heeds Retry-After. It creates nothing but the
// request ID, because it must cost less than what it refuses.
func (f *busyReply) answer(c *gin.Context) {
	f.count(c)
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	header["Retry-After"] = oneSecond
	x := exchanges.Get().(*exchange)
	defer x.release()
	now := f.now()
	x.body = appendType(append(x.body, `{"type":"`...), c, now.of.Code)
	x.body = append(x.body, now.before...)
	x.body = append(x.body, requestID(c)...) // a checked ID needs no escaping
	x.body = append(x.body, "\"}\n"...)
	write(c, http.StatusServiceUnavailable, problemType, x.body)
}

// count counts a refusal, and delays it if the caller does not heed Retry-After.
func (f *busyReply) count(c *gin.Context) {
	f.refused.Count()
	if tooEarly(c.Request) {
		time.Sleep(impatience)
	}
}

// inFlightLimits are the limits of how many requests are answered at once.
type inFlightLimits struct {
	requests *inFlight
	scrapes  *inFlight // of /metrics; nil without metrics
	standby  *inFlight // that wait for a worker ID
	events   *inFlight // that wait for events
	results  *inFlight // that download results of jobs
	reloads  *inFlight // that change how the node works
}

// mostDownloads is how many results, snapshots and lists are downloaded at once. A download takes as long as its caller
// likes, and some hundred KB of memory.
const mostDownloads = 64

// mostReloads is how many reloads wait for each other.
const mostReloads = 8

// inFlight is a limit of how many requests are answered at once, with its refusal.
type inFlight struct {
	*gate.Places
	busy *busyReply
}

func newInFlight(p *gate.Places) *inFlight {
	return &inFlight{Places: p, busy: newBusyReply(p.Refused, p.Refusal)}
}

func newInFlightLimits(g *gate.Gate, opts Options) *inFlightLimits {
	p := &inFlightLimits{
		requests: newInFlight(g.Requests),
		standby:  newInFlight(gate.NewPlaces(mostStandby, "the most requests for worker IDs", g.Log)),
		events:   newInFlight(gate.NewPlaces(mostStandby, "the most requests for events", g.Log)),
		results:  newInFlight(gate.NewPlaces(mostDownloads, "the most downloads", g.Log)),
		reloads:  newInFlight(gate.NewPlaces(mostReloads, "the most reloads", g.Log)),
	}
	if opts.Metrics != nil {
		p.scrapes = newInFlight(gate.NewPlaces(mostScrapes, "the most requests for metrics", g.Log))
	}
	return p
}

// of returns the limit for a request, or nil for none. Probes of load balancers and
// orchestrators must be answered under overload too: otherwise the process would be killed, and its
// load would fall on the others. Scrapes of Prometheus must be answered as well, because they show
// the overload. They have places of their own, so that they cannot be used to exceed the limit.
// Requests for worker IDs and for events may wait for a minute, and downloads may take hours: these must
// not keep others out. A reload may be what ends the overload.
func (p *inFlightLimits) of(c *gin.Context) *inFlight {
	switch c.FullPath() {
	case "/healthz", "/readyz":
		return nil
	case metricsPath:
		return p.scrapes
	case workersRoute:
		return p.standby
	case eventsRoute:
		return p.events
	case resultRoute, snapshotPath:
		return p.results
	case auditPath, resourceRoute:
		if downloads(c) {
			return p.results
		}
	case ReloadPath, levelPath:
		return p.reloads
	}
	return p.requests
}
