package sim_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

var (
	listed  = flag.Bool("sim.rules", false, "print the rules that scripts/simulate --rules takes out, each with what is taken out with it")
	without = flag.String("sim.rule", "", "run seeds, -sim.seeds at most, until one finds that this rule was taken out")
)

// rule is a rule of the product that a simulation finds when it is taken out.
type rule struct {
	name string
	// also are rules that are taken out with it, because they hide what happens without it.
	also []string
	// redis is whether every seed has Redis, store whether none has.
	redis, store bool
	// lossy is whether failovers of the store lose something.
	lossy bool
	// only are the kinds of faults, nil for all.
	only []string
	// receiver is whether a receiver has the events.
	receiver bool
	// script is whether a schedule finds it that is written for it, instead of seeds.
	script bool
}

// The kinds of faults that tempt rules about the cursor in Redis, and about failovers.
var (
	ofRedis = []string{"redis-restart", "redis-failover", "redis-replies-lost", "redis-hangs", "partition", "kill"}
	ofFails = []string{"store-failover-lossy", "pause", "kill"}
)

// rules are all rules that can be taken out.
var rules = []rule{
	{name: "range-once"},
	{name: "epoch-held", script: true},
	{name: "give-back-swap"},
	{name: "failover-gap", lossy: true},
	{name: "lease-begin", script: true},
	{name: "lease-floor", script: true},
	{name: "lease-doubt", script: true},
	{name: "lease-sealed", script: true},
	{name: "registry-named", script: true},
	{name: "answers-home", script: true},
	{name: "rollback", only: []string{"clock-step"}},
	{name: "sequence-once"},
	{name: "claim"},
	{name: "take-after-callers", store: true},
	{name: "take-once", also: []string{"take-guard"}, store: true},
	{name: "fence-compared", also: []string{"take-floor", "take-guard"}, lossy: true},
	{name: "period", only: []string{"clock-midnight"}},
	{name: "recall", script: true},
	{name: "clock-doubt", script: true},
	{name: "clock-forward", script: true},
	{name: "late-write", script: true},
	{name: "reopen", script: true},
	{name: "follows", script: true},
	{name: "counted", script: true},
	{name: "empty-first", script: true},
	{name: "term-stop", script: true},
	{name: "term-taken", script: true},
	{name: "term-dead", script: true},
	{name: "term-settled", script: true},
	{name: "term-fence", script: true},
	{name: "term-here", script: true},
	{name: "term-confirm", script: true},
	{name: "permits-bounded", script: true},
	{name: "job-counted", script: true},
	{name: "job-order", script: true},
	{name: "job-pinned", script: true},
	{name: "delivery-first", receiver: true},
	{name: "delivery-kept", receiver: true},
	{name: "one-sender", script: true},
	{name: "restore-raise", script: true},
	{name: "move-shut", script: true},
	{name: "event-once", script: true},
	{name: "event-hole", script: true},
	{name: "event-deleted", script: true},
	{name: "event-page", script: true},
	{name: "event-source", script: true},

	{name: "fence", redis: true},
	{name: "role", script: true},
	{name: "gen", script: true},
	{name: "seed-gen", script: true},
	{name: "install-epoch", also: []string{"gen"}, script: true},
	{name: "ceil", script: true},
	{name: "take-epoch", redis: true},

	{name: "take-floor", also: []string{"take-guard"}, script: true},
	{name: "take-guard", also: []string{"take-floor"}, script: true},
	{name: "names-epoch", script: true},
	{name: "take-over-once", script: true},
	{name: "retire-first", script: true},

	{name: "guard", redis: true, only: ofRedis},
	{name: "floor", script: true},
	{name: "abandon-unknown", script: true},
	{name: "young-spare", script: true},
	{name: "advance-first", redis: true},
	{name: "ahead-kept", script: true},
	{name: "standby-above-ceil", script: true},
	{name: "ask-to-adopt", redis: true},
	{name: "fresh-asks", redis: true},
	{name: "answers-in-order", also: []string{"beliefs-age"}, script: true},
	{name: "beliefs-age", script: true},
	{name: "drawn-anew", script: true},
	{name: "spare-epoch", script: true},
	{name: "patience", script: true},

	{name: "lowest-first", script: true},
	{name: "ended-once"},
	{name: "due", script: true},
	{name: "awake", script: true},
	{name: "not-early"},
	{name: "suspect", script: true},
	{name: "period-end", script: true},
	{name: "on-release", script: true},
	{name: "above-others", script: true},
	{name: "return-issued", script: true},
	{name: "look-up"},
	{name: "dropped", script: true},
	{name: "durable-first"},
	{name: "writers", script: true},
	{name: "same-bytes", script: true},
	{name: "evicted", script: true},
	{name: "fresh-refusal"},
	{name: "copied-first", script: true},
	{name: "undo", script: true},
	{name: "went-back", script: true},
	{name: "ledger-fence", lossy: true, only: ofFails},
	{name: "history", script: true},
	{name: "lineage", also: []string{"ledger-fence"}, script: true},
	{name: "known", script: true},
	{name: "look-era", script: true},
	{name: "ahead", script: true},
	{name: "still-so", script: true},
	{name: "told-end", script: true},
	{name: "event-written", script: true},
}

