package model

import (
	"slices"
	"testing"
)

// shorten returns the steps of a failing seed that are needed for it to fail: it leaves out larger and smaller stretches, as long as the world
// still fails before its faults end, and in the same way.
func shorten(t *testing.T, out without, f failure) (needed []int) {
	program, err := compile(out)
	if err != nil {
		t.Fatal(err)
	}
	l := newInterpreter(program)
	fails := func(steps []int) bool {
		w := newWorld(l, out, f.seed)
		w.run(f.step+1, func(step int) bool { _, kept := slices.BinarySearch(steps, step); return !kept })
		return w.check.broken != "" && !w.healing && failure{broken: w.check.broken}.kind() == f.kind()
	}
	for step := range f.step + 1 {
		needed = append(needed, step)
	}
	for size := len(needed) / 2; size > 0; size /= 2 {
		for shorter := true; shorter; shorter = shorter && size == 1 {
			shorter = false
			for from := len(needed) - size; from > -size; from -= size {
				trial := slices.Delete(slices.Clone(needed), max(from, 0), from+size)
				if fails(trial) {
					needed, shorter = trial, true
				}
			}
		}
	}
	return needed
}
