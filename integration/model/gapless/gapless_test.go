package gapless

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
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// worldSteps is how long things go wrong in a world.
const worldSteps = 500

var (
	seedsFlag   = flag.Int("gapless.seeds", defaultSeeds(), "how many seeds to run, each about 500 steps long")
	seedFlag    = flag.Int64("gapless.seed", -1, "run only this seed and print its schedule")
	shortenFlag = flag.Bool("gapless.shorten", false, "shorten and print a schedule for each rule")
	withoutFlag = flag.String("gapless.without", "", "the rules to take out in that run, separated by commas")
)

func defaultSeeds() int {
	if racing.On {
		return 200
	}
	return longtest.Or(2000, 8000)
}

// tally adds up what happened in many worlds.
type tally struct {
	seeds, steps, told, numbers int
	events                      map[string]int
	failures                    []worlds.Failure
}

// survey runs so many seeds from first on, on all cores, until some have failed in a way that
// counts.
func survey(s setup, first uint64, seeds, enough int, counts func(worlds.Failure) bool) (sum tally) {
	sum.events = map[string]int{}
	sum.failures = worlds.Survey(first, 1, seeds, enough, func() func(uint64) (*worlds.Failure, func()) {
		return func(seed uint64) (failed *worlds.Failure, add func()) {
			w := newWorld(s, seed)
			steps := w.run(worldSteps, nil)
			if f := (worlds.Failure{Seed: seed, Step: w.step, Broken: w.check.broken}); f.Broken != "" && counts(f) {
				failed = &f
			}
			return failed, func() {
				sum.seeds++
				sum.steps += steps
				sum.told += w.check.tolds
				sum.numbers += int(w.check.toldIssued)
				for event, n := range w.events {
					sum.events[event] += n
				}
			}
		}
	})
	return sum
}

// With all its rules a ledger keeps what it promises.
func TestModel(t *testing.T) {
	if *seedFlag >= 0 {
		s := must.Get(parse(*withoutFlag))(t)
		schedule := replay(s, uint64(*seedFlag), nil)
		t.Log("\n" + schedule)
		if strings.Contains(schedule, violation) {
			t.Error("see the schedule's end")
		}
		return
	}
	began := time.Now()
	sum := survey(setup{}, 0, *seedsFlag, 10, func(worlds.Failure) bool { return true })
	text := fmt.Sprintf("%d seeds, %d steps, %d answers, %d numbers issued in %.1f s", sum.seeds, sum.steps, sum.told, sum.numbers, time.Since(began).Seconds())
	for _, event := range slices.Sorted(maps.Keys(sum.events)) {
		text += fmt.Sprintf("\n%9d  %s", sum.events[event], event)
	}
	t.Log(text)
	for _, event := range mustHappen {
		if sum.events[event] == 0 && sum.seeds >= 1000 {
			t.Errorf("no world came to %q: the test shows less than it seems to", event)
		}
	}
	for _, f := range sum.failures {
		t.Errorf("seed %d: step %d: %s", f.Seed, f.Step, f.Broken)
	}
}

// mustHappen is what happens in any thousand worlds, unless the model is wrong.
var mustHappen = []string{
	"accounts", "pages", "all were away", "another policy", "answered: issue", "answered: reserve", "answered: find", "answered: confirm", "answered: release", "answered: void",
	"confirmed", "failed over", "lost by a failover", "issued, void", "reserved, void", "kept", "looked up", "nobody was awake", "onRelease changed", "purged", "raised", "reclaimed",
	"refused: forbidden", "refused: invalid_id", "refused: reservation_confirmed", "refused: reservation_expired", "refused: reservation_released", "refused: store_failed_over",
	"refused: too_many_reserved", "refused: unknown_reservation", "renewed", "replayed", "reservation released", "restored bare", "restored while stopped", "lost the document", "returned",
	"undone or kept for later", "write conflict", "write exists", "write failed over", "write ok",
}

// parse returns a world without some rules, by their names.
func parse(names string) (s setup, err error) {
	var machine []string
	for name := range strings.SplitSeq(names, ",") {
		if r := slices.Index(ruleNames[:], name); r >= 0 {
			s.out[r] = true
		} else if name != "" {
			machine = append(machine, name)
		}
	}
	s.machine, err = ledger.ParseRules(strings.Join(machine, ","))
	return s, err
}

// allRules returns the names of all rules, of the environment and of the machine.
func allRules() (names []string) {
	names = slices.Clone(ruleNames[:])
	for _, r := range ledger.AllRules() {
		names = append(names, r.String())
	}
	return names
}

// elsewhere are the rules that have tests of their own in package ledger. It takes more writers than
// a world has to evict one, and a machine reclaims what is due before somebody can confirm it. A
// write of a history that was lost is also kept out by the fence, and by processes that are stopped
// before an operator raises a store that has none. A node of a world asks for the fence at each read,
// so it needs no record to know that the document went back. Who is told a reservation again may have asked
// before that ended. The model knows one time since when nodes were awake, and has no events.
var elsewhere = map[string]bool{
	ledger.RuleDue.String(): true, ledger.RuleEvicted.String(): true, ledger.RuleLineage.String(): true, ledger.RuleAhead.String(): true,
	ledger.RuleStill.String(): true, ledger.RuleToldEnd.String(): true, ledger.RuleTold.String(): true,
}

// searched is how many seeds the search for what breaks without a rule takes at most.
const searched = 20_000

// Each rule is needed: without it something breaks, and the model notices.
func TestEveryRuleIsNeeded(t *testing.T) {
	longtest.Only(t) // the scenarios of the packages show it for each rule in a moment
	if racing.On {
		t.Skip("it searches very many worlds, each in one goroutine: only without the race detector")
	}
	for _, name := range allRules() {
		if elsewhere[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := must.Get(parse(name))(t)
			sum := survey(s, 0, searched, 1, func(worlds.Failure) bool { return true })
			if len(sum.failures) == 0 {
				t.Fatalf("nothing broke in %d seeds, %d steps", sum.seeds, sum.steps)
			}
			f := sum.failures[0]
			t.Logf("without %q %d of %d seeds fail: seed %d after %d steps: %s", name, len(sum.failures), sum.seeds, f.Seed, f.Step, f.Broken)
			if !*shortenFlag {
				return // to shorten a schedule that nobody sees takes most of the time
			}
			needed := shorten(s, f)
			t.Logf("it needs %d of its steps:\n%s", len(needed), replay(s, f.Seed, needed))
		})
	}
}

// replay returns the schedule of a seed, or of only some of its steps.
func replay(s setup, seed uint64, needed []int) string {
	w := newWorld(s, seed)
	var schedule strings.Builder
	w.trace = func(text string) { schedule.WriteString(text + "\n") }
	w.run(worldSteps, worlds.Except(needed))
	return schedule.String()
}

// shorten returns the steps of a failing seed that are needed for it to fail in the same way.
func shorten(s setup, f worlds.Failure) (needed []int) {
	return worlds.Shorten(min(f.Step+1, worldSteps), func(kept []int) bool {
		w := newWorld(s, f.Seed)
		w.run(min(f.Step+1, worldSteps), worlds.Except(kept))
		return w.check.broken != "" && worlds.KindOf(w.check.broken) == f.Kind()
	})
}
