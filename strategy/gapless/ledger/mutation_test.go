package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// directed are the rules that need a schedule of their own. Each returns what is wrong.
var directed = map[Rule]func(t *testing.T, without RuleSet) error{
	RuleDue:     confirmLate,
	RuleSuspect: raiseKeepsSuspects,
	RuleEvicted: returnForgotten,
	RuleBack:    goneBack,
	RuleFence:   otherServer,
	RuleHistory: otherHistory,
	RuleLineage: raisedMeanwhile,
	RuleKnown:   repeatedAfterFailover,
	RuleLookEra: repeatedAfterFailover,
	RuleAhead:   repeatedBeforeRaise,
}

// Each rule is needed: without it, a random or a directed schedule goes wrong.
func TestRulesAreNeeded(t *testing.T) {
	for _, rule := range AllRules() {
		t.Run(rule.String(), func(t *testing.T) {
			if run := directed[rule]; run != nil {
				if err := run(t, 0); err != nil {
					t.Error(err)
				}
				if run(t, Rules(rule)) == nil {
					t.Error("nothing notices that the rule is missing")
				}
				return
			}
			for seed := range uint64(500) {
				if err := runSeed(seed, Rules(rule)); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("no seed notices that the rule is missing")
		})
	}
}

// expect returns an error unless an operation on a state hands out a run, or is refused so.
func expect(s *State, now int64, op Op, code seqd.Code, runs ...Run) error {
	op.Caller = "c"
	res, err := s.Apply(now, &plain, &op, &Looked{Since: Since{s.Era, s.Revision}})
	if seqd.CodeOf(err) != code || fmt.Sprint(res.Runs) != fmt.Sprint(runs) {
		return fmt.Errorf("%+v: %v, %v; want %v, %s", op, res.Runs, err, runs, code)
	}
	return nil
}

func confirmLate(_ *testing.T, without RuleSet) error {
	s := Fresh(&plain, "b", "")
	s.rules = without
	return errors.Join(
		expect(s, 1000, Op{Kind: Reserve, Count: 1, ID: id(1)}, "", Run{1, 1}),
		expect(s, 1000+plain.TTL, Op{Kind: Confirm, ID: id(1)}, seqd.CodeReservationExpired),
		expect(s, 1000, Op{Kind: Confirm, ID: id(1)}, seqd.CodeReservationExpired),
		expect(s, 1000, Op{Kind: Issue, Count: 2}, "", Run{1, 2}))
}

func raiseKeepsSuspects(_ *testing.T, without RuleSet) error {
	s := Fresh(&plain, "b", "f1")
	s.rules = without
	return errors.Join(
		expect(s, 1, Op{Kind: Reserve, Count: 1, ID: id(1)}, "", Run{1, 1}),
		expect(s, 1, Op{Kind: Reserve, Count: 1, ID: id(2)}, "", Run{2, 2}),
		expect(s, 1, Op{Kind: Reserve, Count: 1, ID: id(3)}, "", Run{3, 3}),
		expect(s, 1, Op{Kind: Release, ID: id(2)}, "", Run{2, 2}),
		expect(s, 1, Op{Kind: Raise, To: 10, Reason: "failover", Fence: "f2"}, ""),
		expect(s, 1, Op{Kind: Issue, Count: 1}, "", Run{11, 11}),
		expect(s, 1, Op{Kind: Release, ID: id(1)}, "", Run{1, 1}),
		expect(s, 1, Op{Kind: Confirm, ID: id(3)}, "", Run{3, 3}),
		expect(s, 1, Op{Kind: Issue, Count: 1}, "", Run{12, 12}),
		s.Check([]Run{{1, 1}, {2, 2}, {4, 10}}))
}

// lone drives a machine on a world without faults.
type lone struct {
	w      *world
	m      *Machine
	fence  *persist.Fence
	now    time.Time
	holdUp bool // what is written gets no answer
}

func (l *lone) try(op Op) (Result, error) {
	r := &Request{Op: op}
	r.Op.Caller = "c"
	l.m.Submit(r)
	for range 50 {
		commands, wake := l.m.Next(l.now, l.w.clock)
		for _, c := range append([]Command{}, commands...) {
			var fenced persist.Fenced
			if l.fence != nil {
				fenced = &fencedWorld{l.w, l.fence}
			}
			out := c.Execute(context.Background(), l.w, fenced)
			if c.Action == Write && l.holdUp {
				l.holdUp = false
				return Result{}, l.lose(r, c)
			}
			l.m.Done(l.now, l.w.clock, &c, out)
		}
		for _, f := range l.m.Finished() {
			if f == r {
				return r.Result, r.Err
			}
		}
		if !wake.IsZero() {
			l.now = wake
		}
	}
	return Result{}, errors.New("it never ends")
}

var errHeld = errors.New("held up")

// lose lets the answer to a command get lost.
func (l *lone) lose(_ *Request, c Command) error {
	l.m.Done(l.now, l.w.clock, &c, Outcome{Err: errLost})
	return errHeld
}

func (l *lone) expect(op Op, code seqd.Code, runs ...Run) error {
	res, err := l.try(op)
	if seqd.CodeOf(err) != code || fmt.Sprint(res.Runs) != fmt.Sprint(runs) {
		return fmt.Errorf("%+v: %v, %v; want %v, %s", op, res.Runs, err, runs, code)
	}
	return nil
}

func newLone(w *world, name string, without RuleSet) *lone {
	return &lone{w: w, m: New(Config{Counter: counter, Writer: name, Without: without}, plain), now: time.Unix(0, 0)}
}

func calmWorld() *world {
	w := newWorld(1, 0)
	w.policy = plain
	return w
}

// returnForgotten is a Return whose answer is lost, and whose numbers others get before the machine
// can read that it was made.
func returnForgotten(_ *testing.T, without RuleSet) error {
	defer func(was int) { mostWriters = was }(mostWriters)
	mostWriters = 2
	w := calmWorld()
	a, b, c := newLone(w, "a", without), newLone(w, "b", 0), newLone(w, "c", 0)
	res, err := a.try(Op{Kind: Issue, Count: 1})
	if err != nil {
		return err
	}
	a.holdUp = true
	if _, err := a.try(Op{Kind: Return, Runs: res.Runs, Since: res.Since}); !errors.Is(err, errHeld) {
		return err
	}
	err = errors.Join(b.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1}), c.expect(Op{Kind: Issue, Count: 1}, "", Run{2, 2}))
	return errors.Join(err, a.expect(Op{Kind: Issue, Count: 1}, "", Run{3, 3}))
}

