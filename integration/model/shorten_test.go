package model

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/worlds"
)

// shorten returns the steps of a failing seed that are needed for it to fail before its faults end,
// and in the same way.
func shorten(t *testing.T, out without, f worlds.Failure) (needed []int) {
	program := must.Get(compile(out))(t)
	l := newInterpreter(program)
	return worlds.Shorten(f.Step+1, func(kept []int) bool {
		w := newWorld(l, out, f.Seed)
		w.run(f.Step+1, worlds.Except(kept))
		return w.check.broken != "" && !w.healing && worlds.KindOf(w.check.broken) == f.Kind()
	})
}
