package model

import (
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// rule is one rule of the protocol. Each can be taken out, to show that it is needed and that the
// model would notice.
type rule int

// The rules of the scripts and of the environment come first, then those of the machine.
const (
	// Redis state is trusted only under the replication ID it was written under
	replidFence rule = iota
	roleCheck        // scripts work on a primary only
	// an install counts only on the beginning of the cursor that its sender saw
	genCheck
	seedNames    // so does a seed
	ceilCheck    // an install must begin above everything that was installed before
	takeNames    // a take gets nothing from a cursor of another epoch than it names
	installNames // nor is a range installed into one

	installOnce    // an install is never repeated
	giveBackOnce   // a give-back is never repeated
	closeFirst     // the buffer is closed before its rest is given back
	joinBeforeSend // a caller takes part only in takes that are sent after it arrived
	// the store gives no range for a new cursor to a node with another belief: otherwise one whose
	// sequencer is auto takes over from the store
	seedRefused
	appendRefused  // nor for a cursor that does not count
	raiseEmpties   // no cursor counts after seqd raise, nor in a new record
	apartEmpties   // nor after a node allocated for itself because its ordering is per-node
	readsLinear    // what the store answers was so after it was asked
	fenceCompared  // the store notices that another server has written the counter
	fenceNew       // a server that takes over has a fence that no server ever had
	failoverGap    // then the next range begins a gap higher
	failoverEpoch  // and no cursor counts
	giveBackFenced // and nothing is given back
	standbyInSync  // a store that does not compare fences loses nothing
	createFenced   // no counter is created until an operator has confirmed a failover
	takeJoins      // a caller takes part only in takes from the store that are sent after it arrived
	takeOnce       // a take from the store is never repeated
	autoKeeps      // with the sequencer auto no node takes a counter over
	ownAnswer      // a late answer of the store is not the answer to another take

	handOutFloor // no allocation of a process is at or below what it has handed out
	handOutHeir  // nor is one of the process's next machine
	handOutEnds  // which no range that comes later is handed out without
	handOutAbove // a range that is handed out is above what the process has seen
	handOutGap   // and a gap above that if the store is below it
	handOutKnown // one whose allocation may have failed is not handed out
	handOutKeeps // whoever sequences the counter still does after one was handed out
	handOutNew   // a new counter is told from a restored one by what was handed out, too

	guardRule
	floorRule
	abandonUnknown
	youngSpare
	advanceFirst
	aheadKept
	standbyAboveCeil
	askToAdopt
	freshAsks
	answersInOrder
	beliefsAge
	drawnAnew
	spareEpoch
	patienceRule

	takeFloor
	takeGuard
	namesEpoch
	takeOverOnce
	retireFirst

	rulesInAll
)

// ofScripts are the rules that a script keeps, by the names in its comments.
var ofScripts = map[rule]sabotage.Rule{
	replidFence:  "fence",
	roleCheck:    "role",
	genCheck:     "gen",
	seedNames:    "seed-gen",
	ceilCheck:    "ceil",
	takeNames:    "take-epoch",
	installNames: "install-epoch",
}

// ofMachine are the rules that the machine keeps.
var ofMachine = map[rule]cursor.Rule{
	guardRule:        cursor.RuleGuard,
	floorRule:        cursor.RuleFloor,
	abandonUnknown:   cursor.RuleAbandonUnknown,
	youngSpare:       cursor.RuleYoungSpare,
	advanceFirst:     cursor.RuleAdvanceFirst,
	aheadKept:        cursor.RuleAheadKept,
	standbyAboveCeil: cursor.RuleStandbyAboveCeil,
	askToAdopt:       cursor.RuleAskToAdopt,
	freshAsks:        cursor.RuleFreshAsks,
	answersInOrder:   cursor.RuleAnswersInOrder,
	beliefsAge:       cursor.RuleBeliefsAge,
	drawnAnew:        cursor.RuleDrawnAnew,
	spareEpoch:       cursor.RuleSpareEpoch,
	patienceRule:     cursor.RulePatience,
}

// ofTakes are the rules that the machine of takes from the store keeps.
var ofTakes = map[rule]storetake.Rule{
	takeFloor:    storetake.RuleTakeFloor,
	takeGuard:    storetake.RuleTakeGuard,
	namesEpoch:   storetake.RuleNamesEpoch,
	takeOverOnce: storetake.RuleOnce,
	retireFirst:  storetake.RuleRetireFirst,
}

// ofEnvironment are the rules that the world around the machine keeps.
var ofEnvironment = map[rule]string{
	installOnce:    "install-once",
	giveBackOnce:   "give-back-once",
	closeFirst:     "close-first",
	joinBeforeSend: "join-before-send",
	seedRefused:    "seed-refused",
	appendRefused:  "append-refused",
	raiseEmpties:   "raise-empties",
	apartEmpties:   "per-node-empties",
	readsLinear:    "reads-linear",
	fenceCompared:  "store-fence",
	fenceNew:       "store-fence-new",
	failoverGap:    "failover-gap",
	failoverEpoch:  "failover-epoch",
	giveBackFenced: "failover-give-back",
	standbyInSync:  "standby-in-sync",
	createFenced:   "create-fenced",
	takeJoins:      "take-joins",
	takeOnce:       "take-once",
	autoKeeps:      "auto-keeps",
	ownAnswer:      "own-answer",
	handOutFloor:   "hand-out-floor",
	handOutHeir:    "hand-out-heir",
	handOutEnds:    "hand-out-ends",
	handOutAbove:   "hand-out-above",
	handOutGap:     "hand-out-gap",
	handOutKnown:   "hand-out-known",
	handOutKeeps:   "hand-out-keeps",
	handOutNew:     "hand-out-new",
}

func (r rule) String() string {
	if name, ok := ofScripts[r]; ok {
		return string(name)
	}
	if in, ok := ofMachine[r]; ok {
		return in.String()
	}
	if in, ok := ofTakes[r]; ok {
		return in.String()
	}
	return ofEnvironment[r]
}

// without says which rules are taken out.
type without [rulesInAll]bool

// leaveOut returns all rules but these.
func leaveOut(rules ...rule) (w without) {
	for _, r := range rules {
		w[r] = true
	}
	return w
}

// machine returns the rules that a machine is to do without.
func (w without) machine() (set cursor.RuleSet) {
	for r, in := range ofMachine {
		if w[r] {
			set |= cursor.Rules(in)
		}
	}
	return set
}

// takes returns the rules that a machine of takes from the store is to do without.
func (w without) takes() (set storetake.RuleSet) {
	for r, in := range ofTakes {
		if w[r] {
			set |= storetake.Rules(in)
		}
	}
	return set
}

// script reports whether a script is to do without a rule.
func (w without) script(name sabotage.Rule) bool {
	for r, in := range ofScripts {
		if w[r] && in == name {
			return true
		}
	}
	return false
}