// goneBack is a store that is restored, or loses the document, under a running node.
func goneBack(t *testing.T, without RuleSet) error {
	for name, damage := range map[string]func(w *world, old persist.Document){
		"older": func(w *world, old persist.Document) { w.docs[old.PersistID()] = old },
		"gone":  func(w *world, old persist.Document) { delete(w.docs, old.PersistID()) },
		"older, and others went on": func(w *world, old persist.Document) {
			w.docs[old.PersistID()] = old
			b := newLone(w, "b", 0)
			for range 9 {
				_, _ = b.try(Op{Kind: Issue, Count: 1})
			}
		},
		"gone, and others began again": func(w *world, old persist.Document) {
			delete(w.docs, old.PersistID())
			b := newLone(w, "b", 0)
			for range 9 {
				_, _ = b.try(Op{Kind: Issue, Count: 1})
			}
		},
	} {
		w := calmWorld()
		a := newLone(w, "a", without)
		err := a.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1})
		old := w.docs["ledger/"+counter]
		err = errors.Join(err, a.expect(Op{Kind: Issue, Count: 3}, "", Run{2, 4}))
		// the highest that the restored world knows does not count for the checks
		w.class, w.state = make(map[int64]byte), nil
		damage(w, old)
		err = errors.Join(err, a.expect(Op{Kind: Find, ID: id(1)}, seqd.CodeStoreFailedOver))
		if without == 0 {
			err = errors.Join(err, a.afterRaise(t))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// afterRaise raises the ledger too little and then enough.
func (l *lone) afterRaise(t *testing.T) error {
	t.Helper()
	for _, test := range []struct {
		to   int64
		code seqd.Code
		runs []Run
	}{{3, seqd.CodeStoreFailedOver, nil}, {20, "", []Run{{21, 21}}}} {
		d, err := l.w.Read(context.Background(), persist.LedgerKind, counter)
		s := Fresh(&plain, "raised", "")
		if err == nil {
			if s, err = Decode(&d); err != nil {
				return err
			}
		}
		if _, err := s.Apply(l.w.clock, &plain, &Op{Kind: Raise, To: test.to, Reason: "restored"}, nil); err != nil {
			return err
		}
		if d, err = s.Document(counter, l.w.clock); err != nil {
			return err
		}
		low := s.Last < l.m.Seen().Last
		l.w.docs[d.PersistID()] = d
		if !low && test.code != "" {
			continue // others have gone further than that
		}
		l.now = l.now.Add(time.Minute)
		if err := l.expect(Op{Kind: Issue, Count: 1}, test.code, test.runs...); err != nil {
			return err
		}
	}
	return nil
}

// fencedWorld compares the fence of what is written.
type fencedWorld struct {
	*world
	fence *persist.Fence
}

func (w *fencedWorld) Fence(context.Context) (persist.Fence, error)      { return *w.fence, nil }
func (w *fencedWorld) ConfirmFence(context.Context, string) error        { return nil }
func (w *fencedWorld) CreateLost(context.Context, persist.Counter) error { return nil }
func (w *fencedWorld) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != w.fence.Current {
		return persist.ErrFailedOver
	}
	return w.Create(ctx, d)
}

