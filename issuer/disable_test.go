package issuer_test

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

var errOff = seqd.Errorf(seqd.CodeDisabled, "off")

// shown is a plugin that shows how many calls it has seen, and must neither be closed twice nor be
// asked when it is closed.
type shown struct {
	seqd.NopPlugin
	t             testing.TB
	calls, closed atomic.Int64
}

func (s *shown) bound() seqd.BoundPlugin {
	return seqd.BoundPlugin{Name: "shown", Quick: true, Plugin: s}
}

func (s *shown) After(context.Context, *seqd.Call) error { s.calls.Add(1); return s.open() }

func (s *shown) ResourceName() string { return "things" }

func (s *shown) Show(context.Context, url.Values) (any, error) { return s.calls.Load(), s.open() }

func (s *shown) open() error {
	must.Equal(s.t, s.closed.Load(), 0, "the times that a plugin was closed when it was asked")
	return nil
}

func (s *shown) Close(context.Context) error {
	must.Equal(s.t, s.closed.Add(1), 1, "the times that a plugin was closed")
	return nil
}

// source is a [issuer.Source].
type source func(ctx context.Context, name string) error

func (s source) Fetch(ctx context.Context, name string) error { return s(ctx, name) }

// Who reads what could not be built and is disabled, or asks for the form of what must be fetched
// first, leaves it: nothing waits for them.
func TestReadersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off, on := order(nil, (&shown{t: t}).bound()), order(&counting{}, (&shown{t: t}).bound())
		off.Disabled = errOff
		reads := newIssuer(t, issuer.Options{}, off)
		must.Code(t, must.Err(reads.ParseOf(t.Context(), "order", "1", "")), seqd.CodeDisabled)
		var fetches *issuer.Issuer
		fetches = newIssuer(t, issuer.Options{Source: source(func(ctx context.Context, name string) error {
			return fetches.Put(ctx, name, func() (issuer.Definition, error) { return on, nil })
		})})
		must.Get(fetches.Form("order"))(t)
		for _, is := range []*issuer.Issuer{reads, fetches} {
			began := time.Now()
			if shut(t, is); time.Now().After(began) {
				t.Error("Close waits for a reader")
			}
		}
	})
}

// wantShown checks what a biz type shows and reads, and what issuing gets.
func wantShown(t *testing.T, is *issuer.Issuer, want int64, issuing seqd.Code) {
	t.Helper()
	if got, err := is.Resource(t.Context(), "order", "things", nil); err != nil || got != want {
		t.Errorf("it shows %v, %v; want %d", got, err, want)
	}
	_, err := is.Resource(t.Context(), "order", "others", nil)
	must.Code(t, err, seqd.CodeNotFound)
	must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), issuing)
	if issuing == seqd.CodeDisabled {
		if p, err := is.Parse("order", "7"); err != nil || p.Number != 7 {
			t.Errorf("7 is read as %+v, %v", p, err)
		}
		must.Code(t, must.Err(is.Parse("order", "x")), seqd.CodeInvalidID)
	}
}

// An operator looks at a biz type when it is disabled: what the plugins know is shown, and counted
// on from where it was.
func TestDisabledShows(t *testing.T) {
	store, p, next := &shelf{}, &shown{t: t}, &shown{t: t}
	s, heir := &lasting{shelf: store}, &lasting{shelf: store}
	is := newIssuer(t, issuer.Options{}, order(s, p.bound()))
	wantShown(t, is, 0, "")
	for range 2 { // once more changes nothing
		must.Do(t, is.Disable(t.Context(), "order", errOff))
		wantShown(t, is, 1, seqd.CodeDisabled)
	}
	if unready, _ := is.Health(1); s.closed != 1 || p.closed.Load() != 0 || unready != nil {
		t.Errorf("the strategy was closed %d times, the plugin %d times, unready %v", s.closed, p.closed.Load(), unready)
	}
	is.States(func(s issuer.State) {
		if !s.Disabled {
			t.Errorf("the state is %+v", s)
		}
	})
	put(t, is, heir, next.bound())
	wantShown(t, is, 0, "")
	if heir.learned != s || p.closed.Load() != 1 {
		t.Errorf("learned from %v; the plugin of before was closed %d times", heir.learned, p.closed.Load())
	}
	shut(t, is)
	must.Equal(t, next.closed.Load(), 1, "the times that the plugin was closed")
}

