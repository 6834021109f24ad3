package main

import (
	"testing"
)

func TestTreeTime(t *testing.T) {
	processes := []processTime{{1, 0, 1000}, {10, 1, 1}, {11, 10, 2}, {12, 11, 4}, {13, 10, 8}, {20, 1, 500}}
	if got := treeTime(processes, 10); got != 15 {
		t.Errorf("the tree of 10 used %d ticks, want 15", got)
	}
}

func TestNoiseBetween(t *testing.T) {
	before := usage{processorTime{busy: 1000, steal: 10, all: 5000}, 800}
	for _, c := range []struct {
		after usage
		want  noise
		quiet bool
	}{
		{usage{processorTime{busy: 1100, steal: 14, all: 5200}, 894}, noise{Steal: 2, Other: 3}, true},
		{usage{processorTime{busy: 1100, steal: 12, all: 5200}, 880}, noise{Steal: 1, Other: 10}, false},
		{usage{processorTime{busy: 1100, steal: 10, all: 5200}, 901}, noise{}, true},
		{before, noise{}, true},
	} {
		if got := noiseBetween(before, c.after); got != c.want || got.quiet() != c.quiet {
			t.Errorf("%+v, quiet %t; want %+v", got, got.quiet(), c.want)
		}
	}
}
