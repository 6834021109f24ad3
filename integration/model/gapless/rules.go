package gapless

import (
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// rule is a duty of what is around the machine: the shell, the store or the operator. Each can be
// taken out, to show that it is needed and that the model would notice. The rules of the machine
// are those of package ledger.
type rule int

// The rules of the environment.
const (
	sweeps       rule = iota // what is due is reclaimed although nobody calls
	grace                    // after all nodes were away, reservations get their whole time again
	ownWriter                // every machine has a name of its own among the writers
	fencedWrites             // a write names the fence of the server, which compares it
	readsFence               // a read says which server it read from
	createsNone              // after a failover a document that is missing is not new
	keepDurable              // records are durable before they leave the document
	keepsAnswers             // records are purged only after their time
	abandons                 // the machine learns that a caller gave up
	returns                  // numbers of a request that failed afterwards are given back
	raiseAbove               // an operator raises above everything that callers were told
	raises                   // a store that was restored is raised before a process starts
	floorOf                  // a ledger begins above what another strategy issued
	inherits                 // a machine knows what its predecessor in the process has seen
	readsLinear              // what the store answers was so after it was asked
	looksLinear              // also when it is asked for records
	rulesInAll
)

var ruleNames = [rulesInAll]string{
	sweeps: "sweeps", grace: "grace", ownWriter: "own-writer", fencedWrites: "fenced-writes", readsFence: "reads-fence",
	createsNone: "creates-none", keepDurable: "keep-durable", keepsAnswers: "keeps-answers", abandons: "abandons",
	returns: "returns", raiseAbove: "raise-above", raises: "raises", floorOf: "floor", inherits: "inherits",
	readsLinear: "reads-linear", looksLinear: "looks-linear",
}

func (r rule) String() string { return ruleNames[r] }

// without says which rules of the environment are taken out.
type without [rulesInAll]bool

// setup is what a world is without: rules of the environment and of the machine.
type setup struct {
	out     without
	machine ledger.RuleSet
}
