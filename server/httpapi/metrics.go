package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/gate"
)

// Metrics counts requests and shows the counts. It is safe for concurrent use.
type Metrics interface {
	// Route returns the function that counts the requests of a route. It is called for each
	// request, so it must be fast. pattern is a path as in the description, such as /seq/{bizType},
	// or [NoRoute].
	Route(pattern string) (count func(method string, status int, took time.Duration))
	// Exposition returns all metrics as text/plain, [OpenMetrics] or [Protobuf], with or without gzip,
	// and the content type. The caller must not modify the body. Exposition waits for no back end.
	Exposition(form string, compressed bool) (body []byte, contentType string, err error)
}

// NoRoute is the route of requests whose path, or method, the API does not know.
const NoRoute = "none"

const metricsPath = "/metrics"

// Header values of /metrics. Do not modify them.
var (
	gzipped          = []string{"gzip"}
	byAcceptEncoding = []string{"Accept, Accept-Encoding"}
)

// routeCounters count the requests of each route, by gin's name of the route.
type routeCounters map[string]func(method string, status int, took time.Duration)

// newRouteCounters returns the counters of the routes.
func newRouteCounters(m Metrics, routes gin.RoutesInfo) routeCounters {
	counters := routeCounters{"": m.Route(NoRoute)}
	for _, r := range routes {
		if counters[r.Path] == nil {
			counters[r.Path] = m.Route(pattern(r.Path))
		}
	}
	return counters
}

// count counts a request that was answered. Defer it before the function that recovers from panics.
// began is uptime when the request began.
func (r routeCounters) count(c *gin.Context, began time.Duration) {
	r[c.FullPath()](c.Request.Method, meantStatus(c), uptime()-began)
}

// uptime is how long the process has run. It reads one clock, and time.Now two.
func uptime() time.Duration { return time.Since(started) }

var started = time.Now()

// meantStatus returns the status of the answer. If a drop-in refused the request, it is the status
// of the error code: the protocols of drop-ins answer mistakes of callers with 500, or failures
// with 200.
func meantStatus(c *gin.Context) int {
	if code := c.Writer.Header()["Seqd-Error"]; code != nil {
		return gate.StatusOf(seqd.Code(code[0]))
	}
	return c.Writer.Status()
}

// metricsRoute serves /metrics.
type metricsRoute struct{ metrics Metrics }

// show answers /metrics even while the service starts, stops, is overloaded or cannot reach its
// back ends.
func (m metricsRoute) show(c *gin.Context) error {
	compressed := AcceptsGzip(c.Request.Header["Accept-Encoding"])
	body, contentType, err := m.metrics.Exposition(metricsForm(c.Request.Header["Accept"]), compressed)
	if err != nil {
		return err
	}
	header := c.Writer.Header()
	if compressed {
		header["Content-Encoding"] = gzipped
	}
	header["Vary"] = byAcceptEncoding
	header["Cache-Control"] = noStore
	write(c, http.StatusOK, []string{contentType}, body)
	return nil
}
