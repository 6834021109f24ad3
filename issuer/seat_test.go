package issuer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// TestLifecycle lists every transition of an instance. What is not listed changes nothing.
func TestLifecycle(t *testing.T) {
	phases := []phase{fresh, opening, ready, failed, stopping, abandoned, closed}
	events := []event{begin, succeed, fail, stop, shut, end}
	table := map[event][]phase{ // what follows each of phases
		//         fresh    opening    ready     failed    unusable  stopping  abandoned  closed
		begin:   {opening, opening, ready, opening, stopping, abandoned, closed},
		succeed: {fresh, ready, ready, failed, stopping, abandoned, closed},
		fail:    {fresh, failed, ready, failed, stopping, abandoned, closed},
		stop:    {closed, abandoned, stopping, stopping, stopping, abandoned, closed},
		shut:    {fresh, opening, ready, failed, closed, abandoned, closed},
		end:     {fresh, opening, ready, failed, stopping, closed, closed},
	}
	for _, e := range events {
		for i, p := range phases {
			must.Equal(t, p.after(e), table[e][i], "the phase after event %d in phase %d", e, p)
		}
	}
}

// scripted is a strategy whose Init waits for its outcome.
type scripted struct {
	seqd.Strategy
	outcome chan error
	closed  int
}

func (s *scripted) Init(context.Context, bool) error { return <-s.outcome }
func (s *scripted) Close(context.Context) error      { s.closed++; return nil }

// TestInstance: what callers and closers of an instance meet in each phase, and how often its
// strategy is closed.
func TestInstance(t *testing.T) {
	if c := new(seat).look(); c.exists() {
		t.Errorf("a seat that nothing was put into holds %+v", c)
	}
	away := errors.New("away")
	for name, test := range map[string]struct {
		outcomes []error // of the attempts before stop
		open     bool    // an attempt is under way at stop
		phase    phase   // before stop
		stopped  phase   // after stop
		closed   int     // how often Close of the strategy is called
	}{
		"fresh":         {nil, false, fresh, closed, 0},
		"opening":       {nil, true, opening, abandoned, 1},
		"ready":         {[]error{nil}, false, ready, stopping, 1},
		"failed":        {[]error{away}, false, failed, stopping, 1},
		"opening again": {[]error{away}, true, opening, abandoned, 1},
		"ready at last": {[]error{away, nil}, false, ready, stopping, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				is, _ := New(nil, Options{Log: slog.New(slog.DiscardHandler)})
				s := &scripted{outcome: make(chan error)}
				i := is.newInstance(Definition{Strategy: s})
				attempt := func() { go func() { _ = is.initialise(t.Context(), i, &waits{}) }(); synctest.Wait() }
				for _, outcome := range test.outcomes {
					attempt()
					s.outcome <- outcome
					synctest.Wait()
				}
				if test.open {
					attempt()
				}
				wantPhase(t, i, test.phase)
				i.stop()
				wantPhase(t, i, test.stopped)
				must.Code(t, is.initialise(t.Context(), i, &waits{}), seqd.CodeStopping, "after stop a caller gets")
				if test.open {
					go func() { time.Sleep(time.Second); s.outcome <- nil }()
				}
				for range 2 {
					must.Report(t, i.close(t.Context()))
				}
				wantPhase(t, i, closed)
				must.Equal(t, s.closed, test.closed, "the times that the strategy was closed")
			})
		})
	}
}

// TestMended: an attempt that fails for a reason that an operator mends counts for nobody who came
// after it began, and each caller needs one attempt more at most.
func TestMended(t *testing.T) {
	for code, want := range map[seqd.Code][]seqd.Code{
		seqd.CodeConflict: {seqd.CodeConflict, seqd.CodeConflict, ""}, seqd.CodeStoreFailedOver: {seqd.CodeStoreFailedOver, seqd.CodeStoreFailedOver, ""},
		seqd.CodeStoreUnavailable: {seqd.CodeStoreUnavailable, seqd.CodeStoreUnavailable, seqd.CodeStoreUnavailable},
	} {
		synctest.Test(t, func(t *testing.T) {
			is, _ := New(nil, Options{Log: slog.New(slog.DiscardHandler)})
			s := &scripted{outcome: make(chan error, 1)}
			i := is.newInstance(Definition{Strategy: s})
			got, asked := make([]seqd.Code, 3), new(sync.WaitGroup)
			ask := func(caller int) {
				asked.Go(func() { got[caller] = seqd.CodeOf(is.initialise(t.Context(), i, &waits{})) })
				synctest.Wait()
			}
			ask(0)
			s.outcome <- seqd.Errorf(code, "no")
			synctest.Wait()
			ask(1) // begins a new attempt at once
			time.Sleep(time.Millisecond)
			ask(2) // while that is under way
			s.outcome <- seqd.Errorf(code, "no")
			synctest.Wait()
			if code != seqd.CodeStoreUnavailable {
				s.outcome <- nil // an operator has mended it
			}
			asked.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("the callers get %q, want %q", got, want)
			}
		})
	}
}

