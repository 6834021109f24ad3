// Package openloop loads an HTTP server at a fixed rate, whether or not answers come, and measures
// how long each request took from the moment it was due.
//
// A closed loop sends a request only after the previous answer. While the server stalls, it sends
// nothing: a stall of one second that would have delayed a thousand requests shows up as one slow
// request ("coordinated omission", Gil Tene). In an open loop, request n is due at n/rate. It is
// sent over an idle connection of the pool, in the order in which requests were due. Its time
// counts from when it was due, and so includes the wait for a connection and the lateness of the
// generator itself. [Report.Late] is that lateness. To keep it small, one thread does everything,
// with epoll and a timer.
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
	// Keys is the beginning of the Idempotency-Key of each request. All keys differ. "" sends none.
	Keys string
	// Spread varies the path of the requests if it is above 0: the six digits at the end of the URL
	// are replaced by a random number below Spread. If InOrder is set the numbers come in order.
	Spread  int
	InOrder bool
	// Rate is the number of requests a second. 0 is a closed loop: every connection sends its next
	// request after the answer to the previous one.
	Rate        float64
	Connections int
	// Duration is how long requests are sent. It starts after Warm, during which requests are sent
	// but do not count.
	Warm, Duration time.Duration
	// Most bounds the number of requests, the warm-up included; 0 means no bound.
	Most int
	// Patience is how long to wait for answers after Duration; 0 means 10 s. A request without an
	// answer counts as if answered at the end of Patience.
	Patience time.Duration
}

// Report is the result of a load.
type Report struct {
	Sent       int         `json:"sent"`   // requests that were due within Duration
	All        int         `json:"all"`    // and those of the warm-up
	Status     map[int]int `json:"status"` // number of answers by status
	Unanswered int         `json:"unanswered"`
	// Rate is the number of answers a second, from when the first request was due to the last
	// answer.
	Rate float64 `json:"rate"`
	// Took are the times of the answers with a status below 400, or of all requests if there was no
	// such answer. Late is how late requests were sent although a connection was idle.
	Took Percentiles `json:"took"`
	Late Percentiles `json:"late"`
	// CPU is the processor time that the generator used, in seconds.
	CPU float64 `json:"cpu"`
}

// Percentiles are exact percentiles in µs: every value is kept.
type Percentiles struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Most float64 `json:"slowest"`
}

// Good returns the number of answers with a status below 400.
func (r Report) Good() (n int) {
	for status, times := range r.Status {
		if status < 400 {
			n += times
		}
	}
	return n
}

// Run runs a load. It keeps its thread to itself.
func Run(ctx context.Context, job Job) (Report, error) {
	recording, err := record(ctx, job)
	if err != nil {
		return Report{}, err
	}
	return recording.report(), nil
}

// event is the outcome of one request. Times are in ns since the beginning.
type event struct {
	due, sent, done int64 // without an answer, done is when patience ended
	status          int   // 0 for no answer
	waited          bool  // it waited for a connection
}

// recording has every request of a load that counts.
type recording struct {
	begin  time.Time
	events []event
	all    int // requests, with those of the warm-up
	cpu    float64
}

func record(ctx context.Context, job Job) (h recording, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if job.Connections < 1 || job.Duration <= 0 || job.Rate < 0 {
		return h, fmt.Errorf("invalid load: %d connections for %s at %g a second", job.Connections, job.Duration, job.Rate)
	}
	target, err := url.Parse(job.URL)
	if err != nil {
		return h, err
	}
	before := CPUTime()
	p, err := open(target, job)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.run(ctx); err != nil {
		return h, fmt.Errorf("load %s: %w", job.URL, err)
	}
	all := len(p.events)
	counted := slices.DeleteFunc(p.events, func(e event) bool { return e.due < job.Warm.Nanoseconds() })
	return recording{begin: p.begin, events: counted, all: all, cpu: CPUTime() - before}, nil
}

func (h recording) report() Report {
	r := Report{Sent: len(h.events), All: h.all, Status: make(map[int]int), CPU: h.cpu}
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

// CPUTime returns the processor time that this process has used, in seconds.
func CPUTime() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
