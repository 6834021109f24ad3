package machineid

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/internal/testing/worlds"
)

var (
	seedsFlag = flag.Int("model.seeds", defaultSeeds(), "how many seeds to run, each 1000 steps long at least")
	seedFlag  = flag.Int64("model.seed", -1, "run only this seed and print its schedule")
)

// defaultSeeds returns the number of seeds for 2 * 10^6 steps, and 10^7 in the long run.
func defaultSeeds() int {
	if racing.On {
		return 500
	}
	return longtest.Or(2000, 10_000)
}

// tally is the result of many worlds.
type tally struct {
	seeds, steps, issued int
	events               [eventsInAll]int
	failures             []worlds.Failure
}

// survey runs that many seeds, first, first + step and so on, on all cores, until enough have
// failed.
func survey(out without, first, step rule, seeds, enough int) (sum tally) {
	sum.failures = worlds.Survey(uint64(first), uint64(step), seeds, enough, func() func(uint64) (*worlds.Failure, func()) {
		return func(seed uint64) (failed *worlds.Failure, add func()) {
			w := newWorld(out, seed)
			steps := w.run(worldSteps, nil)
			if w.check.broken != "" {
				failed = &worlds.Failure{Seed: seed, Step: w.step, Broken: w.check.broken}
			}
			return failed, func() {
				sum.seeds++
				sum.steps += steps
				sum.issued += w.check.issued
				for e, n := range w.events {
					sum.events[e] += n
				}
			}
		}
	})
	return sum
}

// TestModel checks that the protocol keeps its promises with all its rules.
func TestModel(t *testing.T) {
	if *seedFlag >= 0 {
		schedule := replay(without{}, uint64(*seedFlag), nil)
		t.Log("\n" + schedule)
		if w := newWorld(without{}, uint64(*seedFlag)); strings.Contains(schedule, violation) {
			w.run(worldSteps, nil)
			f := worlds.Failure{Seed: uint64(*seedFlag), Step: w.step, Broken: w.check.broken}
			t.Errorf("see the schedule's end. Of that this is needed:\n%s", replay(without{}, f.Seed, shorten(without{}, f)))
		}
		return
	}
	began := time.Now()
	sum := survey(without{}, 0, 1, *seedsFlag, 10)
	text := fmt.Sprintf("%d seeds, %d steps, %d times used in %.1f s", sum.seeds, sum.steps, sum.issued, time.Since(began).Seconds())
	for e, n := range sum.events {
		text += fmt.Sprintf("\n%9d  %s", n, eventNames[e])
		if n == 0 && sum.seeds >= 200 {
			t.Errorf("no world came to %q: the test is emptier than it looks", eventNames[e])
		}
	}
	t.Log(text)
	for _, f := range sum.failures {
		t.Errorf("seed %d: step %d: %s", f.Seed, f.Step, f.Broken)
	}
}

// A registry that can be put back without a sign, such as one in a coordinator. Nodes that trust it
// issue numbers twice; nodes that doubt it do not.
func TestQuietRegistry(t *testing.T) {
	sum := survey(without{quiet: true}, 0, 1, *seedsFlag, 10)
	t.Logf("%d seeds, %d times used, %d put back", sum.seeds, sum.issued, sum.events[restoredBare])
	if sum.events[restoredBare] == 0 {
		t.Error("it was never put back")
	}
	for _, f := range sum.failures {
		t.Errorf("seed %d: step %d: %s", f.Seed, f.Step, f.Broken)
	}
	if trusting := survey(without{quiet: true, trusting: true}, 0, 1, *seedsFlag, 1); len(trusting.failures) == 0 {
		t.Error("nodes need not doubt it")
	}
}

// needed shows what breaks without a rule, in at most 20,000 worlds made for that.
func needed(t *testing.T, r rule) {
	out := leaveOut(overlap, r)
	sum := survey(out, r, rulesInAll, 20_000, 6)
	i := slices.IndexFunc(sum.failures, func(f worlds.Failure) bool { return f.Step < worldSteps })
	if i < 0 {
		t.Fatalf("nothing broke in %d seeds, %d steps", sum.seeds, sum.steps)
	}
	f := sum.failures[i]
	for _, other := range sum.failures[:min(i+3, len(sum.failures))] {
		if other.Step < worldSteps && len(shorten(out, other)) < len(shorten(out, f)) {
			f = other
		}
	}
	steps := shorten(out, f)
	t.Logf("%d of %d seeds fail. Seed %d needs %d of its steps:\n%s", len(sum.failures), sum.seeds, f.Seed, len(steps), replay(out, f.Seed, steps))
}

// spare are the rules without which nothing breaks, because another one does the same.
var spare = []rule{
	lowerUntil, // reserved is never below until
	// the floor over the lost lease covers it too, as long as the registry's clock is right
	spentKept,
}

func TestSpareRules(t *testing.T) {
	for _, r := range spare {
		if sum := survey(leaveOut("", r), 0, 1, min(*seedsFlag, longtest.Or(100, 2000)), 1); len(sum.failures) > 0 {
			t.Errorf("without %q: %+v: it is needed after all", r, sum.failures)
		}
	}
}

// TestLimits shows what no rule of the protocol covers, as ADR 11 says. The worlds of TestModel
// leave such faults out.
func TestLimits(t *testing.T) {
	longtest.Only(t)
	if racing.On {
		t.Skip("a search over very many worlds, each in one goroutine; the run without the race detector does it")
	}
	for r := firstLimit; r < rulesInAll; r++ {
		t.Run(r.String(), func(t *testing.T) { needed(t, r) })
	}
}

// replay returns the schedule of a seed, or of only some of its steps.
func replay(out without, seed uint64, steps []int) string {
	w := newWorld(out, seed)
	var schedule strings.Builder
	w.trace = func(text string) { schedule.WriteString(text + "\n") }
	for _, n := range w.nodes {
		w.say("%s: key %s, IDs %d to %d, horizon %d, maxSkew %d, offline %d", n.name, n.key, n.First, n.Member.Last, n.Horizon, n.MaxSkew, n.Offline)
	}
	w.run(worldSteps, worlds.Except(steps))
	return schedule.String()
}

// shorten returns the steps of a failing seed that are needed for it to fail in the same way before
// its faults end.
func shorten(out without, f worlds.Failure) (steps []int) {
	most := min(f.Step+1, worldSteps-1)
	return worlds.Shorten(most, func(kept []int) bool {
		w := newWorld(out, f.Seed)
		w.run(most, worlds.Except(kept))
		return worlds.KindOf(w.check.broken) == f.Kind()
	})
}
