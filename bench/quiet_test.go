package main

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat("cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 2 3 4\n")
	if want := (processorTime{busy: 60, steal: 8, all: 531}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7 x"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func TestParseProcess(t *testing.T) {
	got, err := parseProcess("42 (a) (b c) S 7 1 1 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 5 0 99")
	if want := (processTime{pid: 42, parent: 7, ticks: 127}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "42 a S 7", "42 (a) S 7 1 1", "x (a) S 7 1 1 0 -1 4194560 1 2 3 4 100 20 3 4 20", "4 (a) S 7 1 1 0 -1 4194560 1 2 3 4 100 x 3 4 20"} {
		if got, err := parseProcess(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

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

func TestReadUsage(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("this system has no /proc")
	}
	if u, err := readUsage(); err != nil || u.all == 0 || u.own < 0 || u.own > u.busy {
		t.Errorf("%+v, %v", u, err)
	}
}
