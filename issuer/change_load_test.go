package issuer_test

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/issuer"
)

// watched is a plugin that finds out whether it is closed while a call is in it, twice, or before
// its strategy.
type watched struct {
	seqd.NopPlugin
	t        testing.TB
	strategy *lasting
	inside   atomic.Int64
	closed   atomic.Int64
}

func (p *watched) Before(context.Context, *seqd.Call) error { p.inside.Add(1); return p.open() }
func (p *watched) After(context.Context, *seqd.Call) error  { defer p.inside.Add(-1); return p.open() }
func (p *watched) OnError(context.Context, *seqd.Call, *seqd.Error) {
	defer p.inside.Add(-1)
	_ = p.open()
}

func (p *watched) open() error {
	must.Equal(p.t, p.closed.Load(), 0, "the times that a plugin with a call in it was closed")
	return nil
}

func (p *watched) Close(context.Context) error {
	must.Equal(p.t, p.closed.Add(1), 1, "the times that a plugin was closed")
	must.Equal(p.t, p.inside.Load(), 0, "the calls inside a plugin that was closed")
	p.strategy.mu.Lock()
	defer p.strategy.mu.Unlock()
	if p.strategy.open {
		p.t.Error("a plugin was closed before its strategy")
	}
	return nil
}

// churn changes a biz type rounds times under many callers, who check what they get: no number
// twice, each call that begins after another ended gets a larger number, and no error but one of
// allowed.
func churn(t *testing.T, change func(t *testing.T, round int, is *issuer.Issuer, fresh func() (issuer.Definition, error)), rounds int, allowed ...seqd.Code) {
	synctest.Test(t, func(t *testing.T) {
		var all []*lasting
		store := &shelf{}
		fresh := func() (issuer.Definition, error) {
			s := &lasting{shelf: store}
			all = append(all, s)
			if len(all)%2 == 0 { // without a plugin that closes, calls take another way
				return order(s), nil
			}
			p := &watched{t: t, strategy: s}
			return order(s, seqd.BoundPlugin{Name: "quick", Quick: true, Plugin: p}), nil
		}
		first, _ := fresh()
		is := newIssuer(t, issuer.Options{}, first)
		h := ordercheck.New()
		var callers sync.WaitGroup
		var over atomic.Bool
		var issued atomic.Int64
		for i := range 16 {
			callers.Go(func() {
				for ; !over.Load(); runtime.Gosched() {
					began := h.Now()
					seq, err := is.Next(t.Context(), "order", 1+i%3)
					switch {
					case err == nil:
						h.Add(began, fmt.Sprint(i), slices.Collect(seq.Numbers()))
						issued.Add(1)
					case !slices.Contains(allowed, seqd.CodeOf(err)):
						t.Error(err)
						return
					}
				}
			})
		}
		for round := range rounds {
			change(t, round, is, fresh)
			for before := issued.Load(); len(allowed) == 0 && round%3 == 0 && issued.Load() < before+16 && !t.Failed(); {
				runtime.Gosched()
			}
		}
		over.Store(true)
		callers.Wait()
		shut(t, is)
		must.Report(t, h.Check())
		must.Equal(t, h.Highest(), int64(h.Numbers()), "the highest number, if none was skipped,")
		for i, s := range all {
			if s.open || s.closed > 1 {
				t.Errorf("strategy %d: open %v, closed %d times", i, s.open, s.closed)
			}
			if i > 0 && s.learned != all[i-1] {
				t.Errorf("strategy %d learned from another one than the last", i)
			}
		}
	})
}

func TestPutUnderLoad(t *testing.T) {
	churn(t, func(t *testing.T, _ int, is *issuer.Issuer, fresh func() (issuer.Definition, error)) {
		must.Report(t, is.Put(t.Context(), "order", fresh))
	}, 300)
}

func TestPutAndRemoveUnderLoad(t *testing.T) {
	reasons := []*seqd.Error{nil, seqd.Errorf(seqd.CodeDisabled, "off"), seqd.Errorf(seqd.CodeConflict, "no")}
	churn(t, func(t *testing.T, round int, is *issuer.Issuer, fresh func() (issuer.Definition, error)) {
		if round%2 == 0 {
			must.Report(t, is.Remove(t.Context(), "order", reasons[round/2%3]))
			return
		}
		must.Report(t, is.Put(t.Context(), "order", fresh))
	}, 300, seqd.CodeUnknownBizType, seqd.CodeDisabled, seqd.CodeConflict)
}

// Changes that come together happen one after the other.
func TestPutsTogether(t *testing.T) {
	churn(t, func(t *testing.T, _ int, is *issuer.Issuer, fresh func() (issuer.Definition, error)) {
		var puts sync.WaitGroup
		for range 4 {
			puts.Go(func() {
				must.Report(t, is.Put(t.Context(), "order", fresh))
			})
		}
		puts.Wait()
	}, 50)
}

// complete is a plugin that does everything.
type complete struct {
	seqd.NopPlugin
	read  func(string) (seqd.Reading, error)
	show  func(url.Values) (any, error)
	close func(context.Context) error
}

func (c *complete) Read(_ context.Context, shown string, _ seqd.Counter) (seqd.Reading, error) {
	return c.read(shown)
}
func (c *complete) ResourceName() string                                  { return "things" }
func (c *complete) Show(_ context.Context, query url.Values) (any, error) { return c.show(query) }
func (c *complete) Close(ctx context.Context) error                       { return c.close(ctx) }
