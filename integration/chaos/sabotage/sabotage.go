// Package sabotage lists the seqds that lack a rule, to show that the fault laboratory would notice.
// Such a seqd is built with [Tag], and [Env] names the rules that it takes out. The product has a
// switch at each of these rules, which the default build does not have: see internal/sabotage.
package sabotage

import (
	"fmt"
	"strings"
)

const (
	// Tag is the build tag of a seqd whose rules can be taken out.
	Tag = "seqd_sabotage"
	// Env is the environment variable that names the rules to take out, separated by commas.
	Env = "SEQD_TEST_SABOTAGE"
)

// Sabotage is seqd without some rules.
type Sabotage struct {
	Name   string
	Lacks  string   // what is taken out
	Caught string   // which rule of the checker is broken, and by what
	Rules  []string // to take out
}

// Environment is the value of [Env].
func (s Sabotage) Environment() string { return strings.Join(s.Rules, ",") }

// All are all sabotages.
var All = []Sabotage{
	{
		Name:   "no-fence",
		Lacks:  "U3: Redis state is trusted only under the replication ID it was written under",
		Caught: "duplicate or guard, when a replica that lacks the last takes is promoted, or a Redis comes back with an old snapshot",
		Rules:  []string{"fence"},
	},
	{
		Name:   "no-fence-no-guard",
		Lacks:  "U3 as with no-fence, and the guard, which hides it from the process that issued a number",
		Caught: "duplicate and order per process, as with no-fence",
		Rules:  []string{"fence", "guard"},
	},
	{
		Name:   "no-gen",
		Lacks:  "DESIGN §3: an install counts only on the beginning of the cursor that its sender saw, and above all that was installed before; and the guard",
		Caught: "order over nodes, when two nodes bring ranges at once, or one arrives late at a cursor that has begun anew",
		Rules:  []string{"gen", "ceil", "guard"},
	},
	{
		Name:   "no-advance",
		Lacks:  "DESIGN §3 \"Redis away\": a node that issued on its own moves the cursor above that before it takes from it again; and the guard",
		Caught: "order per process, after every time a node was on its own",
		Rules:  []string{"advance-first", "guard"},
	},
	{
		Name:   "keep-unknown",
		Lacks:  "U2: a range whose install has an unknown outcome is abandoned; and the guard",
		Caught: "order per process, or duplicate if Redis installed the range and its answer was lost: the node issues it on its own when Redis fails next",
		Rules:  []string{"abandon-unknown", "standby-above-ceil", "guard"},
	},
	{
		Name:   "range-twice",
		Lacks:  "U1: a range leaves the store once. The store is read and then written, as if nobody else could do the same in between",
		Caught: "duplicate, when two nodes allocate with the same floor: soon, with ordering per-node",
		Rules:  []string{"range-once"},
	},
	{
		Name:   "no-epoch",
		Lacks:  "U3b: a cursor counts only under the epoch that the store holds. Here a node believes whatever cursor it finds, and the store gives every cursor ranges",
		Caught: "duplicate or order over nodes, when a backup was restored, Redis was moved there and back, or the ordering was changed there and back",
		Rules:  []string{"ask-to-adopt", "beliefs-age", "epoch-held"},
	},
	{
		Name:   "give-back-blind",
		Lacks:  "U2: numbers are given back by compare-and-set. Here the store goes down to them whatever others have taken since",
		Caught: "duplicate, after a clean stop of a node that did not allocate last, with ordering per-node",
		Rules:  []string{"give-back-swap"},
	},
	{
		Name:   "no-lease-begin",
		Lacks:  "U5: times of a lease lie above whatever was granted on the machine ID before, and above the floor",
		Caught: "machine ID or duplicate, when a process ends and the next one with its machine ID has a clock that is behind. Rare: both must come together",
		Rules:  []string{"lease-begin"},
	},
	{
		Name:   "no-rollback",
		Lacks:  "DESIGN §4 \"Clock rollback\": nothing is issued while the clock is behind the last time that was used",
		Caught: "order per process, when a clock is set back",
		Rules:  []string{"rollback"},
	},
	{
		Name:   "sequence-again",
		Lacks:  "DESIGN §4: the generator owns the last time and the sequence: none is used twice",
		Caught: "duplicate, at once",
		Rules:  []string{"sequence-once"},
	},
	{
		Name:   "no-claim",
		Lacks:  "docs/IDEMPOTENCY.md: of two requests with one key one issues, and what is kept for a key is not replaced",
		Caught: "idempotency, when a request is sent again",
		Rules:  []string{"claim"},
	},
	{
		Name:   "late-period",
		Lacks:  "DESIGN §3 \"Periods\": the period is fixed when the take is sent, and travels with the numbers. Here it is the one of half a second later",
		Caught: "period and duplicate, when a node's clock passes midnight or is set over it",
		Rules:  []string{"period"},
	},
}

// Find returns the sabotage of a name.
func Find(name string) (Sabotage, error) {
	var names []string
	for _, s := range All {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Sabotage{}, fmt.Errorf("no sabotage is called %q; there are %s", name, strings.Join(names, ", "))
}
