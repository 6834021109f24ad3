package main

import (
	"context"
	"slices"
)

// sample is what one load of a service found.
type sample struct {
	rate  float64 // answers a second
	p50   float64 // µs
	p99   float64 // µs
	cpu   float64 // of the service, µs for each request
	redis redisWork
}

// metric is one value of a sample.
type metric func(sample) float64

func rateOf(s sample) float64 { return s.rate }
func p50Of(s sample) float64  { return s.p50 }
func p99Of(s sample) float64  { return s.p99 }
func cpuOf(s sample) float64  { return s.cpu }

// The names of the binaries in a contest.
const (
	newBinary = "seqd"
	oldBinary = "the old binary"
)

// contest loads rivals in turn, so that a slow spell of the machine affects all of them.
type contest struct {
	rounds int
	rivals []rival
}

// rival is a service in a contest.
type rival struct {
	name string
	load func() (sample, error)
}

// add adds a rival. Each name is used once.
func (c *contest) add(name string, load func() (sample, error)) {
	c.rivals = append(c.rivals, rival{name, load})
}

// addValue adds a rival whose load has one value, which is then the rate.
func (c *contest) addValue(name string, load func() (float64, error)) {
	c.add(name, func() (sample, error) { value, err := load(); return sample{rate: value}, err })
}

// scores are the samples of each rival, one for each round.
type scores map[string][]sample

// run loads every rival once in each round. An extra round comes first as a warm-up and does not
// count.
func (c *contest) run(ctx context.Context) (scores, error) {
	list := make(scores)
	err := inTurn(c.rounds+1, len(c.rivals), func(round, i int) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := c.rivals[i].load()
		if round > 0 {
			list[c.rivals[i].name] = append(list[c.rivals[i].name], s)
		}
		return err
	})
	return list, err
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

// column returns one value of each round.
func (s scores) column(name string, of metric) (list []float64) {
	for _, sample := range s[name] {
		list = append(list, of(sample))
	}
	return list
}

// pair returns one value of two rivals.
func (s scores) pair(base, value string, of metric) pairs {
	return pairs{s.column(base, of), s.column(value, of)}
}

// against returns a line that compares seqd with a baseline.
func (s scores) against(baseline, what string, of metric, u unit) result {
	return s.pair(baseline, newBinary, of).report(what, baseline, u)
}

// report returns a line without a baseline.
func (s scores) report(what string, of metric, u unit) result {
	return report(what, s.column(newBinary, of), u)
}

// withOld appends lines that compare the new binary with the old one, if there is one. Values that
// were not measured are left out.
func (s scores) withOld(results []result, what string) []result {
	if len(s[oldBinary]) == 0 {
		return results
	}
	for _, m := range []struct {
		name string
		of   metric
		unit unit
	}{{"", rateOf, perSecond}, {": p50", p50Of, milliseconds}, {": p99", p99Of, milliseconds}, {": CPU for each", cpuOf, ofCPU}} {
		if slices.Min(s.column(oldBinary, m.of)) > 0 {
			results = append(results, s.against(oldBinary, what+m.name, m.of, m.unit))
		}
	}
	return results
}
