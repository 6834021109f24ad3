package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

func TestClose(t *testing.T) {
	used, unused := &counting{}, &counting{}
	other := order(unused)
	other.BizType.Name = "other"
	is := newIssuer(t, issuer.Options{}, order(used), other)
	must.Get(is.Next(t.Context(), "order", 1))(t)
	must.Do(t, is.Close(t.Context()))
	if used.closed.Load() != 1 || unused.closed.Load() != 0 {
		t.Errorf("closed %d and %d times", used.closed.Load(), unused.closed.Load())
	}
	_, err := is.Next(t.Context(), "other", 1)
	must.Code(t, err, seqd.CodeStopping)
}

// tracedClaim is a new biz type's claim whose Record may fail.
type tracedClaim struct {
	trace *[]string
	err   error
}

func (c tracedClaim) Check(context.Context) (bool, error) { return true, nil }
func (c tracedClaim) Reshaped() bool                      { return false }

func (c tracedClaim) Record(context.Context) error {
	*c.trace = append(*c.trace, "record")
	return c.err
}

// The claim is recorded after Init and before the first number; without it nothing is issued.
func TestClaimIsRecordedBetweenInitAndIssuing(t *testing.T) {
	var trace []string
	d := order(&counting{init: func(context.Context, bool) error { trace = append(trace, "init"); return nil }})
	d.Claim = tracedClaim{&trace, errors.New("away")}
	is := newIssuer(t, issuer.Options{}, d)
	if _, err := is.Next(t.Context(), "order", 1); err == nil {
		t.Error("issued without a recorded claim")
	}
	if !slices.Equal(trace, []string{"init", "record"}) {
		t.Errorf("what ran was %q", trace)
	}
}

// hanging is an Init that takes its time.
func hanging(d time.Duration) *counting {
	return &counting{init: func(context.Context, bool) error { time.Sleep(d); return nil }}
}

func TestRequestBehindAHangingInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{}, order(hanging(time.Hour)))
		began := time.Now()
		must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeStarting)
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("waited %s", waited)
		}
		time.Sleep(time.Hour)
		if _, err := is.Next(t.Context(), "order", 1); err != nil {
			t.Errorf("after Init has ended: %v", err)
		}
	})
}

func TestInitOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t, issuer.Options{}, order(&counting{init: func(ctx context.Context, _ bool) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return nil
			}
		}}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.Code(t, must.Err(is.Next(ctx, "order", 1)), seqd.CodeTimeout)
		if _, err := is.Next(t.Context(), "order", 1); err != nil {
			t.Errorf("failed with the context of another caller: %v", err)
		}
	})
}

func TestCloseWaitsForInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hanging(time.Second)
		is := newIssuer(t, issuer.Options{}, order(s))
		go func() { _, _ = is.Next(t.Context(), "order", 1) }()
		synctest.Wait()
		must.Report(t, is.Close(t.Context()))
		must.Equal(t, s.closed.Load(), 1, "the times that it was closed")
	})
}

// What becomes ready after Close gave up is closed and does not issue; and Init does not go on for
// ever.
func TestNothingIsIssuedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hanging(time.Minute)
		is := newIssuer(t, issuer.Options{}, order(s))
		go func() { _, _ = is.Next(t.Context(), "order", 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Is(t, is.Close(ctx), context.DeadlineExceeded, "close")
		time.Sleep(time.Hour)
		must.Code(t, must.Err(is.Next(t.Context(), "order", 1)), seqd.CodeStopping)
		must.Equal(t, s.closed.Load(), 1, "the times that it was closed")
		is.Init(t.Context()) // returns
	})
}

// timely is a strategy that notes whether there was time left when it was closed.
type timely struct {
	counting
	late bool
}

func (c *timely) Close(ctx context.Context) error { c.late = ctx.Err() != nil; return nil }

// One biz type that hangs does not cost the others their give-back.
func TestCloseBesideAHangingInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		definitions := []issuer.Definition{order(hanging(time.Hour))}
		var others []*timely
		for i := range 200 {
			others = append(others, &timely{})
			d := order(others[i])
			d.BizType.Name = fmt.Sprintf("b%d", i)
			definitions = append(definitions, d)
		}
		is := newIssuer(t, issuer.Options{}, definitions...)
		for i := range others {
			must.Get(is.Next(t.Context(), fmt.Sprintf("b%d", i), 1))(t)
		}
		go func() { _, _ = is.Next(t.Context(), "order", 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		_ = is.Close(ctx)
		for i, s := range others {
			if s.late {
				t.Errorf("b%d was closed when the time was up", i)
			}
		}
		time.Sleep(2 * time.Hour)
	})
}

// stubborn is a strategy that does not close.
type stubborn struct{ *counting }

func (stubborn) Close(context.Context) error { return errors.New("it does not close") }

// TestManyBizTypes: what is told of very many biz types is bounded, and the first by name with how
// many there are in all.
func TestManyBizTypes(t *testing.T) {
	const many, wanted = 1000, 5
	var definitions []issuer.Definition
	for i := range many {
		d := order(stubborn{new(counting)})
		d.BizType.Name = fmt.Sprintf("b%03d", i)
		definitions = append(definitions, d)
	}
	is := newIssuer(t, issuer.Options{}, definitions...)
	unready, total := is.Health(wanted)
	var names []string
	for _, u := range unready {
		names = append(names, u.BizType)
	}
	if want := []string{"b000", "b001", "b002", "b003", "b004"}; total != many || !slices.Equal(names, want) {
		t.Errorf("%d are unready, first %q; want %d, first %q", total, names, many, want)
	}
	is.Init(t.Context())
	err := is.Close(t.Context())
	if err == nil {
		t.Fatal("all closed well")
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 11 || lines[10] != "990 more biz types did not close well" {
		t.Errorf("the error has %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// stuck is a strategy whose Close ends with its context only, as that of a store that is away.
type stuck struct{ *counting }

func (s stuck) Close(ctx context.Context) error {
	<-ctx.Done()
	return s.counting.Close(ctx)
}

// A strategy that was stopped while it began does not try to close for ever.
func TestCloseOfWhatBeganIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := hanging(time.Second)
		d := order(s)
		d.Strategy = stuck{s}
		is := newIssuer(t, issuer.Options{}, d)
		go func() { _, _ = is.Next(t.Context(), "order", 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.Is(t, is.Close(ctx), context.DeadlineExceeded, "Close")
		time.Sleep(time.Minute)
		must.Equal(t, s.closed.Load(), 1, "the times that it was closed")
	})
}
