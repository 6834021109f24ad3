// Package openloop loads an HTTP server at a fixed rate, whether or not answers come, and says how
// long each request took from the moment at which it was due.
//
// A closed loop sends the next request when the last answer is here: while the server stalls it
// sends nothing, and so a stall of a second that would have kept a thousand requests waiting is one
// slow request of a thousand and one ("coordinated omission", Gil Tene). Here request n is due at
// n/rate, is sent over whichever connection of the pool is idle, first due first sent, and its time
// runs from when it was due: what it waited for a connection is part of it. So is what the
// generator itself is late by; [Report.Late] says how much that was, and to keep it small one
// thread does everything, by epoll and a timer.
package openloop

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Job is a load.
type Job struct {
	URL     string
	Method  string   // "" for GET
	Headers []string // such as "Accept: text/plain"
	// Keys gives each request an Idempotency-Key of its own, which begins with this; "" for none.
	Keys string
	// Spread, where above 0, has each request ask for another path: the six digits that the URL
	// ends with become those of a random number below it.
	Spread int
	// Rate is requests a second, 0 for a closed loop: every connection sends its next request when
	// it has its answer.
	Rate        float64
	Connections int
	// Duration is how long requests become due, after Warm, in which they do too but do not count.
	Warm, Duration time.Duration
	// Patience is how long after that answers are waited for; 10 s for 0. A request without an
	// answer took at least until then.
	Patience time.Duration
}

// Report is what came of a load.
type Report struct {
	Sent       int         `json:"sent"`   // requests that count: each was due within Duration
	Status     map[int]int `json:"status"` // how many were answered with which status
	Unanswered int         `json:"unanswered"`
	// Rate is answers a second, from the first that was due to the last answer.
	Rate float64 `json:"rate"`
	// Took are the times of the answers with a status below 400, or of all requests where there was
	// none; Late is what requests were sent after their time although a connection was idle.
	Took Percentiles `json:"took"`
	Late Percentiles `json:"late"`
	// CPU is how many seconds of a processor the generator used.
	CPU float64 `json:"cpu"`
}

// Percentiles of exactly what was measured: each request is kept. In µs.
type Percentiles struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Most float64 `json:"slowest"`
}

// Good is how many requests were answered with a status below 400.
func (r Report) Good() (n int) {
	for status, times := range r.Status {
		if status < 400 {
			n += times
		}
	}
	return n
}

// Run puts a load on a server. It takes the thread it runs on for itself.
func Run(ctx context.Context, job Job) (Report, error) {
	history, err := record(ctx, job)
	if err != nil {
		return Report{}, err
	}
	return history.report(), nil
}

// event is what became of one request, in ns since the beginning.
type event struct {
	due, sent, done int64 // done is when patience ended if there was no answer
	status          int   // 0 for no answer
	waited          bool  // for a connection
}

// history is every request of a load that counts.
type history struct {
	begin  time.Time
	events []event
	cpu    float64
}

func record(ctx context.Context, job Job) (h history, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if job.Connections < 1 || job.Duration <= 0 || job.Rate < 0 {
		return h, fmt.Errorf("a load of %d connections for %s at %g a second", job.Connections, job.Duration, job.Rate)
	}
	target, err := url.Parse(job.URL)
	if err != nil {
		return h, err
	}
	before := cpuTime()
	p, err := open(target, job)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.run(ctx); err != nil {
		return h, fmt.Errorf("load %s: %w", job.URL, err)
	}
	counted := slices.DeleteFunc(p.events, func(e event) bool { return e.due < job.Warm.Nanoseconds() })
	return history{begin: p.begin, events: counted, cpu: cpuTime() - before}, nil
}

func (h history) report() Report {
	r := Report{Sent: len(h.events), Status: make(map[int]int), CPU: h.cpu}
	var good, all, late []int64
	var last int64
	for _, e := range h.events {
		all = append(all, e.done-e.due)
		if !e.waited {
			late = append(late, e.sent-e.due)
		}
		if e.status == 0 {
			r.Unanswered++
			continue
		}
		r.Status[e.status]++
		last = max(last, e.done)
		if e.status < 400 {
			good = append(good, e.done-e.due)
		}
	}
	if len(good) == 0 {
		good = all
	}
	if last > 0 {
		r.Rate = float64(r.Sent-r.Unanswered) / time.Duration(last-h.events[0].due).Seconds()
	}
	r.Took, r.Late = percentiles(good), percentiles(late)
	return r
}

func percentiles(values []int64) Percentiles {
	slices.Sort(values)
	p := Percentiles{N: len(values)}
	if p.N == 0 {
		return p
	}
	at := func(share float64) float64 { return float64(values[int(share*float64(p.N-1))]) / 1000 }
	p.P50, p.P90, p.P99, p.P999, p.Most = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
	return p
}

// cpuTime is what this process has used, in seconds.
func cpuTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
