package cursor

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// taking returns a machine of which a take succeeds while all is well.
func taking(tb testing.TB) (m *Machine, take func()) {
	now := time.Now()
	m = New(Config{Start: 1, Threshold: 0.2, Reserve: 1, Degrade: true, Step: 1000, MaxStep: 1000})
	m.Began(now, now, "e")
	runs, first := make([]persist.Range, 1), int64(0)
	return m, func() {
		if _, wait := m.Send(now, 3); wait {
			tb.Fatal("it waits")
		}
		first += 3
		runs[0] = persist.Range{First: first, Last: first + 2}
		out := m.Took(now, now, 3, rediscursor.Taken{Epoch: "e", Ceil: 1 << 50, Runs: runs}, nil)
		if out.Brought != 3 || m.Deadline() != (time.Time{}) {
			tb.Fatal(out)
		}
	}
}

// A take that succeeds costs no allocation and causes no command.
func TestTakesAllocateNothing(t *testing.T) {
	m, take := taking(t)
	take() // allocates a standby range
	if m.Commands() == nil {
		t.Error("no standby range")
	}
	must.Equal(t, must.Allocs(1000, take), 0, "allocations")
	if c := m.Commands(); c != nil {
		t.Error(c)
	}
}
