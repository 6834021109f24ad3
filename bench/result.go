package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// unit is the unit of values and their format.
type unit struct {
	name string
	text func(float64) string
}

func formatted(format string, divisor float64) func(float64) string {
	return func(n float64) string { return fmt.Sprintf(format, n/divisor) }
}

// The units of all figures. Times are measured in microseconds or nanoseconds and written in the
// unit that reads best.
var (
	perSecond         = unit{"requests/s", formatted("%.1f k/s", 1000)}
	fewPerSecond      = unit{"requests/s", formatted("%.0f/s", 1)}
	perMillisecond    = unit{"IDs/ms", formatted("%.0f/ms", 1)}
	millionsPerSecond = unit{"lines/s", formatted("%.2f M/s", 1e6)}
	nanoseconds       = unit{"ns", formatted("%.1f ns", 1)}
	microseconds      = unit{"µs", formatted("%.0f µs", 1)}
	hundredths        = unit{"µs", formatted("%.2f µs", 1)}
	milliseconds      = unit{"µs", formatted("%.2f ms", 1000)}
	mebibytes         = unit{"bytes", formatted("%.1f MiB", 1<<20)}
	kilobytes         = unit{"bytes", formatted("%.0f KB", 1000)}
	bytesEach         = unit{"bytes", formatted("%.0f bytes", 1)}
	ratio             = unit{"", formatted("%.3f", 1)}
	ofACore           = unit{"", formatted("%.3f %%", 0.01)}
)

// result is one line of the table: the values of each round and of its baseline.
type result struct {
	what     string
	baseline string // what it is compared with, "" for nothing
	unit     unit
	base     []float64 // one per round, or empty
	values   []float64
	target   string // "" for none
	reached  bool
}

// median returns the median of a list that is not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// pairs are two measurements taken in turn.
type pairs struct{ base, value []float64 }

// measure measures baseline and value in turn.
func measure(rounds int, base, value func() (float64, error)) (pairs, error) {
	lists, err := turns(rounds, base, value)
	if err != nil {
		return pairs{}, err
	}
	return pairs{base: lists[0], value: lists[1]}, nil
}

// turns takes several measurements in turn and returns the values of each. An extra round comes
// first as a warm-up and does not count.
func turns(rounds int, measurements ...func() (float64, error)) ([][]float64, error) {
	lists := make([][]float64, len(measurements))
	err := inTurn(rounds+1, len(measurements), func(round, n int) error {
		value, err := measurements[n]()
		if round > 0 {
			lists[n] = append(lists[n], value)
		}
		return err
	})
	return lists, err
}

// timesInTurn returns the median time of each of two calls, in microseconds, made one at a time and
// in turn. An extra round comes first as a warm-up and does not count.
func timesInTurn(ctx context.Context, rounds int, base, value func() error) (p pairs, err error) {
	for round := range rounds + 1 {
		b, v, err := medians(ctx, base, value)
		if err != nil {
			return p, err
		}
		if round > 0 {
			p.base, p.value = append(p.base, b), append(p.value, v)
		}
	}
	return p, nil
}

// medians calls both in turn and returns the median time of each in microseconds.
func medians(ctx context.Context, base, value func() error) (b, v float64, err error) {
	const calls = 2000
	var took [2][]time.Duration
	for range calls {
		for i, call := range []func() error{base, value} {
			began := time.Now()
			if err := errors.Join(call(), ctx.Err()); err != nil {
				return 0, 0, err
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	slices.Sort(took[0])
	slices.Sort(took[1])
	return permille(took[0], 500), permille(took[1], 500), nil
}

// inTurn calls do for n things in every round. Each round begins with the next thing, so that none
// is always last.
func inTurn(rounds, n int, do func(round, i int) error) error {
	for round := range rounds {
		for i := range n {
			if err := do(round, (i+round)%n); err != nil {
				return err
			}
		}
	}
	return nil
}

// ratios returns value/base of each round.
func (p pairs) ratios() []float64 {
	ratios := make([]float64, len(p.base))
	for i := range ratios {
		ratios[i] = p.value[i] / p.base[i]
	}
	return ratios
}

// result returns a line with a target. If atLeast is set the ratio must be at least the target,
// otherwise at most.
func (p pairs) result(what, baseline string, u unit, atLeast bool, target float64) result {
	r := p.report(what, baseline, u)
	ratio := median(p.ratios())
	sign := "≤"
	r.reached = ratio <= target
	if atLeast {
		sign, r.reached = "≥", ratio >= target
	}
	r.target = fmt.Sprintf("%s %.2f", sign, target)
	return r
}

// report returns a line without a target.
func (p pairs) report(what, baseline string, u unit) result {
	return result{what: what, baseline: baseline, unit: u, base: p.base, values: p.value}
}

// report returns a line without a baseline.
func report(what string, values []float64, u unit) result {
	return result{what: what, unit: u, values: values}
}

// within is like report, with a limit for the median.
func within(what string, values []float64, u unit, bound float64) result {
	r := report(what, values, u)
	r.target, r.reached = "≤ "+u.text(bound), median(values) <= bound
	return r
}

// atLeast is like report, with a bound that the median must reach.
func atLeast(what string, values []float64, u unit, bound float64) result {
	r := report(what, values, u)
	r.target, r.reached = "≥ "+u.text(bound), median(values) >= bound
	return r
}

// spread formats the lowest and the highest value of a list.
func spread(values []float64, u unit) string {
	return u.text(slices.Min(values)) + "–" + u.text(slices.Max(values))
}
