package issuer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// A change that takes long costs a caller 2 s at most, whichever way it came upon it.
func TestCallersOfAChangeThatTakesLong(t *testing.T) {
	slowly := func(d time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(d); return nil }
	}
	ask := func(t *testing.T, is *issuer.Issuer, want seqd.Code, least, most time.Duration) {
		t.Helper()
		began := time.Now()
		must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), want)
		if waited := time.Since(began); waited < least || waited > most {
			t.Errorf("waited %s", waited)
		}
	}
	t.Run("one that is too slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, issuer.Options{}, order(&lasting{shelf: store, closing: slowly(time.Minute)}))
			ask(t, is, "", 0, 0)
			go put(t, is, &lasting{shelf: store})
			synctest.Wait()
			ask(t, is, seqd.CodeStarting, 2*time.Second, 2*time.Second)
			must.Code(t, must.Err(is.Parse("order", "1")), seqd.CodeStarting, "parse")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			must.Code(t, must.Err(is.Next(ctx, "order", 1)), seqd.CodeTimeout)
			unready, _ := is.Health(10)
			if len(unready) != 1 || unready[0].Reason.Code != seqd.CodeStarting {
				t.Errorf("while callers wait in vain, unready are %v", unready)
			}
			time.Sleep(time.Minute)
			ask(t, is, "", 0, 0)
			shut(t, is)
		})
	})
	t.Run("one that ends in time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, issuer.Options{}, order(&lasting{shelf: store, closing: slowly(1500 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go put(t, is, &lasting{shelf: store})
			synctest.Wait()
			if unready, _ := is.Health(10); unready != nil {
				t.Errorf("unready are %v", unready)
			}
			ask(t, is, "", 1500*time.Millisecond, 1500*time.Millisecond)
			shut(t, is)
		})
	})
	t.Run("a slow Init after it counts too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			is := newIssuer(t, issuer.Options{}, order(&lasting{shelf: &shelf{}, closing: slowly(1500 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go put(t, is, hanging(time.Minute))
			synctest.Wait()
			ask(t, is, seqd.CodeStarting, 2*time.Second, 2*time.Second)
			time.Sleep(time.Minute)
			ask(t, is, "", 0, 0)
			shut(t, is)
		})
	})
	t.Run("one after the other", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &shelf{}
			is := newIssuer(t, issuer.Options{}, order(&lasting{shelf: store, closing: slowly(900 * time.Millisecond)}))
			ask(t, is, "", 0, 0)
			go func() {
				for range 10 {
					put(t, is, &lasting{shelf: store, closing: slowly(900 * time.Millisecond)})
					_, _ = is.Next(t.Context(), "order", 1) // else there is nothing to close
				}
			}()
			synctest.Wait()
			for range 5 {
				began := time.Now()
				if _, err := is.Next(t.Context(), "order", 1); time.Since(began) > 2*time.Second {
					t.Errorf("waited %s: %v", time.Since(began), err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			shut(t, is)
		})
	})
	t.Run("a call that was in the old chain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var told []seqd.Code
			rejected := seqd.RejectedHandlerFunc(func(_ context.Context, _ *seqd.Call, err *seqd.Error) { told = append(told, err.Code) })
			undone := 0
			p := &hooks{
				before:  func(context.Context, *seqd.Call) error { time.Sleep(time.Second); return nil },
				onError: func(context.Context, *seqd.Call) { undone++ },
			}
			s := &lasting{shelf: &shelf{}}
			is := newIssuer(t, issuer.Options{Rejected: rejected}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
			is.Init(t.Context())
			s.closing = slowly(time.Minute)
			go func() { time.Sleep(500 * time.Millisecond); put(t, is, &lasting{shelf: s.shelf}) }()
			go func() { time.Sleep(900 * time.Millisecond); s.mu.Lock(); s.open = false; s.mu.Unlock() }()
			ask(t, is, seqd.CodeStarting, 3*time.Second, 3*time.Second)
			if undone != 1 || !slices.Equal(told, []seqd.Code{seqd.CodeStarting}) {
				t.Errorf("undone %d times, told of %v", undone, told)
			}
			time.Sleep(2 * time.Minute)
			shut(t, is)
		})
	})
}

