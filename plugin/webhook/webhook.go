// Package webhook is the rejection handler that posts refusals as JSON to a URL. It has a queue and
// one goroutine that posts, so that a receiver that is slow, hangs or is gone never slows issuing.
// Refusals that do not fit into the queue are counted, and the next POST reports their number.
//
// [Webhook] is the handler. Its worker is in webhook.go, and a POST with its retries in post.go.
package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/outbound"
	"github.com/seqd/seqd/plugin"
)

const name = "webhook"

func init() {
	plugin.RegisterRejected(plugin.RejectedFactory{
		Name: name,
		Help: "Posts refusals as JSON to a URL.",
		Settings: func() any {
			s := DefaultSettings()
			return &s
		},
		New: func(env plugin.Env, binding seqd.RejectedBinding) (seqd.RejectedHandler, error) {
			settings, ok := binding.Settings.(*Settings)
			if !ok {
				return nil, fmt.Errorf("the settings are a %T", binding.Settings)
			}
			return New(*settings, env.Now, env.Log)
		},
	})
}

// Refusal is one refusal as it is posted.
type Refusal struct {
	BizType string    `json:"bizType"`
	Code    seqd.Code `json:"code"`
	// Detail is what the caller saw, never the cause behind it.
	Detail string `json:"detail"`
	// Count is how many numbers were requested.
	Count     int       `json:"count"`
	Caller    string    `json:"caller,omitempty"`
	Addr      string    `json:"addr,omitempty"`
	RequestID string    `json:"requestId,omitempty"`
	At        time.Time `json:"at"`
}

// Post is the body of a POST.
type Post struct {
	// Refused are the refusals, oldest first.
	Refused []Refusal `json:"refused"`
	// Dropped is how many refusals were not posted since the last successful POST, because the
	// queue was full or a POST was given up.
	Dropped int64 `json:"dropped"`
}

// Webhook posts refusals. It is safe for concurrent use.
type Webhook struct {
	settings Settings
	url      *url.URL
	client   *http.Client
	now      func() time.Time
	log      *slog.Logger

	queue   chan Refusal
	dropped atomic.Int64 // not reported by a POST yet
	lost    atomic.Int64 // in total

	begin   sync.Once          // starts the worker at the first refusal
	open    context.Context    // ends when the handler is closed
	stop    context.CancelFunc // cancels open
	done    chan struct{}      // closed when the worker has ended
	sending context.Context    // ends when Close no longer waits
	cut     context.CancelFunc // cancels sending, and with it the current POST
	failing bool               // the last POST failed; only the worker uses it
}

var (
	_ seqd.RejectedHandler = (*Webhook)(nil)
	_ seqd.Closer          = (*Webhook)(nil)
	_ seqd.Measurer        = (*Webhook)(nil)
)

// New returns a handler, or an error for an invalid URL. It connects to nothing before the first
// refusal.
func New(settings Settings, now func() time.Time, log *slog.Logger) (*Webhook, error) {
	target, err := outbound.ParseURL(settings.URL)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	w := &Webhook{
		settings: settings, url: target, client: &http.Client{Transport: outbound.NewTransport(1)}, now: now, log: log.With("handler", name, "host", target.Host),
		queue: make(chan Refusal, settings.Queue), done: make(chan struct{}),
	}
	w.sending, w.cut = context.WithCancel(context.Background())
	w.open, w.stop = context.WithCancel(w.sending)
	return w, nil
}

// Rejected queues a refusal, or counts it if the queue is full. It never waits. It ignores callers
// that went away.
func (w *Webhook) Rejected(_ context.Context, call *seqd.Call, err *seqd.Error) {
	if err.Code == seqd.CodeCanceled {
		return
	}
	w.begin.Do(func() { go w.work() })
	refusal := Refusal{
		BizType: call.BizType, Code: err.Code, Detail: err.Detail, Count: call.Count,
		Caller: call.Caller.Name, Addr: call.Caller.Addr, RequestID: call.Caller.RequestID, At: w.now().UTC(),
	}
	select {
	case w.queue <- refusal:
	default:
		w.drop(1)
	}
}

// drop counts refusals that are not posted.
func (w *Webhook) drop(n int) {
	w.dropped.Add(int64(n))
	w.lost.Add(int64(n))
}

// Measure implements [seqd.Measurer]: the refusals that wait and those that were not posted.
func (w *Webhook) Measure(tell func(seqd.Measurement)) {
	tell(seqd.Measurement{Gauge: seqd.GaugeQueued, Value: float64(len(w.queue))})
	tell(seqd.Measurement{Gauge: seqd.GaugeQueueSize, Value: float64(cap(w.queue))})
	tell(seqd.Measurement{Gauge: seqd.GaugeDropped, Value: float64(w.lost.Load())})
}

// Close posts what is queued, each POST once, and returns when that is done or ctx ends. Its error
// says how many refusals were lost then. If the receiver fails meanwhile, nothing is retried, and
// the loss is logged.
func (w *Webhook) Close(ctx context.Context) error {
	w.stop()
	w.begin.Do(func() { close(w.done) }) // nothing was ever refused
	defer w.client.CloseIdleConnections()
	select {
	case <-w.done:
		w.cut()
		return nil
	case <-ctx.Done():
	}
	w.cut()
	<-w.done // cut ends the POST that the worker may be waiting for
	return fmt.Errorf("webhook to %s: %d refusals were not posted: %w", w.url.Host, w.dropped.Load(), ctx.Err())
}

// work posts until the handler is closed.
func (w *Webhook) work() {
	defer close(w.done)
	for w.open.Err() == nil {
		select {
		case first := <-w.queue:
			w.post(w.collect(first))
		case <-w.open.Done():
		}
	}
	w.flush()
}

// flush posts what is left, until a POST fails.
func (w *Webhook) flush() {
	for accepted := true; ; {
		select {
		case first := <-w.queue:
			batch := w.collect(first)
			if !accepted {
				w.drop(len(batch))
				continue
			}
			accepted = w.post(batch)
		default:
			if lost := w.dropped.Load(); lost > 0 {
				w.log.Warn("refusals were not posted before the service stopped", "dropped", lost)
			}
			return
		}
	}
}

// collect returns a refusal and those behind it in the queue, as many as fit into one POST.
func (w *Webhook) collect(first Refusal) []Refusal {
	batch := append(make([]Refusal, 0, min(w.settings.Batch, len(w.queue)+1)), first)
	for len(batch) < w.settings.Batch {
		select {
		case next := <-w.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}
