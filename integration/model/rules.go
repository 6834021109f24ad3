package model

import (
	"fmt"
	"os"
	"strings"
)

// rule is one rule of the protocol. Each can be taken out, to show that it is needed and that the model would notice.
type rule int

// The rules.
const (
	replidFence      rule = iota // Redis state is trusted only under the replication ID it was written under
	roleCheck                    // scripts work on a primary only
	genCheck                     // an install counts only on the beginning of the cursor that its sender saw
	ceilCheck                    // an install must begin above everything that was installed before
	installOnce                  // an install is never repeated
	guardRule                    // a node never issues a number below one it has issued
	giveBackOnce                 // a give-back is never repeated
	closeFirst                   // the buffer is closed before its rest is given back
	floorRule                    // Allocate begins above everything this process has seen, with a gap where the store is behind that
	joinBeforeSend               // a caller takes part only in takes that are sent after it arrived
	advanceFirst                 // a node that issued on its own moves the cursor above that before it is back
	aheadKept                    // it does so, and does not just append, also when an earlier return failed half-way
	youngSpare                   // a range that was allocated ahead is installed only into the beginning of the cursor it was allocated under
	abandonUnknown               // a range whose install has an unknown outcome is forgotten
	standbyAboveCeil             // what was kept for an outage is not used when a ceil above it has been seen
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
