package main

import (
	"fmt"
	"strconv"
)

// unit is the unit of values and their format.
type unit struct {
	name     string
	question question
	text     func(float64) string
}

// question is what a user asks, and the part of the table that answers it.
type question string

const (
	howMany   question = "How many a second"
	howLate   question = "How late"
	howMuch   question = "How much memory"
	whatCosts question = "What else it costs"
)

var questions = []question{howMany, howLate, howMuch, whatCosts}

func formatted(format string, divisor float64) func(float64) string {
	return func(n float64) string { return fmt.Sprintf(format, n/divisor) }
}

// The units of all figures. Times are measured in microseconds or nanoseconds and written in the
// unit that reads best.
var (
	perSecond         = unit{"requests/s", howMany, formatted("%.1f k/s", 1000)}
	fewPerSecond      = unit{"requests/s", howMany, formatted("%.0f/s", 1)}
	perMillisecond    = unit{"IDs/ms", howMany, formatted("%.0f/ms", 1)}
	millionsPerSecond = unit{"lines/s", howMany, formatted("%.2f M/s", 1e6)}
	nanoseconds       = unit{"ns", howLate, formatted("%.1f ns", 1)}
	microseconds      = unit{"µs", howLate, formatted("%.0f µs", 1)}
	milliseconds      = unit{"µs", howLate, formatted("%.2f ms", 1000)}
	seconds           = unit{"µs", howLate, formatted("%.2f s", 1e6)}
	mebibytes         = unit{"bytes", howMuch, formatted("%.1f MiB", 1<<20)}
	kilobytes         = unit{"bytes", howMuch, formatted("%.0f KB", 1000)}
	bytesEach         = unit{"bytes", howMuch, formatted("%.0f bytes", 1)}
	ofCPU             = unit{"µs", whatCosts, formatted("%.2f µs", 1)}
	ratio             = unit{"", whatCosts, formatted("%.3f", 1)}
	percent           = unit{"%", whatCosts, formatted("%.2f %%", 1)}
)

// result is one line of the table: the values of each round and of its baseline.
type result struct {
	what     string
	baseline string // what it is compared with, "" for nothing
	unit     unit
	base     []float64 // one per round, or empty
	values   []float64
	// goal is for the ratio if there is a baseline, and otherwise for the values; nil for none.
	goal *goal
}

// pairs are two measurements taken in turn.
type pairs struct{ base, value []float64 }

// ratios returns value/base of each round.
func (p pairs) ratios() []float64 {
	ratios := make([]float64, len(p.base))
	for i := range ratios {
		ratios[i] = p.value[i] / p.base[i]
	}
	return ratios
}

// report returns a line without a goal.
func (p pairs) report(what, baseline string, u unit) result {
	return result{what: what, baseline: baseline, unit: u, base: p.base, values: p.value}
}

// report returns a line without a baseline.
func report(what string, values []float64, u unit) result {
	return result{what: what, unit: u, values: values}
}

// atLeast returns the line with a lower bound for its ratio, or for its values if it has no
// baseline.
func (r result) atLeast(bound float64) result { r.goal = &goal{true, bound}; return r }

// atMost returns the line with an upper bound.
func (r result) atMost(bound float64) result { r.goal = &goal{false, bound}; return r }

// judged returns what the goal is about: the ratios, or the values if there is no baseline.
func (r result) judged() []float64 {
	if len(r.base) > 0 {
		return pairs{r.base, r.values}.ratios()
	}
	return r.values
}

func (r result) interval() interval { return intervalOf(r.judged()) }

// verdict is "" without a goal.
func (r result) verdict() verdict {
	if r.goal == nil {
		return ""
	}
	return r.goal.judge(r.interval())
}

// target is the goal as text.
func (r result) target() string {
	switch {
	case r.goal == nil:
		return ""
	case len(r.base) > 0:
		return r.goal.sign() + strconv.FormatFloat(r.goal.bound, 'g', -1, 64)
	}
	return r.goal.sign() + r.unit.text(r.goal.bound)
}

// ratioText writes a ratio with as many digits as matter.
func ratioText(n float64) string {
	switch {
	case n >= 10:
		return fmt.Sprintf("%.1f", n)
	case n >= 2:
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.3f", n)
}
