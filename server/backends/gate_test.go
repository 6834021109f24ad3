package backends

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// While the gate is shut only the comparison may use the store; after that everything may.
func TestGate(t *testing.T) {
	g, other := new(Gate), new(Gate)
	if err := g.Admit(t.Context()); err != nil {
		t.Errorf("before it was shut: %v", err)
	}
	g.shut.Store(true)
	must.Is(t, g.Admit(t.Context()), persist.ErrUnavailable, "shut")
	must.Is(t, g.Admit(other.pass(t.Context())), persist.ErrUnavailable, "with the pass of another gate")
	if err := g.Admit(g.pass(t.Context())); err != nil {
		t.Errorf("with a pass: %v", err)
	}
	g.shut.Store(false)
	if err := g.Admit(t.Context()); err != nil {
		t.Errorf("open: %v", err)
	}
}