// taken returns the rules that are taken out of the build, as the variable names them.
func (r rule) taken() []string { return append([]string{r.name}, r.also...) }

// world returns the world of a seed.
func (r rule) world(seed uint64, length time.Duration) sim.Options {
	o := sim.OfSeed(seed, length)
	o.Redis, o.Only = (o.Redis || r.redis) && !r.store, r.only
	o.Registry, o.Works = o.Registry && o.Redis, false // their rules have schedules
	if o.Receives = r.receiver; r.receiver {
		o.Mode = storesim.Lossless // what is lost was not promised
	}
	if r.lossy {
		o.Mode = storesim.Lossy
	}
	if r.only != nil {
		o.Pace = 20 // few kinds of faults, many calls
	}
	return o
}

// listRules prints the rules, for the script that takes them out.
func listRules() {
	for _, r := range rules {
		fmt.Println("rule:", r.name, strings.Join(r.taken(), ","))
	}
}

// findRule runs seeds until one finds that a rule was taken out.
func findRule(t *testing.T) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == *without })
	if i < 0 {
		t.Fatalf("no rule is called %q", *without)
	}
	r := rules[i]
	if !slices.Equal(sabotage.Names(), r.taken()) {
		t.Fatalf("this build lacks %v, not %v: use scripts/simulate --rules", sabotage.Names(), r.taken())
	}
	if r.script {
		findByScript(t, r)
		return
	}
	for n := range *seeds {
		for _, length := range []time.Duration{*length / 5, *length} { // the short world finds most rules
			if found := r.findIn(t, r.world(*first+uint64(n), length)); found != "" {
				fmt.Printf("found: %-20s after %2d seeds, %s\n", r.name, n+1, found)
				return
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Errorf("%s: not found in %d seeds", r.name, *seeds)
}

// findIn runs a world, and returns what it found wrong about numbers, "" for nothing.
func (r rule) findIn(t *testing.T, o sim.Options) (found string) {
	report := world(t, o.String(), o)
	if report == nil || report.Total() == 0 {
		return "" // if there is no report, the test has said why
	}
	of := report.OfNumbers()
	if r.receiver { // it is about events
		of = report.Total()
	}
	if r.lossy { // a world may skip more than is known why, with all rules
		of -= report.Counts[check.RuleSkipped]
	}
	if of > 0 {
		return fmt.Sprintf("%v: %s", o, strings.Join(broken(report.Counts), ", "))
	}
	t.Logf("%v: not about numbers: %v %v", o, broken(report.Counts), report.Violations[0].Text)
	return ""
}

// findByScript runs the schedule that is written for a rule.
func findByScript(t *testing.T, r rule) {
	name, o := r.schedule()
	report := world(t, name, o)
	switch {
	case report == nil: // the test has said why
	case report.Total() == 0:
		t.Errorf("%s: not found by %q", r.name, name)
	default:
		fmt.Printf("found: %-20s by the schedule %q: %s\n", r.name, name, strings.Join(broken(report.Counts), ", "))
	}
}

// schedule returns the schedule that finds the rule, and its world.
func (r rule) schedule() (name string, o sim.Options) {
	all := r.taken()
	slices.Sort(all)
	name, o, found := sim.ScheduleOf(strings.Join(all, ","))
	if !found {
		panic("no schedule is written for " + r.name)
	}
	return name, o
}

// broken returns what was broken, and how often.
func broken[K ~string, V int | int64](counts map[K]V) (list []string) {
	for name, count := range counts {
		if count > 0 {
			list = append(list, fmt.Sprint(name, " ", count))
		}
	}
	slices.Sort(list)
	return list
}

// Every rule that can be taken out is in the list, once.
func TestRules(t *testing.T) {
	var known, named []string
	for _, r := range sabotage.Rules {
		known = append(known, string(r))
	}
	for _, r := range cursor.AllRules() {
		known = append(known, r.String())
	}
	for _, r := range storetake.AllRules() {
		known = append(known, r.String())
	}
	known = append(known, events.Rules()...)
	for _, r := range ledger.AllRules() {
		known = append(known, r.String())
	}
	for _, folder := range []string{"strategy/segment/rediscursor/lua", "server/idempotency/lua"} {
		scripts, err := filepath.Glob(filepath.Join("../../..", folder, "*.lua"))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, script := range scripts {
			text := must.Get(os.ReadFile(script))(t)
			for _, r := range sabotage.RulesOf(string(text)) {
				known = append(known, string(r))
			}
		}
	}
	for _, r := range rules {
		named = append(named, r.name)
		if r.script {
			r.schedule() // there is one
		}
	}
	slices.Sort(known)
	slices.Sort(named)
	if known = slices.Compact(known); !slices.Equal(known, named) {
		t.Errorf("the rules are\n%q, the list has\n%q", known, named)
	}
}
