package model

import (
	"fmt"
	"os"
	"strings"
)

// rule is one rule of the protocol. Each can be taken out, to show that it is needed and that the
// model would notice.
type rule int

// The rules.
const (
	// Redis state is trusted only under the replication ID it was written under
	replidFence rule = iota
	roleCheck        // scripts work on a primary only
	// an install counts only on the beginning of the cursor that its sender saw
	genCheck
	ceilCheck    // an install must begin above everything that was installed before
	installOnce  // an install is never repeated
	guardRule    // a node never issues a number below one it has issued
	giveBackOnce // a give-back is never repeated
	closeFirst   // the buffer is closed before its rest is given back
	// Allocate begins above everything this process has seen, with a gap where the store is behind
	// that
	floorRule
	joinBeforeSend // a caller takes part only in takes that are sent after it arrived
	// a node that issued on its own moves the cursor above that before it is back
	advanceFirst
	// it does so, and does not just append, also when an earlier return failed half-way
	aheadKept
	// a range that was allocated ahead is installed only into the beginning of the cursor it was
	// allocated under
	youngSpare
	abandonUnknown // a range whose install has an unknown outcome is forgotten
	// what was kept for an outage is not used when a ceil above it has been seen
	standbyAboveCeil
	// a take names the epoch that its sender believes in, and gets nothing from the cursor of
	// another
	takeNames
	installNames // so does an install
	seedNames    // a seed names the beginning of the cursor that its sender saw
	// the store gives no range for a new cursor to a node that believes in another one than it does
	seedRefused
	appendRefused // nor for a cursor that does not count
	// a node believes in a cursor because the store says so, not because it is there
	askToAdopt
	freshAsks // so does a process that has just begun
	// what the store says does not count if it was asked before it said something newer
	answersInOrder
	beliefsAge   // a take is not sent under an old belief, unless the store is away
	raiseEmpties // no cursor counts after seqd raise, nor in a new record
	// nor after a node took a range for itself because its ordering is per-node
	apartEmpties
	drawnAnew // every seed draws an epoch
	// a range that was allocated ahead is installed only under the epoch it was allocated for
	spareEpoch
	readsLinear // what the store answers was so after it was asked
	// who learnt of another node's epoch gives that node time to install its seed
	patienceRule
	rulesInAll
)

var ruleNames = [rulesInAll]string{
	replidFence:      "replid fence",
	roleCheck:        "role check",
	genCheck:         "gen check",
	ceilCheck:        "ceil check",
	installOnce:      "install once",
	guardRule:        "guard",
	giveBackOnce:     "give back once",
	closeFirst:       "close before giving back",
	floorRule:        "floor in Allocate",
	joinBeforeSend:   "join before the take is sent",
	advanceFirst:     "advance before return",
	aheadKept:        "advance also after a failed return",
	youngSpare:       "spare only under its gen",
	abandonUnknown:   "abandon what is unknown",
	standbyAboveCeil: "standby above every ceil seen",
	takeNames:        "a take names an epoch",
	installNames:     "an install names an epoch",
	seedNames:        "a seed names a gen",
	seedRefused:      "no range for a seed under an old belief",
	appendRefused:    "no range for a cursor that does not count",
	askToAdopt:       "ask the store before adopting a cursor",
	freshAsks:        "ask the store at the start",
	answersInOrder:   "older answers do not count",
	beliefsAge:       "beliefs age",
	raiseEmpties:     "raise and creation empty the epoch",
	apartEmpties:     "per-node empties the epoch",
	drawnAnew:        "an epoch is drawn for every seed",
	spareEpoch:       "spare only under its epoch",
	readsLinear:      "reads of the store are linearizable",
	patienceRule:     "patience with who drew an epoch",
}

func (r rule) String() string { return ruleNames[r] }

// without says which rules are taken out.
type without [rulesInAll]bool

// leaveOut returns all rules but these.
func leaveOut(rules ...rule) (w without) {
	for _, r := range rules {
		w[r] = true
	}
	return w
}

// luaFolder is where the product keeps its scripts.
const luaFolder = "../../strategy/segment/rediscursor/lua/"

const (
	takeFile    = "take.lua"
	installFile = "install.lua"
)

// edit replaces a condition in a script by one that always, or never, holds.
type edit struct{ file, condition, by string }

// edits take the rules out that the scripts keep.
var edits = map[rule][]edit{
	replidFence: {{takeFile, `string.find(info, 'master_replid:' .. replid .. '\r', 1, true)`, "true"}, {installFile, `h[3] ~= replid`, "false"}},
	roleCheck:   {{takeFile, `string.find(info, 'role:master', 1, true)`, "true"}, {installFile, `not string.find(info, 'role:master', 1, true)`, "false"}},
	genCheck:    {{installFile, `h[4] ~= ARGV[4]`, "false"}},
	ceilCheck:   {{installFile, `tonumber(ARGV[5]) <= tonumber(h[5])`, "false"}},
	takeNames:   {{takeFile, `f[4] == ARGV[9] and ARGV[9] ~= ''`, "true"}, {takeFile, `h[6] ~= ARGV[9]`, "false"}},
	installNames: {
		{installFile, `mode == 'seed' and same or mode ~= 'seed' and not same`, "false"},
	},
	seedNames: {{installFile, `h[4] ~= ARGV[4]`, "ARGV[7] ~= 'seed' and h[4] ~= ARGV[4]"}},
}

// source returns a script of the product without some rules.
func source(file string, out without) (string, error) {
	text, err := os.ReadFile(luaFolder + file)
	if err != nil {
		return "", err
	}
	edited := string(text)
	for r, taken := range out {
		for _, e := range edits[rule(r)] {
			if !taken || e.file != file {
				continue
			}
			if strings.Count(edited, e.condition) != 1 {
				return "", fmt.Errorf("%s: %q is not there exactly once: the rule %q cannot be taken out", file, e.condition, rule(r))
			}
			edited = strings.Replace(edited, e.condition, e.by, 1)
		}
	}
	return edited, nil
}
