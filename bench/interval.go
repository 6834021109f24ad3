package main

import (
	"math"
	"slices"
)

// median returns the median of a list that is not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// interval is a confidence interval of a median.
type interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // from 0 to 1
}

// wantedConfidence is the confidence that an interval has, if there are enough values.
const wantedConfidence = 0.95

// intervalOf returns the narrowest interval between two of the values that contains the median of
// what they are a sample of, with a confidence of at least 95 %. With fewer than six values there
// is no such interval; then it is the one from the lowest to the highest value, which has a lower
// confidence.
//
// Each value is below the true median with a probability of one half, so the number of values below
// it has a binomial distribution. The interval from the k-th lowest to the k-th highest value misses
// the median only if fewer than k values are on one side of it. This assumes nothing about the
// distribution of the values: see H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition,
// section 7.1.
func intervalOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	k := 1
	for k+1 <= n/2 && coverage(n, k+1) >= wantedConfidence {
		k++
	}
	return interval{sorted[k-1], sorted[n-k], coverage(n, k)}
}

// coverage returns the probability that the median lies between the k-th lowest and the k-th
// highest of n values.
func coverage(n, k int) float64 {
	missed, term := 0.0, math.Pow(0.5, float64(n)) // P(0 values below the median)
	for i := range k {
		missed += term
		term *= float64(n-i) / float64(i+1)
	}
	return max(0, 1-2*missed)
}

// goal is the bound that a figure should reach.
type goal struct {
	atLeast bool // otherwise at most
	bound   float64
}

// verdict says if a figure reached its goal.
type verdict string

const (
	reached   verdict = "reached"
	missed    verdict = "missed"
	undecided verdict = "not decided" // both are within the confidence interval
)

// judge compares the whole interval with the goal.
func (g goal) judge(i interval) verdict {
	worst, best := i.High, i.Low
	if g.atLeast {
		worst, best = i.Low, i.High
	}
	switch {
	case g.met(worst):
		return reached
	case g.met(best):
		return undecided
	}
	return missed
}

func (g goal) met(value float64) bool {
	if g.atLeast {
		return value >= g.bound
	}
	return value <= g.bound
}

func (g goal) sign() string {
	if g.atLeast {
		return "≥ "
	}
	return "≤ "
}
