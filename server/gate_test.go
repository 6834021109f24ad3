package server

import (
	"errors"
	"testing"

	"github.com/seqd/seqd/persist"
)

// While the gate is shut only the comparison may use the store; after that everything may.
func TestGate(t *testing.T) {
	r := &runtime{}
	if err := r.admit(t.Context()); err != nil {
		t.Errorf("without a gate: %v", err)
	}
	r.gate = &gate{}
	other := &gate{}
	if err := r.admit(t.Context()); !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("shut: %v", err)
	}
	if err := r.admit(other.pass(t.Context())); !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("with the pass of another gate: %v", err)
	}
	if err := r.admit(r.gate.pass(t.Context())); err != nil {
		t.Errorf("with a pass: %v", err)
	}
	r.gate.open.Store(true)
	if err := r.admit(t.Context()); err != nil {
		t.Errorf("open: %v", err)
	}
}
