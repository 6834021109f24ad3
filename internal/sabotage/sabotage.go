// Package sabotage takes single rules out of a seqd that is built for tests, to show that the tests
// and the fault laboratory notice what is missing.
//
// In the default build no rule can be taken out: [Off] is the constant false, and the compiler
// removes what depends on it. A seqd that is built with the tag seqd_sabotage takes out the rules
// that the environment variable SEQD_TEST_SABOTAGE names, separated by commas.
//
// There are three kinds of rules. Those of the segment strategy's machine are listed by package
// cursor. Those of the Lua scripts stand beside the condition that they are about, see [Script].
// The others are the constants of this package.
package sabotage

import "regexp"

// Rule is the name of a rule.
type Rule string

// The rules that are neither the machine's nor a script's.
const (
	// RangeOnce is U1: a range leaves the store once. Without it a range is read and then written,
	// and another node may read the same in between.
	RangeOnce Rule = "range-once"
	// EpochHeld is U3b: the store gives no range for a cursor that it does not hold the epoch of.
	EpochHeld Rule = "epoch-held"
	// GiveBackSwap is U2: numbers are given back only if nobody has allocated since.
	GiveBackSwap Rule = "give-back-swap"
	// FailoverGap is: a range begins a gap higher if the store failed over since the counter was
	// written.
	FailoverGap Rule = "failover-gap"
	// LeaseBegin is U5: the times of a lease are above every time that was granted before.
	LeaseBegin Rule = "lease-begin"
	// LeaseFloor is: leases begin above all that a store which failed over may have lost.
	LeaseFloor Rule = "lease-floor"
	// LeaseDoubt is: a lease of a registry that can be put back unnoticed begins above all that can have
	// been granted.
	LeaseDoubt Rule = "lease-doubt"
	// LeaseSealed is W2: of the lease of a program counts what a node has written.
	LeaseSealed Rule = "lease-sealed"
	// RegistryNamed is: machine IDs are leased in the registry that the store names, and in no other.
	RegistryNamed Rule = "registry-named"
	// AnswersHome is: answers are kept in the place that the store names, and in no other.
	AnswersHome Rule = "answers-home"
	// Rollback is: nothing is issued while the clock is behind the last time that was used.
	Rollback Rule = "rollback"
	// SequenceOnce is: no sequence is used twice in a millisecond.
	SequenceOnce Rule = "sequence-once"
	// Claim is: of two requests with one Idempotency-Key one issues.
	Claim Rule = "claim"
	// TakeAfterCallers is: a take is sent after all its callers arrived.
	TakeAfterCallers Rule = "take-after-callers"
	// TakeOnce is: what a take from the store brought is handed out once.
	TakeOnce Rule = "take-once"
	// FenceCompared is S2: a range begins above a gap if the store failed over since the counter
	// was written.
	FenceCompared Rule = "fence-compared"
	// Period is: the numbers of a take belong to the period that it was sent in.
	Period Rule = "period"
	// Recall is: an answer is also looked for where the biz type kept it before it was reshaped.
	Recall Rule = "recall"
	// Doubt is: a reservation lasts longer by as much as the store's clock may be ahead.
	Doubt Rule = "clock-doubt"
	// Forward is: a reservation does not expire early because the store's clock was set forward.
	Forward Rule = "clock-forward"
	// LateWrite is: the ledger of a period that has just ended is made and closed if there is none,
	// because its first write may still come.
	LateWrite Rule = "late-write"
	// Reopen is: a period that the calendar before a forced change closed is opened, unless it has
	// ended.
	Reopen Rule = "reopen"
	// Follows is: a node that was held up uses nothing from the store before it knows what was
	// changed.
	Follows Rule = "follows"
	// Counted is: a node with definitions of its own that the others may not have counted uses
	// nothing from the store before it has compared shapes again.
	Counted Rule = "counted"
	// EmptyFirst is: a ledger is created before numbers are written in it.
	EmptyFirst Rule = "empty-first"
	// TermStop is K1: a node works only until its session may be declared dead.
	TermStop Rule = "term-stop"
	// TermTaken is K2: a work is taken only from nobody, or from a session that is dead.
	TermTaken Rule = "term-taken"
	// TermDead is K3: a session is declared dead only after it has not beaten for its life.
	TermDead Rule = "term-dead"
	// TermSettled is: a node takes nothing before it has watched for the life of a session.
	TermSettled Rule = "term-settled"
	// TermFence is K4: a work is written only over the revision that names its owner.
	TermFence Rule = "term-fence"
	// TermHere is: what a coordinator lacks counts only if it has the last beat of the node itself.
	TermHere Rule = "term-here"
	// TermConfirm is: a beat that the store does not fence counts only under the fence of the store.
	TermConfirm Rule = "term-confirm"
	// PermitsBounded is K7: no more permits are held than there are.
	PermitsBounded Rule = "permits-bounded"
	// JobCounted is J1: what a job has issued counts once, whether or not it is known to be written.
	JobCounted Rule = "job-counted"
	// JobOrder is J2: the job begins that is due first.
	JobOrder Rule = "job-order"
	// JobPinned is J3: a result is not shown in another way than when the job began.
	JobPinned Rule = "job-pinned"
	// DeliveryFirst is V2: an event has a document before the position of its stream is written.
	DeliveryFirst Rule = "delivery-first"
	// DeliveryKept is V2: the document of an event stays until the receiver has the event.
	DeliveryKept Rule = "delivery-kept"
	// RestoreRaise is: a restore writes each counter, ledger and lease above what may have been issued
	// since the snapshot.
	RestoreRaise Rule = "restore-raise"
	// MoveShut is: a store that everything is moved out of is shut to nodes that have opened it before.
	MoveShut Rule = "move-shut"
	// OneSender is V3: a node sends for a subscription only while it owns the work.
	OneSender Rule = "one-sender"
)

