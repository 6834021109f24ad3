package model

import (
	"testing"

	"github.com/seqd/seqd/internal/worlds"
)

func TestZZ(t *testing.T) {
	program, _ := compile(without{})
	w := newWorld(newInterpreter(program), without{}, uint64(*seedFlag))
	w.run(worldSteps, nil)
	f := worlds.Failure{Seed: uint64(*seedFlag), Step: w.step, Broken: w.check.broken}
	needed := shorten(t, without{}, f)
	t.Logf("%d steps\n%s", len(needed), replay(t, without{}, f.Seed, needed))
}
