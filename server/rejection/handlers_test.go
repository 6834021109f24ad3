package rejection

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/webhook"
)

// TestMeasureHandlers: each handler in use has a name of its own for as long as it is in use.
func TestMeasureHandlers(t *testing.T) {
	h := New(Options{CloseTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Env: plugin.Env{Now: time.Now, Log: slog.New(slog.DiscardHandler)}})
	hook := func(queue int) seqd.RejectedBinding {
		s := webhook.DefaultSettings()
		s.URL, s.Queue = "http://127.0.0.1:1/", queue
		return seqd.RejectedBinding{Name: "webhook", Settings: &s}
	}
	sizes := func() map[string]float64 {
		got := make(map[string]float64)
		h.Measure(func(handler string, m seqd.Measurement) {
			if m.Gauge == seqd.GaugeQueueSize {
				got[handler] = m.Value
			}
		})
		return got
	}
	want := func(want map[string]float64) {
		t.Helper()
		if got := sizes(); !maps.Equal(got, want) {
			t.Errorf("measured %v, want %v", got, want)
		}
	}
	want(map[string]float64{})
	var bindings []seqd.RejectedBinding
	for i := range 3 {
		bindings = append(bindings, hook(100+i))
		if _, err := h.Use(bindings); err != nil { // the earlier ones are shared
			t.Fatal(err)
		}
	}
	want(map[string]float64{"webhook:1": 100, "webhook:2": 101, "webhook:3": 102})
	h.Release(bindings[1:])
	h.Release(bindings[1:2])
	want(map[string]float64{"webhook:1": 100})
	bindings = append(bindings, hook(103))
	must.Get(h.Use(bindings[3:]))(t)
	want(map[string]float64{"webhook:1": 100, "webhook:2": 103})
	must.Report(t, h.Close(t.Context()))
}

// closing counts how often a handler is closed.
type closing struct {
	seqd.RejectedHandler
	closed atomic.Int64
}

func (c *closing) Close(context.Context) error {
	c.closed.Add(1)
	return nil
}

// A handler whose last biz type ends while the service stops is closed once.
func TestHandlersAreClosedOnce(t *testing.T) {
	h := New(Options{CloseTimeout: time.Second, Log: slog.New(slog.DiscardHandler), Env: plugin.Env{Now: time.Now, Log: slog.New(slog.DiscardHandler)}})
	made := &closing{}
	h.made = map[binding]*shared{{name: "closing"}: {RejectedHandler: made, users: 1}}
	synctest.Test(t, func(t *testing.T) {
		must.Report(t, h.Close(t.Context()))
		h.Release([]seqd.RejectedBinding{{Name: "closing"}})
		synctest.Wait()
	})
	must.Equal(t, made.closed.Load(), 1, "the times that it was closed")
}

// rude is a handler that panics when it is measured or closed.
type rude struct{ seqd.RejectedHandler }

func (rude) Close(context.Context) error          { panic("never") }
func (rude) Measure(func(value seqd.Measurement)) { panic("never") }

// A handler that panics when it is measured or closed ends neither the process nor what is done
// with others.
func TestHandlerThatPanics(t *testing.T) {
	h := New(Options{CloseTimeout: time.Second, Log: slog.New(slog.DiscardHandler)})
	made := &closing{}
	h.made = map[binding]*shared{
		{name: "unused"}: {RejectedHandler: rude{}, users: 1}, {name: "rude"}: {RejectedHandler: rude{}, users: 1},
		{name: "closing"}: {RejectedHandler: made, users: 1},
	}
	synctest.Test(t, func(t *testing.T) {
		h.Release([]seqd.RejectedBinding{{Name: "unused"}})
		synctest.Wait()
		h.Measure(func(string, seqd.Measurement) {})
		if err := h.Close(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked") {
			t.Errorf("error %v", err)
		}
	})
	must.Equal(t, made.closed.Load(), 1, "the times that it was closed")
}
