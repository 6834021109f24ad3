package metrics

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// methods are the methods with labels of their own. The last one stands for all others.
var methods = [...]string{"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}

// statuses are the statuses with labels of their own. 0 stands for all others.
var statuses = [...]int{
	0, 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 409, 412, 413, 414, 415, 422, 429, 431, 500, 503,
}

// statusIndex maps a status to its index in statuses.
var statusIndex = func() (index [600]uint8) {
	for i, status := range statuses {
		index[status] = uint8(i)
	}
	return index
}()

// route counts the requests of one route.
type route struct {
	pattern string
	took    *timings
	counts  [len(methods)][len(statuses)]atomic.Int64
}

// Route returns the function that counts the requests of a route, such as /seq/{bizType}. Call it
// once per route of the program.
func (m *Metrics) Route(pattern string) (count func(method string, status int, took time.Duration)) {
	r := &route{pattern: pattern, took: m.requests}
	m.mu.Lock()
	m.routes = append(m.routes, r)
	m.mu.Unlock()
	return r.count
}

func (r *route) count(method string, status int, took time.Duration) {
	r.took.observe(r.pattern, took)
	s := 0
	if status >= 0 && status < len(statusIndex) {
		s = int(statusIndex[status])
	}
	r.counts[methodIndex(method)][s].Add(1)
}

func methodIndex(method string) int {
	for i := range len(methods) - 1 {
		if methods[i] == method {
			return i
		}
	}
	return len(methods) - 1
}

// collectRoutes sends the counters of all routes that are not 0.
func (m *Metrics) collectRoutes(to chan<- prometheus.Metric) {
	m.mu.Lock()
	routes := m.routes
	m.mu.Unlock()
	for _, r := range routes {
		for i, method := range methods {
			for j, status := range statuses {
				if n := r.counts[i][j].Load(); n > 0 {
					requestsTotal.send(to, float64(n), r.pattern, method, statusLabel(status))
				}
			}
		}
	}
}

func statusLabel(status int) string {
	if status == 0 {
		return "other"
	}
	return strconv.Itoa(status)
}
