package ledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

const counter = "invoice/t1@2026"

var plain = Policy{Start: 1, TTL: 600_000, Keep: 3_600_000, MaxReserved: 1000}

// node drives one machine on a store.
type node struct {
	t     testing.TB
	m     *Machine
	docs  persist.Documents
	now   time.Time
	clock int64
}

func newNode(t testing.TB, docs persist.Documents, writer string) *node {
	return &node{t: t, m: New(Config{Counter: counter, Writer: writer}, plain), docs: docs, now: time.Unix(0, 0), clock: 1_700_000_000_000}
}

func newDocs() persist.Documents { return memory.New(time.Now).Documents() }

// drive executes commands until there are none.
func (n *node) drive() {
	for range 1000 {
		commands, _ := n.m.Next(n.now, n.clock)
		if len(commands) == 0 {
			return
		}
		for _, c := range append([]Command{}, commands...) {
			n.m.Done(n.now, n.clock, &c, c.Execute(context.Background(), n.docs, nil))
		}
	}
	n.t.Fatal("it never ends")
}

func (n *node) do(op Op) (Result, error) {
	n.t.Helper()
	r := &Request{Op: op}
	n.m.Submit(r)
	n.drive()
	for _, f := range n.m.Finished() {
		if f == r {
			n.check()
			return r.Result, r.Err
		}
	}
	n.t.Fatalf("%+v is not finished", op)
	return Result{}, nil
}

// check checks the ledger in the store.
func (n *node) check() {
	n.t.Helper()
	d, err := n.docs.Read(context.Background(), persist.LedgerKind, counter)
	if err != nil {
		return
	}
	s, err := Decode(&d)
	if err != nil {
		n.t.Fatal(err)
	}
	records, err := n.docs.List(context.Background(), persist.VoidKind, "", 100_000)
	if err != nil {
		n.t.Fatal(err)
	}
	voids, err := s.AllVoids(records)
	if err == nil {
		err = s.Check(voids)
	}
	if err != nil {
		n.t.Fatalf("%v: %s", err, d.Body)
	}
}

func id(n int) string { return fmt.Sprintf("%020x", n) }

func (n *node) want(op Op, code seqd.Code, runs ...Run) Result {
	n.t.Helper()
	res, err := n.do(op)
	if seqd.CodeOf(err) != code || fmt.Sprint(res.Runs) != fmt.Sprint(runs) {
		n.t.Fatalf("%+v: %v, %v; want %v, %s", op, res.Runs, err, runs, code)
	}
	return res
}

func TestMachine(t *testing.T) {
	docs := newDocs()
	a, b := newNode(t, docs, "a"), newNode(t, docs, "b")
	a.want(Op{Kind: Issue, Count: 3}, "", Run{1, 3})
	b.want(Op{Kind: Reserve, Count: 2, ID: id(1), Caller: "x"}, "", Run{4, 5})
	a.want(Op{Kind: Find, ID: id(1)}, "", Run{4, 5})
	a.want(Op{Kind: Confirm, ID: id(1), Caller: "y"}, seqd.CodeForbidden)
	a.want(Op{Kind: Confirm, ID: id(2), Caller: "y"}, seqd.CodeUnknownReservation)
	a.want(Op{Kind: Release, ID: id(1), Caller: "x"}, "", Run{4, 5})
	b.want(Op{Kind: Confirm, ID: id(1), Caller: "x"}, seqd.CodeReservationReleased)
	b.want(Op{Kind: Release, ID: id(1), Caller: "x"}, "", Run{4, 5})
	b.want(Op{Kind: Issue, Count: 3, Once: "k"}, "", Run{4, 6})
	a.want(Op{Kind: Issue, Count: 3, Once: "k"}, "", Run{4, 6})
	a.want(Op{Kind: Issue, Count: 4, Once: "k"}, seqd.CodeIdempotencyKeyReused)
	for range 3 {
		a.want(Op{Kind: Void, Number: 5, Reason: "spoilt", Caller: "admin"}, "")
		b.want(Op{Kind: Void, Number: 5, Reason: "again", Caller: "admin"}, "")
	}
	b.want(Op{Kind: Void, Number: 7, Reason: "again", Caller: "admin"}, seqd.CodeInvalidID)
	a.want(Op{Kind: Reserve, Count: 1, ID: id(3), Caller: "x"}, "", Run{7, 7})
	b.clock += 600_000
	b.want(Op{Kind: Confirm, ID: id(3), Caller: "x"}, seqd.CodeReservationExpired)
	if len(b.m.Expired()) != 1 {
		t.Error("the expiry is not reported")
	}
	a.want(Op{Kind: Confirm, ID: id(3), Caller: "x"}, seqd.CodeReservationExpired)
	res := a.want(Op{Kind: Issue, Count: 2}, "", Run{7, 8})
	a.want(Op{Kind: Return, Runs: res.Runs, Since: res.Since}, "")
	b.want(Op{Kind: Issue, Count: 1}, "", Run{7, 7})
	b.want(Op{Kind: Reclaim}, "")
	if !a.m.Idle() || !b.m.Idle() || b.m.Stats().Outbox != 0 {
		t.Errorf("%+v", b.m.Stats())
	}
}