// Rules are all of them.
var Rules = []Rule{RangeOnce, EpochHeld, GiveBackSwap, FailoverGap, LeaseBegin, LeaseFloor, LeaseDoubt, LeaseSealed, RegistryNamed, AnswersHome, Rollback, SequenceOnce, Claim, TakeAfterCallers, TakeOnce, FenceCompared, Period, Recall, Doubt, Forward, LateWrite, Reopen, Follows, Counted, EmptyFirst,
	TermStop, TermTaken, TermDead, TermSettled, TermFence, TermHere, TermConfirm, PermitsBounded, JobCounted, JobOrder, JobPinned,
	DeliveryFirst, DeliveryKept, OneSender, RestoreRaise, MoveShut}

// marks finds what takes a rule of a script out: a comment "without NAME: CODE".
func marks() *regexp.Regexp { return regexp.MustCompile(`--\[\[without ([a-z-]+): (.*?)\]\]`) }

// Without returns a Lua script without some of its rules: the code in their comments counts.
func Without(script string, off func(Rule) bool) string {
	marked := marks()
	return marked.ReplaceAllStringFunc(script, func(comment string) string {
		if parts := marked.FindStringSubmatch(comment); off(Rule(parts[1])) {
			return parts[2]
		}
		return comment
	})
}

// RulesOf returns the rules that a Lua script names, each as often as it does.
func RulesOf(script string) (rules []Rule) {
	for _, parts := range marks().FindAllStringSubmatch(script, -1) {
		rules = append(rules, Rule(parts[1]))
	}
	return rules
}

// OfMachine returns the rules of one machine that are taken out. parse returns the rule that has a
// name, and an error for one of another machine.
func OfMachine[S ~uint32](parse func(name string) (S, error)) (set S) {
	for _, name := range Names() {
		if rule, err := parse(name); err == nil {
			set |= rule
		}
	}
	return set
}