// What is disabled from the start needs no strategy, shows what its plugins have, and is closed
// like the others.
func TestDisabledFromTheStart(t *testing.T) {
	first, second, third := &shown{t: t}, &shown{t: t}, &shown{t: t}
	resting := func(p *shown) issuer.Definition {
		return issuer.Definition{BizType: seqd.BizType{Name: "order", Settings: struct{}{}}, Disabled: errOff, Plugins: []seqd.BoundPlugin{p.bound()}}
	}
	is := newIssuer(t, issuer.Options{}, resting(first))
	is.Init(t.Context())
	wantShown(t, is, 0, seqd.CodeDisabled)
	must.Do(t, is.Put(t.Context(), "order", func() (issuer.Definition, error) { return resting(second), nil }))
	wantShown(t, is, 0, seqd.CodeDisabled)
	put(t, is, &lasting{shelf: &shelf{}}, third.bound())
	wantShown(t, is, 0, "")
	must.Do(t, is.Disable(t.Context(), "order", errOff))
	shut(t, is)
	for i, p := range []*shown{first, second, third} {
		must.Equal(t, p.closed.Load(), 1, "the times that plugin %d was closed", i)
	}
}

// What is removed shows nothing, and neither does what is disabled without plugins; that says so.
func TestRemovedShowsNothing(t *testing.T) {
	p := &shown{t: t}
	is := newIssuer(t, issuer.Options{}, order(&counting{}, p.bound()))
	must.Do(t, is.Disable(t.Context(), "order", errOff))
	if err := is.Remove(t.Context(), "order", nil); err != nil || p.closed.Load() != 1 {
		t.Errorf("%v; the plugin was closed %d times", err, p.closed.Load())
	}
	_, err := is.Resource(t.Context(), "order", "things", nil)
	must.Code(t, err, seqd.CodeUnknownBizType)
	put(t, is, &counting{})
	must.Do(t, is.Disable(t.Context(), "order", errOff))
	must.Code(t, must.Err(is.Resource(t.Context(), "order", "things", nil)), seqd.CodeNotFound)
	shut(t, is)
}

// A biz type that cannot issue, for its store is away, shows what it has.
func TestUnreadyShows(t *testing.T) {
	p := &shown{t: t}
	s := &counting{init: func(context.Context, bool) error { return seqd.Errorf(seqd.CodeStoreUnavailable, "away") }}
	is := newIssuer(t, issuer.Options{}, order(s, p.bound()))
	wantShown(t, is, 0, seqd.CodeStoreUnavailable)
	shut(t, is)
}

// Disabling that Close does not wait for leaves no plugin open.
func TestCloseWhileDisabling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &shown{t: t}
		s := &lasting{shelf: &shelf{}, closing: func(context.Context) error { time.Sleep(time.Minute); return nil }}
		is := newIssuer(t, issuer.Options{}, order(s, p.bound()))
		must.Get(is.Next(t.Context(), "order", 1))(t)
		var disabling sync.WaitGroup
		disabling.Go(func() { _ = is.Disable(t.Context(), "order", errOff) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = is.Close(ctx)
		disabling.Wait()
		must.Equal(t, p.closed.Load(), 1, "the times that the plugin was closed")
		must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeStopping)
	})
}

// Numbers stay unique and in order while a biz type is disabled and enabled, and its plugins are
// asked only while they are open.
func TestDisableUnderLoad(t *testing.T) {
	var readers sync.WaitGroup
	churn(t, func(t *testing.T, round int, is *issuer.Issuer, fresh func() (issuer.Definition, error)) {
		readers.Go(func() { _, _ = is.Resource(t.Context(), "order", "things", nil) })
		if round%2 == 0 {
			must.Report(t, is.Disable(t.Context(), "order", errOff))
			return
		}
		must.Report(t, is.Put(t.Context(), "order", fresh))
		readers.Wait()
	}, 300, seqd.CodeDisabled)
}
