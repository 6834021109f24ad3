package seqd_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
)

// A plugin whose Close blocks: Close of the issuer must end with its context, as it does for strategies and stores.
func TestRev6PluginCloseHangs(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	is := newIssuer(t, seqd.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "stuck", Plugin: &closing{hooks{close: func(context.Context) error {
		<-stuck
		return nil
	}}}}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() { _ = is.Close(ctx); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		t.Error("Close of the issuer hangs 2 s after its context has ended")
	}
}

// Close is promised to come after the last call to everything else; an abandoned call still runs.
func TestRev6CloseWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		running, closedWhile := false, false
		p := &closing{hooks{
			before: func(context.Context, *seqd.Call) error { running = true; <-goOn; running = false; return nil },
			close:  func(context.Context) error { closedWhile = running; return nil },
		}}
		is := newIssuer(t, seqd.Options{PluginTimeout: time.Second}, order(&counting{}, seqd.BoundPlugin{Name: "slow", Plugin: p}))
		if _, err := is.Next(t.Context(), "order", 1); seqd.CodeOf(err) != seqd.CodeTimeout {
			t.Fatal(err)
		}
		if err := is.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		synctest.Wait()
		if closedWhile {
			t.Error("Close was called while Before was running")
		}
	})
}

// docs/PLUGINS.md: "the numbers themselves cannot be changed".
func TestRev6PluginChangesNumbers(t *testing.T) {
	p := &hooks{after: func(_ context.Context, call *seqd.Call) error {
		call.Sequence.Reset()
		call.Sequence.Add(7, call.Count, 1)
		return nil
	}}
	is := newIssuer(t, seqd.Options{}, order(&counting{}, seqd.BoundPlugin{Name: "p", Quick: true, Plugin: p}))
	a, errA := is.Next(t.Context(), "order", 1)
	b, errB := is.Next(t.Context(), "order", 1)
	if errA == nil && errB == nil && a.First() == b.First() {
		t.Errorf("%d was issued twice", a.First())
	}
}
