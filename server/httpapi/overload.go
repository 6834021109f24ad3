package httpapi

import (
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// inFlight limits how many requests are answered at once. There is no queue: a request without a
// place is refused at once and can go to another node, and the others are answered as fast as ever.
type inFlight struct {
	busyReply
	most int64
	now  atomic.Int64
}

// busyReply refuses requests for lack of places or room.
type busyReply struct {
	before  []byte // the answer up to its request ID
	refused episodes
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

// lastShed is when a request of a connection was last refused, in nanoseconds since 1970; 0 means
// never.
type lastShed struct{ atomic.Int64 }

// ConnContext is for [http.Server]. It lets the API recognise connections that return too early
// after a refusal.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(lastShed))
}

// tooEarly records a refusal and reports whether the previous refusal on the connection was less
// than retryAfter ago.
func tooEarly(r *http.Request) bool {
	last, known := r.Context().Value(connKey{}).(*lastShed)
	if !known {
		return false
	}
	now := time.Now().UnixNano()
	before := last.Swap(now)
	return before != 0 && now-before < int64(retryAfter) && now >= before
}

// newInFlight returns a limit. bound is what the limit is called in its answers.
func newInFlight(most int, bound string, log *slog.Logger) *inFlight {
	detail := strconv.Itoa(most) + " requests are being answered already"
	return &inFlight{
		busyReply: newBusyReply(detail, "requests were refused: "+bound+" are being answered", log),
		most:      orNone(int64(most)),
	}
}

// newBusyReply returns a reply with that detail, which must need no escaping in JSON. message is
// logged.
func newBusyReply(detail, message string, log *slog.Logger) busyReply {
	p := newProblem(&seqd.Error{Code: seqd.CodeOverloaded, Detail: detail})
	before := `{"type":"` + p.Type + `","title":"` + p.Title + `","status":` + strconv.Itoa(p.Status) + `,"code":"` + string(p.Code) + `","detail":"` + p.Detail + `","requestId":"`
	return busyReply{before: []byte(before), refused: episodes{log: log, message: message}}
}

// orNone converts 0 to no limit.
func orNone(most int64) int64 {
	if most == 0 {
		return math.MaxInt64
	}
	return most
}

// enter takes a place, and reports whether there was one. If not, it writes nothing to memory, so
// that refused requests do not slow down the others.
func (f *inFlight) enter() bool {
	for {
		n := f.now.Load()
		if n >= f.most {
			return false
		}
		if f.now.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave frees the place.
func (f *inFlight) leave() { f.now.Add(-1) }

// answer refuses a request, at once if the caller heeds Retry-After. It creates nothing but the
// request ID, because it must cost less than what it refuses.
func (f *busyReply) answer(c *gin.Context) {
	f.refused.count()
	if tooEarly(c.Request) {
		time.Sleep(impatience)
	}
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	header["Retry-After"] = oneSecond
	x := exchanges.Get().(*exchange)
	defer x.release()
	x.body = append(x.body, f.before...)
	x.body = append(x.body, requestID(c)...) // a checked ID needs no escaping
	x.body = append(x.body, `"}`...)
	write(c, http.StatusServiceUnavailable, problemType, x.body)
}

// places are the limits of requests.
type places struct {
	requests *inFlight
	scrapes  *inFlight // of /metrics; nil without metrics
}

func newPlaces(opts Options) *places {
	p := &places{requests: newInFlight(opts.MaxInFlight, "server.maxInFlight", opts.Log)}
	if opts.Metrics != nil {
		p.scrapes = newInFlight(mostScrapes, "the most requests for metrics", opts.Log)
	}
	return p
}

// of returns the limit for a request, or nil for none. Probes of load balancers and
// orchestrators must be answered under overload too: otherwise the process would be killed, and its
// load would fall on the others. Scrapes of Prometheus must be answered as well, because they show
// the overload. They have places of their own, so that they cannot be used to exceed the limit.
func (p *places) of(c *gin.Context) *inFlight {
	switch c.FullPath() {
	case "/healthz", "/readyz":
		return nil
	case metricsPath:
		return p.scrapes
	}
	return p.requests
}

// logEvery is the shortest time between two log lines of the same kind.
const logEvery = 10 * time.Second

// episodes logs something that may happen very often, with a count, at once and then at most every
// logEvery. It is safe for concurrent use.
type episodes struct {
	log     *slog.Logger
	message string
	all     atomic.Int64 // how often it happened
	unsaid  atomic.Int64
	last    atomic.Int64 // when it was last logged, nanoseconds since 1970
}

func (e *episodes) count() {
	e.all.Add(1)
	e.unsaid.Add(1)
	now, last := time.Now().UnixNano(), e.last.Load()
	if (now-last >= int64(logEvery) || now < last) && e.last.CompareAndSwap(last, now) {
		e.log.Warn(e.message, "count", e.unsaid.Swap(0))
	}
}
