package ledger

import (
	"context"
	"errors"
	"testing"

	"github.com/seqd/seqd/persist"
)

// lossyWorld returns machines on a store that may lose something in a failover, and has not.
func lossyWorld(names ...string) (w *world, machines []*lone) {
	w = calmWorld()
	fence := &persist.Fence{Current: "f1", Confirmed: "f1"}
	for _, name := range names {
		l := newLone(w, name, 0)
		l.fence = fence
		machines = append(machines, l)
	}
	return w, machines
}

// A record of another node, and many writers since the last write of this one, do not mean that the
// store has failed over.
func TestAheadOfForgottenWriters(t *testing.T) {
	defer func(was int) { mostWriters = was }(mostWriters)
	mostWriters = 2
	w, m := lossyWorld("a", "b", "c", "d")
	one, again := Op{Kind: Issue, Count: 1}, Op{Kind: Issue, Count: 1, Once: "again"}
	err := errors.Join(
		m[0].expect(one, "", Run{1, 1}), m[1].expect(one, "", Run{2, 2}), m[2].expect(one, "", Run{3, 3}),
		m[1].expect(one, "", Run{4, 4}), m[2].expect(one, "", Run{5, 5}), m[3].expect(again, "", Run{6, 6}))
	m[3].copy()
	err = errors.Join(err, m[0].expect(again, "", Run{6, 6}), m[1].expect(one, "", Run{7, 7}), m[2].expect(one, "", Run{8, 8}))
	err = errors.Join(err, m[0].expect(again, "", Run{6, 6}), m[0].expect(one, "", Run{9, 9}), w.wrong)
	if err != nil {
		t.Error(err)
	}
}

// A Read that began before another node wrote does not mean that the store has failed over, although
// a record of that write is known when it ends.
func TestAheadOfARead(t *testing.T) {
	w, m := lossyWorld("a", "b")
	a, b := m[0], m[1]
	mine, theirs := Op{Kind: Issue, Count: 1, Once: "mine"}, Op{Kind: Issue, Count: 1, Once: "theirs"}
	if err := a.expect(mine, "", Run{1, 1}); err != nil {
		t.Fatal(err)
	}
	var slow []func()
	read := func(r *Request) {
		t.Helper()
		a.m.Submit(r)
		commands, _ := a.m.Next(a.now, w.clock)
		for _, c := range append([]Command{}, commands...) {
			out := c.Execute(context.Background(), w, &fencedWorld{w, a.fence})
			if c.Action == Read {
				slow = append(slow, func() { a.m.Done(a.now, w.clock, &c, out) })
				continue
			}
			a.m.Done(a.now, w.clock, &c, out)
		}
	}
	replay := &Request{Op: mine}
	replay.Op.Caller = "c"
	read(replay)
	if len(slow) != 1 {
		t.Fatalf("%d reads are under way", len(slow))
	}
	if err := b.expect(theirs, "", Run{2, 2}); err != nil {
		t.Fatal(err)
	}
	b.copy()
	request := &Request{Op: theirs}
	request.Op.Caller = "c"
	read(request)
	slow[0]()
	// What waits is told, and nothing stands still.
	if err := errors.Join(a.expect(mine, "", Run{1, 1}), a.expect(theirs, "", Run{2, 2}), replay.Err, request.Err, w.wrong); err != nil {
		t.Fatal(err)
	}
	if request.Result.Runs[0] != (Run{2, 2}) || replay.Result.Runs[0] != (Run{1, 1}) {
		t.Errorf("the requests were told %v and %v", request.Result.Runs, replay.Result.Runs)
	}
}
