package httpapi

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// Metrics counts requests and shows what was counted. It is safe for concurrent use.
type Metrics interface {
	// Route returns what is called for each request of a route that was answered. It is on the hot
	// path. The route is a path as in the description, such as /seq/{bizType}, or [NoRoute].
	Route(pattern string) (count func(method string, status int))
	// Exposition returns all that was counted in the text format of Prometheus or as OpenMetrics,
	// compressed by gzip or not, and its content type. The body is not changed. It waits for no
	// back end.
	Exposition(openMetrics, compressed bool) (body []byte, contentType string, err error)
}

// NoRoute is what requests are counted under that no route is for, or none with their method.
const NoRoute = "none"

const metricsPath = "/metrics"

// Header values of /metrics; they are never written to.
var (
	gzipped          = []string{"gzip"}
	byAcceptEncoding = []string{"Accept, Accept-Encoding"}
)

// routeMetrics adds the route of the metrics, where there are some.
func (a *API) routeMetrics() {
	if a.opts.Metrics == nil {
		return
	}
	a.scrapes = newInFlight(mostScrapes, "the most requests for metrics", a.opts.Log)
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		a.engine.Handle(method, metricsPath, a.metrics)
	}
}

// countRoutes has the requests of every route counted. It comes after all routes.
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

// counted counts a request that was answered. It must be deferred before what answers panics.
func (a *API) counted(c *gin.Context) { a.counters[c.FullPath()](c.Request.Method, c.Writer.Status()) }

// metrics answers /metrics, also while the service starts, stops, has too much to do or cannot
// reach what is behind it.
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

// wantsOpenMetrics reports whether the Accept header prefers OpenMetrics to text; neither named
// means text.
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

// preferences yields what a header lists, in lower case and without parameters, and the quality of
// each.
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

// keyed counts what came of requests with an Idempotency-Key.
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

// Load is how much there is to do, and was.
type Load struct {
	// InFlight are the requests that are being answered, without probes and scrapes; Connections
	// those that are open, 0 where they are not known.
	InFlight, Connections int64
	// Shed are the requests that were refused for Options.MaxInFlight and MaxInFlightBytes, Refused
	// the connections that were closed for ListenerOptions.MaxConnections.
	Shed, Refused int64
	// Issued, Replayed and Failed are what came of requests with an Idempotency-Key.
	Issued, Replayed, Failed int64
}

// Load tells how much there is to do. It waits for nobody and is safe for concurrent use.
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
