package model

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/internal/testing/worlds"
)

// worldSteps is how long things go wrong in a world.
const worldSteps = 1100

var (
	seedsFlag = flag.Int("model.seeds", defaultSeeds(), "how many seeds to run, each about 1100 steps long")
	seedFlag  = flag.Int64("model.seed", -1, "run only this seed and print its schedule")
)

// defaultSeeds makes 10^6 steps, or 3·10^6 if the tests that take long run.
func defaultSeeds() int {
	if racing.On {
		return 200
	}
	return longtest.Or(1000, 3000)
}

// tally adds up what happened in many worlds.
type tally struct {
	seeds, steps, scripts, numbers int
	events                         map[string]int
	failures                       []worlds.Failure
}

// survey runs so many seeds, first, first + step and so on, on all cores, until some have failed in
// a way that counts.
func survey(t *testing.T, out without, first, step rule, seeds, enough int, counts func(worlds.Failure) bool) (sum tally) {
	program := must.Get(compile(out))(t)
	sum.events = map[string]int{}
	sum.failures = worlds.Survey(uint64(first), uint64(step), seeds, enough, func() func(uint64) (*worlds.Failure, func()) {
		l := newInterpreter(program)
		return func(seed uint64) (failed *worlds.Failure, add func()) {
			before := l.runs
			w := newWorld(l, out, seed)
			steps := w.run(worldSteps, nil)
			if f := (worlds.Failure{Seed: seed, Step: w.step, Broken: w.check.broken}); f.Broken != "" && counts(f) {
				failed = &f
			}
			return failed, func() {
				sum.seeds++
				sum.steps += steps
				sum.scripts += l.runs - before
				sum.numbers += w.check.numbers
				for event, n := range w.events {
					sum.events[event] += n
				}
			}
		}
	})
	return sum
}

// With all its rules the protocol keeps what it promises.
func TestModel(t *testing.T) {
	if *seedFlag >= 0 {
		schedule := replay(t, without{}, uint64(*seedFlag), nil)
		t.Log("\n" + schedule)
		if strings.Contains(schedule, violation) {
			t.Error("see the schedule's end")
		}
		return
	}
	began := time.Now()
	sum := survey(t, without{}, 0, 1, *seedsFlag, 10, func(worlds.Failure) bool { return true })
	text := fmt.Sprintf("%d seeds, %d steps, %d script runs, %d numbers issued in %.1f s", sum.seeds, sum.steps, sum.scripts, sum.numbers, time.Since(began).Seconds())
	for _, event := range slices.Sorted(maps.Keys(sum.events)) {
		text += fmt.Sprintf("\n%9d  %s", sum.events[event], event)
	}
	t.Log(text)
	for _, event := range mustHappen {
		if sum.events[event] == 0 && sum.seeds >= 1000 {
			t.Errorf("no world came to %q: the test shows less than it seems to", event)
		}
	}
	if n := sum.events[notUnderstood]; n > 0 {
		t.Errorf("the client of the cursor refused %d replies", n)
	}
	for _, f := range sum.failures {
		t.Errorf("seed %d: step %d: %s", f.Seed, f.Step, f.Broken)
	}
}

// searched is how many seeds the search for what breaks without a rule takes at most. Most searches
// end within a few hundred.
const searched = 20_000

// mustHappen is what happens in any thousand worlds, unless the model is wrong.
var mustHappen = []string{
	"append ok", "append moved", "append stale", "append full", "seed ok", "seed moved", "advance ok", "advance moved", "advance stale",
	"left", "returned", "given back", "store behind", "restored bare", "restored and raised", "restored while stopped", "promoted", "split brain", "took",
	"other", "seed over another", "epoch drawn", "refused by the store: spare", "refused by the store: refill", "refused by the store: comeback",
	"answer out of order", "event cursor_contested", "other settings", "waited for the store's word", "uneven", "even again", "two Redis servers", "per-node ordering",
	"moved to another Redis", "moved to another Redis node by node", "store failed over", "lost by a failover", "failed over without a loss",
	"counter lost by a failover", "lost counter created again", "not created after a failover", "continued above a failover", "raised after a failover",
	"took from the store", "order demanded of the store", "the store took over", "refused by the store: take", "cursor removed", "another sequencer", "another sequencer while it runs", "two sequencers",
	"followed to the store", "followed to Redis", "restored while taking", "restored, raised above what was issued", "created again", "order demanded", "upgraded",
	"handed out from the store", "handed out beside a cursor", "handed out away from the cursor", "handed out with per-node ordering", "handed out as much as the gap",
	"restored below what was handed out",
}

// together are rules of which another one does the work when they are out alone. kind is the
// promise that must be broken.
var together = map[rule]struct {
	other rule
	kind  string
}{
	// gen alone keeps a repeated install from counting. Without repetition it keeps only the order,
	// not uniqueness: each range is in one message.
	installOnce: {genCheck, "uniqueness"},
	// A cursor that could offer a lower number does not count.
	guardRule: {askToAdopt, "order per process"},
	// The store gives nothing at or below the floor.
	takeGuard: {takeFloor, "order per process"},
}

// scheduled are the rules that random schedules rarely meet. The scenarios of the packages show
// what those of the machines are for, schedules of internal/testing/sim also those of the scripts,
// and the suite of every store has append-refused.
var scheduled = leaveOut(genCheck, aheadKept, youngSpare, standbyAboveCeil, seedNames, installNames, appendRefused, answersInOrder, takeOverOnce,
	beliefsAge, spareEpoch)

// savesWork are the rules that no promise needs: a schedule of internal/testing/sim shows what
// happens.
var savesWork = leaveOut(patienceRule)

// Each rule is needed: without it something breaks before the faults end, and the model notices. A
// seed is made for the rule whose number is the rest of dividing it by the number of rules.
func TestEveryRuleIsNeeded(t *testing.T) {
	longtest.Only(t) // the scenarios of the packages show it for each rule in a moment
	if racing.On {
		t.Skip("it searches very many worlds, each in one goroutine: only without the race detector")
	}
	for r := range rulesInAll {
		if scheduled[r] || savesWork[r] {
			continue
		}
		t.Run(r.String(), func(t *testing.T) {
			out, kind := leaveOut(r), ""
			if and, ok := together[r]; ok {
				out, kind = leaveOut(r, and.other), and.kind
			}
			sum := survey(t, out, r, rulesInAll, searched, 1, func(f worlds.Failure) bool {
				return strings.HasPrefix(f.Broken, kind) && f.Step < worldSteps
			})
			if len(sum.failures) == 0 {
				t.Fatalf("nothing broke in %d seeds, %d steps", sum.seeds, sum.steps)
			}
			if !testing.Verbose() {
				return // to shorten a schedule that nobody sees takes most of the time
			}
			f := sum.failures[0]
			needed := shorten(t, out, f)
			t.Logf("without %q %d of %d seeds fail, after %d steps. Seed %d needs %d of its steps:\n%s", r, len(sum.failures), sum.seeds, sum.steps,
				f.Seed, len(needed), replay(t, out, f.Seed, needed))
		})
	}
}

// replay returns the schedule of a seed, or of only some of its steps.
func replay(t *testing.T, out without, seed uint64, needed []int) string {
	program := must.Get(compile(out))(t)
	w := newWorld(newInterpreter(program), out, seed)
	var schedule strings.Builder
	w.trace = func(text string) { schedule.WriteString(text + "\n") }
	w.run(worldSteps, worlds.Except(needed))
	return schedule.String()
}
