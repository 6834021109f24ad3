// Package sabotage lists versions of seqd that lack a rule. They show that the fault laboratory
// notices a missing rule. Such a seqd is built with [Tag], and [Env] names the rules to take out.
// The code that can take them out is in internal/sabotage; the default build does not contain it.
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

// Sabotage is a seqd without some rules.
type Sabotage struct {
	Name   string
	Lacks  string   // what is taken out
	Caught string   // the rules of the checker that find it, and when
	Rules  []string // to take out
}

// Environment is the value of [Env].
func (s Sabotage) Environment() string { return strings.Join(s.Rules, ",") }

// All are all sabotages.
var All = []Sabotage{
	{
		Name:   "no-fence",
		Lacks:  "U3: Redis state is trusted only under the replication ID that it was written under",
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
		Lacks:  "DESIGN §3: an install has an effect only under the gen that its sender saw, and above all that was installed before; and the guard",
		Caught: "order over nodes, when two nodes install ranges at once, or an install arrives late, after the cursor was begun anew",
		Rules:  []string{"gen", "ceil", "guard"},
	},
	{
		Name:   "no-advance",
		Lacks:  "DESIGN §3 \"Redis away\": a node that issued on its own moves the cursor above those numbers before it takes from the cursor again; and the guard",
		Caught: "order per process, whenever a node returns from issuing on its own",
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
		Lacks:  "U1: a range leaves the store once. Here the counter is read and then written, and another node may do the same in between",
		Caught: "duplicate, when two nodes allocate with the same floor: soon, with ordering per-node",
		Rules:  []string{"range-once"},
	},
	{
		Name:   "no-epoch",
		Lacks:  "U3b: a cursor counts only under the epoch that the store holds. Here a node uses any cursor that it finds, and the store gives ranges for any cursor",
		Caught: "duplicate or order over nodes, when a backup was restored, Redis was moved there and back, or the ordering was changed there and back",
		Rules:  []string{"ask-to-adopt", "beliefs-age", "epoch-held"},
	},
	{
		Name:   "give-back-blind",
		Lacks:  "U2: numbers are given back by compare-and-set. Here the store lowers the counter even if others have taken numbers since",
		Caught: "duplicate, after a clean stop of a node that did not allocate last, with ordering per-node",
		Rules:  []string{"give-back-swap"},
	},
	{
		Name:   "no-lease-begin",
		Lacks:  "U5: the times of a lease are above all that was granted on the machine ID before, and above the floor",
		Caught: "worker ID, when a program gets the ID of another one; machine ID or duplicate, when a process ends and the next one with its machine ID has a clock that is behind; rare",
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
		Lacks:  "DESIGN §4: the generator owns the last time and the sequence, and uses no sequence twice in a millisecond",
		Caught: "duplicate, at once",
		Rules:  []string{"sequence-once"},
	},
	{
		Name:   "no-claim",
		Lacks:  "docs/IDEMPOTENCY.md: of two requests with one key only one issues, and the answer kept for a key is not replaced",
		Caught: "idempotency, when a request is sent again",
		Rules:  []string{"claim"},
	},
	{
		Name:   "late-callers",
		Lacks:  "S3: a take from the store is sent after its callers arrived. Here callers who arrive while it is under way share it",
		Caught: "order over nodes, when a node's connection to the store is slow, and skipped numbers, because takes ask for more",
		Rules:  []string{"take-after-callers"},
	},
	{
		Name:   "take-again",
		Lacks:  "S3: what a take from the store brought is handed out once. Here the next callers get it again",
		Caught: "duplicate, at once, of biz types that the store orders",
		Rules:  []string{"take-once", "take-guard"},
	},
	{
		Name:   "no-store-fence",
		Lacks:  "S2: a range begins above a gap if the store failed over since the counter was written",
		Caught: "duplicate, with --store postgres --failover lossy, when a standby is promoted that lacks acknowledged writes",
		Rules:  []string{"fence-compared", "take-floor", "take-guard"},
	},
	{
		Name:   "late-period",
		Lacks:  "DESIGN §3 \"Periods\": the period is fixed when the take is sent, and travels with the numbers. Here it is the period of half a second later",
		Caught: "period and duplicate, when a node's clock passes midnight or is set over it",
		Rules:  []string{"period"},
	},
	{
		Name:   "told-early",
		Lacks:  "G1: what a caller of a gapless biz type gets is durable before. Here it is told when the write is sent",
		Caught: "duplicate or account, when a write fails or another node writes first: soon",
		Rules:  []string{"durable-first"},
	},
	{
		Name:   "ends-twice",
		Lacks:  "G3: a reservation that ended stays as it ended. Here it is confirmed although it was released or has expired",
		Caught: "reservation, when a caller confirms what has ended: soon",
		Rules:  []string{"ended-once"},
	},
	{
		Name:   "blind-retry",
		Lacks:  "a gapless write of unknown outcome is found by its number in the document. Here it is carried out again",
		Caught: "unknown numbers or account, when answers of the store are lost; rare",
		Rules:  []string{"writers", "same-bytes"},
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