func wantPhase(t *testing.T, i *instance, want phase) {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.phase != want || i.ready.Load() != (want == ready) {
		t.Errorf("phase %d, ready %v; want phase %d", i.phase, i.ready.Load(), want)
	}
	if under := i.attempt != nil; want != closed && under != (want == opening || want == abandoned) {
		t.Errorf("phase %d with an attempt: %v", want, under)
	}
}

// TestSeat goes from every state to every other: a change begins, and settles the seat.
func TestSeat(t *testing.T) {
	why, i := seqd.Errorf(seqd.CodeDisabled, "off"), &instance{}
	states := map[string]seatState{
		"vacant": {}, "serving": servingState(i), "refusing": refusingState(why, nil), "at rest": refusingState(why, i.atRest()),
	}
	for from, before := range states {
		for to, after := range states {
			s := new(seat)
			s.fill(before)
			wantHeld(t, from, s, before)
			c := s.beginChange()
			must.Equal(t, c.before, before, "%s: the change found", from)
			wantHeld(t, from+", changing", s, seatState{kind: changing, change: c})
			if other, ours := s.tryBegin(); ours || other != c {
				t.Errorf("%s: two changes at once", from)
			}
			s.settle(c, after)
			wantHeld(t, from+" to "+to, s, after)
			select {
			case <-c.ended:
			default:
				t.Errorf("%s to %s: the change has not ended", from, to)
			}
		}
	}
	s := new(seat)
	s.settle(s.beginChange(), seatState{kind: dropped})
	must.Equal(t, s.beginChange(), nil, "the change of a dropped seat")
}

func wantHeld(t *testing.T, what string, s *seat, want seatState) {
	t.Helper()
	must.Equal(t, s.look(), want, "%s: it holds", what)
	if i := s.serving.Load(); (i != nil) != (want.kind == serving) || i != nil && i != want.instance {
		t.Errorf("%s: %p serves", what, i)
	}
}

// TestDroppedSeat: a name that is removed leaves no seat behind, unless the issuer began with it;
// what there is to learn stays; and who waits to change it gets the seat that is there then.
func TestDroppedSeat(t *testing.T) {
	for name, test := range map[string]struct {
		known   bool // at the start
		learner bool
		want    seatKind
		kept    bool
	}{
		"added":                {want: dropped},
		"added, a learner":     {learner: true, want: dropped},
		"known from the start": {known: true, want: vacant, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := Definition{BizType: seqd.BizType{Name: "order"}, Strategy: new(scripted)}
			if test.learner {
				d.Strategy = learned{new(scripted)}
			}
			var first []Definition
			if test.known {
				first = append(first, d)
			}
			is := must.Get(New(first, Options{Log: slog.New(slog.DiscardHandler)}))(t)
			if !test.known {
				s, c := is.names.beginChange("order")
				s.settle(c, is.stateOf(d))
			}
			s := is.names.find("order")
			must.Do(t, is.Remove(t.Context(), "order", nil))
			must.Equal(t, s.look().kind, test.want, "the seat is of kind")
			must.Equal(t, is.names.find("order") == s, test.kept, "the seat is kept")
			again, c := is.names.beginChange("order")
			must.Equal(t, again == s, test.kept, "the next change gets another seat than callers")
			must.Equal(t, c.record.known != nil, test.learner, "the next strategy learns")
			if len(is.names.left) > 0 {
				t.Errorf("%v is left a second time", is.names.left)
			}
		})
	}
}

// learned is a strategy that knows something.
type learned struct{ seqd.Strategy }

func (learned) Learn(any) {}

func (learned) Knowledge() any { return 1 }

// A name that the issuer began with keeps its seat, and with it what there is to learn.
func TestNamesFromTheStart(t *testing.T) {
	s := new(seat)
	n := names{first: map[string]*seat{"order": s}}
	if n.drop("order", s, func() any { return 1 }) || len(n.left) > 0 {
		t.Errorf("dropped, and %v is left", n.left)
	}
}

// Only numbers of a key or of a ledger name who asked for them.
func TestPrepare(t *testing.T) {
	type ledger struct{ seqd.Ledger }
	for _, c := range []struct {
		ledger    seqd.Ledger
		key, want string
	}{{nil, "", ""}, {nil, "k1", "other"}, {ledger{}, "", "other"}} {
		i := &instance{can: issuing{ledger: c.ledger}}
		var s seqd.Sequence
		if i.prepare(&s, c.key, &seqd.Caller{Name: "other"}); s.Asker() != c.want || s.Key() != c.key {
			t.Errorf("%v: %q is asked for %q", c, s.Asker(), s.Key())
		}
	}
}
