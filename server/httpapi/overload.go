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

// inFlight bounds how many requests are answered at once. There is no queue: whoever finds no place
// is told so at once and can go elsewhere, while those that have one are answered as fast as ever.
type inFlight struct {
	refusal
	most int64
	now  atomic.Int64
}

// refusal answers requests that there is no place or no room for.
type refusal struct {
	before  []byte // the answer, up to its request ID
	refused episodes
}

// mostScrapes is how many requests for metrics are answered at once: more than any number of
// Prometheus servers asks for, and few enough that asking all the time takes nothing from issuing.
const mostScrapes = 64

// retryAfter is when a client that was refused shall come back.
const retryAfter = time.Second

// oneSecond is retryAfter as a header; it is never written to.
var oneSecond = []string{"1"}

// impatience is how long a refusal waits for a client that comes back on the same connection before
// retryAfter has passed. Answering each at once would let clients that ask again at once take the
// processor from those that are served.
const impatience = 100 * time.Millisecond

// connKey finds what is known of a connection in the context of its requests.
type connKey struct{}

// lastRefusal is when a connection was refused last, in nanoseconds since 1970; 0 for never.
type lastRefusal struct{ atomic.Int64 }

// ConnContext is for [http.Server]: with it the API knows which connections come back too early
// after a refusal. Without it none does.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, new(lastRefusal))
}

// tooEarly notes a refusal and reports whether the connection was refused less than retryAfter ago.
func tooEarly(r *http.Request) bool {
	last, known := r.Context().Value(connKey{}).(*lastRefusal)
	if !known {
		return false
	}
	now := time.Now().UnixNano()
	before := last.Swap(now)
	return before != 0 && now-before < int64(retryAfter) && now >= before
}

// newInFlight returns places whose bound is called bound.
func newInFlight(most int, bound string, log *slog.Logger) *inFlight {
	detail := strconv.Itoa(most) + " requests are being answered already"
	return &inFlight{
		refusal: newRefusal(detail, "requests were refused: "+bound+" are being answered", log),
		most:    orNone(int64(most)),
	}
}

// newRefusal returns a refusal whose detail needs no escaping in JSON, and what is logged of it.
func newRefusal(detail, message string, log *slog.Logger) refusal {
	p := newProblem(&seqd.Error{Code: seqd.CodeOverloaded, Detail: detail})
	before := `{"type":"` + p.Type + `","title":"` + p.Title + `","status":` + strconv.Itoa(p.Status) + `,"code":"` + string(p.Code) + `","detail":"` + p.Detail + `","requestId":"`
	return refusal{before: []byte(before), refused: episodes{log: log, message: message}}
}

// orNone reads 0 as no bound.
func orNone(most int64) int64 {
	if most == 0 {
		return math.MaxInt64
	}
	return most
}

// enter takes a place. Where there is none it writes nothing, so that requests without one do not
// slow down those with one.
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

// leave gives the place back.
func (f *inFlight) leave() { f.now.Add(-1) }

// answer refuses a request, at once if its caller heeds Retry-After. It makes nothing but the
// request ID, for it must cost less than what it refuses.
func (f *refusal) answer(c *gin.Context) {
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

// places returns where a request has to find a place, nil for nowhere. What balancers and
// orchestrators ask must be answered above all when there is much to do: else they would end the
// process, and its load would fall on the others. What Prometheus asks must be answered then as
// well, for it is what the overload is seen by; it has places of its own, so that asking too often
// is no way around the bound.
func (a *API) places(c *gin.Context) *inFlight {
	switch c.FullPath() {
	case "/healthz", "/readyz":
		return nil
	case metricsPath:
		return a.scrapes
	}
	return a.inFlight
}

// logEvery is the shortest time between two log lines of the same kind.
const logEvery = 10 * time.Second

// episodes logs something that may happen very often, with how often it did, at once and then at
// most every logEvery. It is safe for concurrent use.
type episodes struct {
	log     *slog.Logger
	message string
	all     atomic.Int64 // how often it did in all
	unsaid  atomic.Int64
	last    atomic.Int64 // when it was logged, nanoseconds since 1970
}

func (e *episodes) count() {
	e.all.Add(1)
	e.unsaid.Add(1)
	now, last := time.Now().UnixNano(), e.last.Load()
	if (now-last >= int64(logEvery) || now < last) && e.last.CompareAndSwap(last, now) {
		e.log.Warn(e.message, "count", e.unsaid.Swap(0))
	}
}
