package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCoverage(t *testing.T) {
	// from tables of the confidence interval of the median
	for _, c := range []struct {
		n, k int
		want float64
	}{{1, 1, 0}, {2, 1, 0.5}, {5, 1, 0.9375}, {6, 1, 0.96875}, {9, 2, 0.9609375}, {10, 2, 0.978515625}, {20, 6, 0.95861053466796875}} {
		if got := coverage(c.n, c.k); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("coverage(%d, %d) is %v, want %v", c.n, c.k, got, c.want)
		}
	}
}

func TestIntervalOf(t *testing.T) {
	for _, c := range []struct {
		n         int
		low, high float64
	}{{1, 1, 1}, {2, 1, 2}, {3, 1, 3}, {5, 1, 5}, {6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {20, 6, 15}} {
		values := make([]float64, c.n)
		for i, at := range rand.Perm(c.n) {
			values[at] = float64(i + 1)
		}
		if got := intervalOf(values); got.Low != c.low || got.High != c.high {
			t.Errorf("of %d values the interval is %v, want %v to %v", c.n, got, c.low, c.high)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		g    goal
		i    interval
		want verdict
	}{
		{goal{true, 0.9}, interval{Low: 0.9, High: 1}, reached},
		{goal{true, 0.9}, interval{Low: 0.89, High: 1}, undecided},
		{goal{true, 0.9}, interval{Low: 0.8, High: 0.89}, missed},
		{goal{false, 10}, interval{Low: 5, High: 10}, reached},
		{goal{false, 10}, interval{Low: 5, High: 11}, undecided},
		{goal{false, 10}, interval{Low: 11, High: 12}, missed},
	} {
		if got := c.g.judge(c.i); got != c.want {
			t.Errorf("%+v is %s by %v, want %s", c.g, got, c.i, c.want)
		}
	}
}