func (w *fencedWorld) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != w.fence.Current {
		return persist.ErrFailedOver
	}
	return w.Update(ctx, d)
}

// otherServer is a store that fails over under a running node, and a new node.
func otherServer(_ *testing.T, without RuleSet) error {
	w := calmWorld()
	fence := &persist.Fence{Current: "f1", Confirmed: "f1"}
	a := newLone(w, "a", without)
	a.fence = fence
	err := a.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1})
	fence.Current = "f2"
	b := newLone(w, "b", without)
	b.fence = fence
	err = errors.Join(err, a.expect(Op{Kind: Issue, Count: 1}, seqd.CodeStoreFailedOver),
		b.expect(Op{Kind: Find, ID: id(1)}, seqd.CodeStoreFailedOver))
	delete(w.docs, "ledger/"+counter)
	c := newLone(w, "c", without)
	c.fence = fence
	return errors.Join(err, c.expect(Op{Kind: Issue, Count: 1}, seqd.CodeStoreFailedOver))
}

// otherHistory is a node that copies void numbers of what a failover lost, after the raise.
func otherHistory(_ *testing.T, without RuleSet) error {
	w := calmWorld()
	a := newLone(w, "a", 0)
	err := a.expect(Op{Kind: Issue, Count: 5}, "", Run{1, 5})
	old := w.docs["ledger/"+counter]
	err = errors.Join(err, a.expect(Op{Kind: Void, Number: 2, Reason: "lost"}, ""))
	d := w.docs["ledger/"+counter]
	lost, failed := Decode(&d)
	if failed != nil {
		return failed
	}
	w.docs = map[string]persist.Document{old.PersistID(): old}
	w.class, w.state = make(map[int64]byte), nil
	s, _ := Decode(&old)
	_, failed = s.Apply(w.clock, &plain, &Op{Kind: Raise, To: 9, Reason: "failover"}, nil)
	d, _ = s.Document(counter, w.clock)
	w.docs[d.PersistID()] = d
	for _, e := range lost.Outbox {
		err = errors.Join(err, w.Keep(context.Background(), e.Records(counter)))
	}
	b := newLone(w, "b", without)
	err = errors.Join(err, failed, b.expect(Op{Kind: Void, Number: 2, Reason: "again"}, ""))
	if w.class[2] != 'v' {
		err = errors.Join(err, errors.New("2 is not void"))
	}
	return errors.Join(err, w.wrong)
}