// A change under way is waited for by Close; one that hangs is given up, and what it brings never
// issues.
func TestCloseDuringAChange(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second := &lasting{shelf: &shelf{}}, &lasting{}
			second.shelf = first.shelf
			is := newIssuer(t, issuer.Options{}, order(first))
			is.Init(t.Context())
			changed := make(chan error)
			go func() {
				changed <- is.Put(t.Context(), "order", func() (issuer.Definition, error) {
					time.Sleep(10 * time.Second)
					return order(second), nil
				})
			}()
			synctest.Wait()
			waiting := make(chan error)
			go func() { _, err := is.Next(t.Context(), "order", 1); waiting <- err }()
			synctest.Wait()
			patience := time.Minute
			if hangs {
				patience = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() { must.Code(t, <-waiting, seqd.CodeStopping) }()
			must.Report(t, is.Close(ctx))
			began := time.Now()
			_, err := is.Next(t.Context(), "order", 1)
			must.Code(t, err, seqd.CodeStopping)
			must.Equal(t, time.Since(began), 0, "how long a call after Close waited")
			must.Report(t, <-changed)
			must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeStopping)
			if first.open || second.open {
				t.Error("something is open after Close")
			}
			err = is.Put(t.Context(), "order", func() (issuer.Definition, error) { t.Error("built after Close"); return order(second), nil })
			must.Code(t, err, seqd.CodeStopping)
			must.Code(t, is.Remove(t.Context(), "order", nil), seqd.CodeStopping)
			shut(t, is)
		})
	}
}

// An instance is replaced while its Init is under way: its strategy is closed when Init returns,
// and never issues. The next one does not wait for it longer than ctx.
func TestReplaceDuringInit(t *testing.T) {
	for _, patience := range []time.Duration{time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			slow := hanging(time.Minute)
			is := newIssuer(t, issuer.Options{}, order(slow))
			caller := make(chan error, 1)
			go func() { _, err := is.Next(t.Context(), "order", 1); caller <- err }()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			next := &counting{}
			err := is.Put(ctx, "order", func() (issuer.Definition, error) {
				if patience > time.Minute && slow.closed.Load() != 1 {
					t.Error("built before the strategy of before was closed")
				}
				return order(next), nil
			})
			must.Equal(t, patience < time.Minute, errors.Is(err, context.DeadlineExceeded), "put: %v", err)
			if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 1 || next.last.Load() != 1 {
				t.Errorf("got %v, %v", seq, err)
			}
			must.Code(t, <-caller, seqd.CodeStarting) // it waited for Init for as long as callers do
			time.Sleep(time.Hour)
			if slow.closed.Load() != 1 || slow.last.Load() != 0 {
				t.Errorf("closed %d times, issued %d numbers", slow.closed.Load(), slow.last.Load())
			}
			shut(t, is)
		})
	}
}

// A call that finds its plugins closed gets a number from the definition that has taken their
// place.
func TestCallThatFindsItsPluginClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lasting{shelf: &shelf{}}
		var closed atomic.Bool
		p := &closing{hooks{
			after: func(context.Context, *seqd.Call) error {
				if time.Sleep(10 * time.Second); closed.Load() {
					return seqd.Errorf(seqd.CodeStopping, "closed")
				}
				return nil
			},
			close: func(context.Context) error { closed.Store(true); return nil },
		}}
		is := newIssuer(t, issuer.Options{}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
		go func() { time.Sleep(5 * time.Second); put(t, is, &lasting{shelf: s.shelf}) }()
		if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 2 {
			t.Errorf("got %v, %v", seq, err)
		}
		shut(t, is)
	})
}

// A call that is in a slow plugin keeps that from being closed, for a second and for as long as the
// one who changes has patience.
func TestCallsInFlightKeepPluginsOpen(t *testing.T) {
	for _, test := range []struct{ takes, patience, waits time.Duration }{
		{900 * time.Millisecond, time.Minute, 900 * time.Millisecond},
		{900 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
		{time.Minute, time.Hour, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &lasting{shelf: &shelf{}}
			var closedAt time.Time
			p := &closing{hooks{
				after: func(context.Context, *seqd.Call) error { time.Sleep(test.takes); return nil },
				close: func(context.Context) error { closedAt = time.Now(); return nil },
			}}
			is := newIssuer(t, issuer.Options{}, order(s, seqd.BoundPlugin{Name: "slow", Quick: true, Plugin: p}))
			_, _ = is.Parse("order", "1") // they end at once
			_, _ = is.Resource(t.Context(), "order", "things", nil)
			began := time.Now()
			first := make(chan int64)
			go func() {
				seq, err := is.Next(t.Context(), "order", 1)
				must.Report(t, err)
				first <- seq.First()
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), test.patience)
			defer cancel()
			must.Report(t, is.Put(ctx, "order", func() (issuer.Definition, error) { return order(&lasting{shelf: s.shelf}), nil }))
			must.Equal(t, closedAt.Sub(began), test.waits, "the plugin was closed after")
			if seq, err := is.Next(t.Context(), "order", 1); err != nil || seq.First() != 2 || <-first != 1 {
				t.Errorf("got %v, %v", seq, err)
			}
			shut(t, is)
		})
	}
}
