package storetake

import (
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// world is a counter, and the shell of one machine.
type world struct {
	t       *testing.T
	m       *Machine
	counter persist.Counter
	now     time.Time
}

func newWorld(t *testing.T, policy Policy, epoch string, without ...Rule) *world {
	w := &world{
		t: t, now: time.Now(),
		m:       New(Config{Start: 1, Cursor: policy, Patience: time.Second, Without: Rules(without...)}),
		counter: persist.Counter{BizTag: "order", Step: 1, Epoch: epoch},
	}
	w.m.Read(w.now, w.counter, nil)
	return w
}

// take is one take of n numbers, which fails with failure if it is not nil.
func (w *world) take(n int64, failure error) Outcome {
	w.t.Helper()
	if w.m.Mode() != Online {
		w.t.Fatalf("the mode is %s", w.m.Mode())
	}
	take := w.m.Send(w.now, n)
	after, r, err := w.counter.Allocated(persist.Request{BizTag: "order", Size: take.Size, Floor: take.Floor, To: take.To}, 0)
	if err == nil {
		w.counter = after
	}
	if failure != nil {
		r, err = persist.Range{}, failure
	}
	return w.m.Took(w.now, take, r, err)
}

// pass lets time pass up to the machine's deadline, and reads the counter.
func (w *world) pass() (waited time.Duration) {
	w.t.Helper()
	due := w.m.Deadline()
	if due.IsZero() {
		w.t.Fatal("nothing is due")
	}
	waited = due.Sub(w.now)
	if waited > 0 && w.m.Tick(w.now) {
		w.t.Error("a tick too early read the counter")
	}
	if w.now = due; !w.m.Tick(w.now) {
		w.t.Fatal("the counter is not read")
	}
	w.m.Read(w.now, w.counter, nil)
	return waited
}

var errLost = errors.New("connection reset")

func TestTakes(t *testing.T) {
	w := newWorld(t, Refuse, "")
	for i := range int64(3) {
		if got := w.take(2, nil).Range; got != (persist.Range{First: 2*i + 1, Last: 2*i + 2}) {
			t.Errorf("got %v", got)
		}
	}
	if w.counter.Epoch != persist.StoreEpoch || w.m.Issued() != 6 || w.m.Seen() != 6 {
		t.Errorf("%+v, issued %d, seen %d", w.counter, w.m.Issued(), w.m.Seen())
	}
}

// After a lost answer nothing is taken before the counter was read, and the pauses grow until a
// take succeeds.
func TestPauses(t *testing.T) {
	w := newWorld(t, Refuse, "")
	var pauses []time.Duration
	for range 8 {
		if out := w.take(1, errLost); out != (Outcome{}) || w.m.Mode() != Mending || w.m.Refusal() != nil {
			t.Errorf("%+v, %s", out, w.m.Mode())
		}
		if w.m.Late().Code != seqd.CodeStoreUnavailable {
			t.Errorf("late: %v", w.m.Late())
		}
		pauses = append(pauses, w.pass())
	}
	if pauses[0] != 20*time.Millisecond || pauses[1] != 40*time.Millisecond || pauses[7] != time.Second {
		t.Errorf("pauses %v", pauses)
	}
	if got := w.take(1, nil).Range.First; got != 9 {
		t.Errorf("got %d: eight takes are lost", got)
	}
	w.take(1, errLost)
	if pause := w.pass(); pause != 20*time.Millisecond {
		t.Errorf("a pause of %s after a success", pause)
	}
}

// What the counter's epoch means to each policy.
func TestPolicies(t *testing.T) {
	cursor, other := persist.NewEpoch(), persist.NewEpoch()
	for _, test := range []struct {
		policy  Policy
		refusal *seqd.Error
	}{{Refuse, ErrCursor}, {Follow, ErrChanged}, {TakeOver, nil}} {
		w := newWorld(t, test.policy, cursor)
		if w.m.Refusal() != test.refusal || w.m.Moved() != (test.policy == Follow) {
			t.Errorf("policy %d: %v, moved %t", test.policy, w.m.Refusal(), w.m.Moved())
		}
		if test.refusal == nil {
			take := w.m.Send(w.now, 1)
			if epoch, _ := take.To.Cursor(); !take.Retire || epoch != cursor {
				t.Errorf("%+v", take)
			}
			w.m.Took(w.now, take, persist.Range{}, persist.ErrEpoch)
			if waited := w.pass(); waited != 0 {
				t.Errorf("it waited %s before it read who was faster", waited)
			}
			w.take(1, nil)
		}
		w.counter.Epoch = persist.StoreEpoch
		if w.m.Mode() == Mending {
			w.pass()
		}
		w.take(1, nil)
		w.counter.Epoch = other // a cursor takes over later
		w.take(1, nil)
		w.pass()
		if want := map[Policy]*seqd.Error{Refuse: ErrCursor, Follow: ErrChanged, TakeOver: ErrChanged}[test.policy]; w.m.Refusal() != want {
			t.Errorf("policy %d: then %v, want %v", test.policy, w.m.Refusal(), want)
		}
		w.counter.Epoch = ""
		if waited := w.pass(); waited != time.Second {
			t.Errorf("it looked again after %s", waited)
		}
		w.take(1, nil)
	}
}

// The rules that the tests of package segment do not cover each keep something.
func TestRulesAreNeeded(t *testing.T) {
	t.Run("floor and guard", func(t *testing.T) {
		restored := func(without ...Rule) (Outcome, *world) {
			w := newWorld(t, Refuse, "", without...)
			w.take(100, nil)
			w.counter.Max = 50 // the store was restored
			return w.take(10, nil), w
		}
		if out, _ := restored(); out.Range.First != 101 {
			t.Errorf("%+v", out)
		}
		out, w := restored(RuleTakeFloor)
		if out.Range != (persist.Range{}) || out.Dropped.First != 51 || w.m.Mode() != Mending {
			t.Errorf("the guard let %+v pass", out)
		}
		if out, _ = restored(RuleTakeFloor, RuleTakeGuard); out.Range.First != 51 {
			t.Errorf("%+v: no number came twice without both rules", out)
		}
	})
	t.Run("once", func(t *testing.T) {
		for _, without := range []RuleSet{0, Rules(RuleOnce)} {
			w := newWorld(t, TakeOver, "")
			w.m.cfg.Without = without
			w.take(1, nil)
			w.counter.Epoch = persist.NewEpoch()
			w.take(1, nil)
			w.pass()
			if took := w.m.Mode() == Online; took != (without != 0) {
				t.Errorf("without %v it takes over again: %t", without, took)
			}
		}
	})
}

// Near the end a take asks for what is left, and the machine reads how much that is.
func TestEnd(t *testing.T) {
	w := newWorld(t, Refuse, "")
	w.take(1, nil)
	w.counter.Max = persist.MaxNumber - 5
	if out := w.take(10, nil); out.Range.First != 0 {
		t.Errorf("%+v", out)
	}
	w.pass()
	if out := w.take(10, nil); out.Range.Size() != 5 {
		t.Errorf("%+v", out)
	}
	w.pass()
	if refusal := w.m.Refusal(); refusal == nil || refusal.Code != seqd.CodeExhausted || w.m.Health(w.now) != nil || !w.m.Deadline().IsZero() {
		t.Errorf("%v, health %v", refusal, w.m.Health(w.now))
	}
}

func TestHealth(t *testing.T) {
	w := newWorld(t, Refuse, "")
	w.take(1, errLost)
	if w.m.Health(w.now) != nil {
		t.Error("unhealthy at once")
	}
	if err := w.m.Health(w.now.Add(time.Second)); err == nil || err.Code != seqd.CodeStoreUnavailable {
		t.Errorf("%v", err)
	}
	w.pass()
	if w.m.Health(w.now.Add(time.Hour)) != nil {
		t.Error("unhealthy after the store answered")
	}
	w.m.Send(w.now, 1)
	if err := w.m.Health(w.now.Add(3 * time.Second)); err == nil || err.Code != seqd.CodeTimeout {
		t.Errorf("a take that hangs: %v", err)
	}
	w.m.Stop()
	w.m.Read(w.now, w.counter, nil)
	if w.m.Mode() != Closing || !w.m.Deadline().IsZero() {
		t.Errorf("%s after a stop", w.m.Mode())
	}
}

func TestRuleNames(t *testing.T) {
	var all string
	for _, r := range AllRules() {
		all += r.String() + ","
	}
	if set, err := ParseRules(all); err != nil || set != Rules(AllRules()...) {
		t.Errorf("%b, %v", set, err)
	}
	if _, err := ParseRules("floor"); err == nil {
		t.Error("a rule of another machine was accepted")
	}
}