// repeatedAfterFailover is a request that is repeated on a node which knows its answer from a
// history that a failover lost. The operator raises the ledger to where it was before: nobody
// remembers the number, because the caller crashed.
func repeatedAfterFailover(_ *testing.T, without RuleSet) error {
	again := Op{Kind: Issue, Count: 1, Once: "again"}
	for name, test := range map[string]struct{ copied, elsewhere bool }{
		"in the outbox":                {false, false},
		"copied":                       {true, false},
		"in the outbox, on both nodes": {false, true},
		"copied, on both nodes":        {true, true},
	} {
		w, fence := calmWorld(), &persist.Fence{Current: "f1", Confirmed: "f1"}
		a := newLone(w, "a", without)
		a.fence = fence
		err := a.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1})
		old := w.docs["ledger/"+counter]
		err = errors.Join(err, a.expect(again, "", Run{2, 2}))
		err = errors.Join(err, w.failOver(a, old, fence, test.copied))

		b := newLone(w, "b", 0)
		b.fence = fence
		err = errors.Join(err, b.expect(Op{Kind: Issue, Count: 1}, "", Run{2, 2}))
		if test.elsewhere {
			err = errors.Join(err, b.expect(again, "", Run{3, 3}))
		}
		err = errors.Join(err, a.expect(again, "", Run{3, 3}), b.expect(again, "", Run{3, 3}), w.wrong)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// repeatedBeforeRaise is a request that is repeated between a failover and the raise, on a node that
// does not know the fence of the new server yet. Another node copies the answer, which the document
// has lost, to the new server.
func repeatedBeforeRaise(_ *testing.T, without RuleSet) error {
	again := Op{Kind: Issue, Count: 1, Once: "again"}
	w, former, present := calmWorld(), &persist.Fence{Current: "f1", Confirmed: "f1"}, &persist.Fence{Current: "f1", Confirmed: "f1"}
	a, b := newLone(w, "a", without), newLone(w, "b", 0)
	a.fence, b.fence = former, present
	err := a.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1})
	old := w.docs["ledger/"+counter]
	err = errors.Join(err, b.expect(again, "", Run{2, 2}))
	w.docs = map[string]persist.Document{old.PersistID(): old}
	w.class, w.state = make(map[int64]byte), nil
	present.Current = "f2" // and nobody has confirmed it
	b.copy()
	return errors.Join(err, a.expect(again, seqd.CodeStoreFailedOver), w.wrong)
}

// failOver puts an older document back on another server, and raises it to where it was. What a node
// has not copied before, it copies then.
func (w *world) failOver(l *lone, old persist.Document, fence *persist.Fence, copied bool) error {
	w.docs = map[string]persist.Document{old.PersistID(): old}
	w.class, w.state = make(map[int64]byte), nil
	fence.Current, fence.Confirmed = "f2", "f2"
	if copied {
		l.copy()
	}
	s, err := Decode(&old)
	if err != nil {
		return err
	}
	if _, err = s.Apply(w.clock, &plain, &Op{Kind: Raise, To: s.Last, Reason: "failover", Fence: fence.Current}, nil); err != nil {
		return err
	}
	d, err := s.Document(counter, w.clock)
	w.docs[d.PersistID()] = d
	return err
}

// copy lets the machine copy its outbox.
func (l *lone) copy() {
	for range 5 {
		commands, _ := l.m.Next(l.now, l.w.clock)
		for _, c := range append([]Command{}, commands...) {
			l.m.Done(l.now, l.w.clock, &c, c.Execute(context.Background(), l.w, nil))
		}
		l.now = l.now.Add(time.Second)
	}
}

// raisedMeanwhile is an operator who raises a ledger to the revision that a write of a node without
// an answer was made up for.
func raisedMeanwhile(_ *testing.T, without RuleSet) error {
	w := calmWorld()
	a := newLone(w, "a", without)
	err := a.expect(Op{Kind: Issue, Count: 1}, "", Run{1, 1})
	old := w.docs["ledger/"+counter]
	err = errors.Join(err, a.expect(Op{Kind: Issue, Count: 1}, "", Run{2, 2}))
	a.holdUp = true
	if _, failed := a.try(Op{Kind: Issue, Count: 1}); !errors.Is(failed, errHeld) {
		return errors.Join(err, failed)
	}
	s, _ := Decode(&old)
	_, _ = s.Apply(w.clock, &plain, &Op{Kind: Raise, To: 9, Reason: "restored"}, nil)
	d, _ := s.Document(counter, w.clock)
	w.docs[d.PersistID()] = d
	w.class, w.state = make(map[int64]byte), nil
	err = errors.Join(err, a.expect(Op{Kind: Issue, Count: 1}, "", Run{11, 11})) // the one held up has 10
	err = errors.Join(err, a.expect(Op{Kind: Issue, Count: 1}, "", Run{12, 12}))
	return errors.Join(err, w.wrong)
}
