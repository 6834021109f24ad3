package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// Metrics counts requests and shows the counts. It is safe for concurrent use.
type Metrics interface {
	// Route returns the function that counts the requests of a route. It is called for each
	// request, so it must be fast. pattern is a path as in the description, such as /seq/{bizType},
	// or [NoRoute].
	Route(pattern string) (count func(method string, status int))
	// Exposition returns all metrics in the text format of Prometheus or as OpenMetrics, with or
	// without gzip, and its content type. The caller must not modify the body. Exposition waits for
	// no back end.
	Exposition(openMetrics, compressed bool) (body []byte, contentType string, err error)
}

// NoRoute is the route of requests whose path, or method, the API does not know.
const NoRoute = "none"

const metricsPath = "/metrics"

// Header values of /metrics. Do not modify them.
var (
	gzipped          = []string{"gzip"}
	byAcceptEncoding = []string{"Accept, Accept-Encoding"}
)

// routeMetrics adds the route /metrics if there are metrics.
func (a *API) routeMetrics() {
	if a.opts.Metrics == nil {
		return
	}
	a.scrapes = newInFlight(mostScrapes, "the most requests for metrics", a.opts.Log)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a.engine.Handle(method, metricsPath, a.metrics)
	}
}

// countRoutes prepares the counting of every route. Call it after all routes were added.
func (a *API) countRoutes() {
	if a.opts.Metrics == nil {
		return
	}
	a.counters = map[string]func(string, int){"": a.opts.Metrics.Route(NoRoute)}
	for _, r := range a.engine.Routes() {
		if a.counters[r.Path] == nil {
			a.counters[r.Path] = a.opts.Metrics.Route(pattern(r.Path))
		}
	}
}

// counted counts a request that was answered. Defer it before the function that recovers from
// panics.
func (a *API) counted(c *gin.Context) { a.counters[c.FullPath()](c.Request.Method, c.Writer.Status()) }

// metrics answers /metrics, even while the service starts, stops, is overloaded or cannot reach its
// back ends.
func (a *API) metrics(c *gin.Context) {
	compressed := acceptsGzip(c.Request.Header["Accept-Encoding"])
	body, contentType, err := a.opts.Metrics.Exposition(wantsOpenMetrics(c.Request.Header["Accept"]), compressed)
	if err != nil {
		a.fail(c, err)
		return
	}
	header := c.Writer.Header()
	if compressed {
		header["Content-Encoding"] = gzipped
	}
	header["Vary"] = byAcceptEncoding
	header["Cache-Control"] = noStore
	write(c, http.StatusOK, []string{contentType}, body)
}

// wantsOpenMetrics reports whether the Accept header prefers OpenMetrics to text. Without a
// preference it returns false.
func wantsOpenMetrics(accept []string) bool {
	var open, text float64
	for name, q := range preferences(accept) {
		switch name {
		case "application/openmetrics-text":
			open = max(open, q)
		case "text/plain":
			text = max(text, q)
		}
	}
	return open > 0 && open >= text
}

// acceptsGzip reports whether the Accept-Encoding header names gzip, or all encodings.
func acceptsGzip(accept []string) bool {
	named, any := -1.0, 0.0
	for name, q := range preferences(accept) {
		switch name {
		case "gzip":
			named = max(named, q)
		case "*":
			any = q
		}
	}
	if named >= 0 {
		return named > 0
	}
	return any > 0
}

// preferences yields the values that a header lists, in lower case and without parameters, with the
// quality of each.
func preferences(lines []string) func(yield func(string, float64) bool) {
	return func(yield func(string, float64) bool) {
		for _, line := range lines {
			for entry := range strings.SplitSeq(line, ",") {
				name, params, _ := strings.Cut(entry, ";")
				if !yield(strings.ToLower(strings.TrimSpace(name)), quality(params)) {
					return
				}
			}
		}
	}
}

// keyed counts requests with an Idempotency-Key by outcome.
type keyed struct{ issued, replayed, failed atomic.Int64 }

func (k *keyed) count(replayed string, err error) {
	switch {
	case err != nil:
		k.failed.Add(1)
	case replayed != "":
		k.replayed.Add(1)
	default:
		k.issued.Add(1)
	}
}

// Load is the current and past load.
type Load struct {
	// InFlight are the requests being answered, except probes and scrapes. Connections are the open
	// connections, 0 if they are not known.
	InFlight, Connections int64
	// Shed are the requests refused because of Options.MaxInFlight or MaxInFlightBytes. Refused are
	// the connections closed because of ListenerOptions.MaxConnections.
	Shed, Refused int64
	// Issued, Replayed and Failed count requests with an Idempotency-Key by outcome.
	Issued, Replayed, Failed int64
}

// Load returns the load. It does not block and is safe for concurrent use.
func (a *API) Load() Load {
	l := Load{
		InFlight: a.inFlight.now.Load(), Shed: a.inFlight.refused.all.Load() + a.room.refused.all.Load(),
		Issued: a.keyed.issued.Load(), Replayed: a.keyed.replayed.Load(), Failed: a.keyed.failed.Load(),
	}
	if known := a.listener.Load(); known != nil {
		l.Connections, l.Refused = known.open.Load(), known.refused.all.Load()
	}
	return l
}
