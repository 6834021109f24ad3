// Package sabotage takes single rules out of seqd, to show that the fault laboratory would notice.
// A sabotaged seqd is built from the present source with a few places exchanged (go build
// -overlay). A place that is not there exactly once is an error, so that none of this outlives the
// code it breaks.
package sabotage

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change exchanges one place of a file.
type Change struct {
	File string // from the root of the repository, with slashes
	Old  string // must be there exactly once
	New  string
}

// Sabotage is seqd without a rule.
type Sabotage struct {
	Name    string
	Rule    string // that is taken out, and where it stands
	Caught  string // which rule of the checker is broken, and by what
	Changes []Change
}

const (
	takeLua    = "strategy/segment/rediscursor/lua/take.lua"
	installLua = "strategy/segment/rediscursor/lua/install.lua"
	sharedGo   = "strategy/segment/shared.go"
	mendGo     = "strategy/segment/mend.go"
)

// offGuard lets a node issue what is not above all it has issued.
var offGuard = Change{sharedGo, "if r.First <= s.highest {", "if false {"}

// offFence lets the cursor go on under whatever replication ID.
var offFence = []Change{
	{takeLua, `return string.find(info, 'master_replid:' .. replid .. '\r', 1, true)`, "return true"},
	{installLua, "h[3] ~= replid", "false"},
}

// All returns every sabotage.
func All() []Sabotage {
	return []Sabotage{
		{
			Name:    "no-fence",
			Rule:    "U3: Redis state is trusted only under the replication ID it was written under",
			Caught:  "duplicate or guard, when a replica that lacks the last takes is promoted, or a Redis comes back with an old snapshot",
			Changes: offFence,
		},
		{
			Name:    "no-fence-no-guard",
			Rule:    "U3 as with no-fence, and the guard, which hides it from the process that issued a number",
			Caught:  "duplicate and order per process, as with no-fence",
			Changes: append([]Change{offGuard}, offFence...),
		},
		{
			Name:   "no-gen",
			Rule:   "DESIGN §3: an install counts only on the beginning of the cursor that its sender saw, and above all that was installed before; and the guard",
			Caught: "order over nodes, when two nodes bring ranges at once, or one comes late to a cursor that was begun anew meanwhile",
			Changes: []Change{
				{installLua, "h[4] ~= ARGV[4]", "false"},
				{installLua, "tonumber(ARGV[5]) <= tonumber(h[5])", "false"},
				offGuard,
			},
		},
		{
			Name:   "no-advance",
			Rule:   "DESIGN §3 \"Redis away\": a node that issued on its own moves the cursor above that before it takes from it again; and the guard",
			Caught: "order per process, after every time a node was on its own",
			Changes: []Change{
				{mendGo, "case look.Next <= issued && (look.Next > 0 || ahead):", "case false:"},
				{mendGo, "issued, floor, refilling, ahead := m.highest, m.floor, m.refilling, m.outage.ahead", "issued, floor, refilling := m.highest, m.floor, m.refilling"},
				offGuard,
			},
		},
		{
			Name:   "keep-unknown",
			Rule:   "U2: a range whose install has an unknown outcome is abandoned",
			Caught: "order per process, or duplicate where Redis installed the range and its answer was lost: the node issues it on its own when Redis fails next",
			Changes: []Change{
				{mendGo, "return later // whether the range is in the cursor, the next look will tell",
					"m.mu.Lock()\n\t\tm.outage.standby = in.Range\n\t\tm.mu.Unlock()\n\t\treturn later"},
				{"strategy/segment/outage.go", "if r.First > max(m.highest, m.ceil) {", "if true {"},
				offGuard,
			},
		},
		{
			Name:   "range-twice",
			Rule:   "U1: a range leaves the store once. The store is read and then written, as if nobody else could come in between",
			Caught: "duplicate, when two nodes allocate with the same floor: soon, with ordering per-node",
			Changes: []Change{
				{"persist/mongo/counters.go", `change := bson.D{{Key: "$inc", Value: bson.D{{Key: "max", Value: req.Size}}}}`,
					"stored, err := c.Read(ctx, req.BizTag)\n\tif err != nil {\n\t\treturn persist.Range{}, err\n\t}\n\ttime.Sleep(50 * time.Millisecond)\n" +
						"\tchange := bson.D{{Key: \"$set\", Value: bson.D{{Key: \"max\", Value: max(stored.Max, req.Floor) + req.Size}}}}"},
				{"persist/mongo/counters.go", `change = append(change, bson.E{Key: "$set", Value: set})`, `change[0].Value = append(change[0].Value.(bson.D), set...)`},
				{"persist/mongo/counters.go", "err := c.collection.FindOneAndUpdate(", "err = c.collection.FindOneAndUpdate("},
			},
		},
		{
			Name:   "no-epoch",
			Rule:   "U3b: a cursor counts only under the epoch that the store holds. Here a node believes whatever cursor it finds, and the store gives every cursor ranges",
			Caught: "duplicate or order over nodes, when a backup was restored, Redis was moved there and back, or the ordering was changed there and back",
			Changes: []Change{
				{"strategy/segment/epoch.go", "same, early := m.belief.epoch == look.Epoch, m.awaitsSeed()", "m.belief.epoch = look.Epoch\n\tsame, early := true, false"},
				{"strategy/segment/epoch.go", "return now.Sub(b.asked) > trustEpoch", "return false && now.Sub(b.asked) > trustEpoch"},
				{"strategy/segment/outage.go", "counts := s.belief.epoch == look.Epoch", "s.belief.epoch = look.Epoch\n\tcounts := true"},
				{"persist/mongo/counters.go", "\tcase !ok:\n", "\tcase true:\n\t\t_, _ = epoch, ok\n"},
			},
		},
		{
			Name:   "give-back-blind",
			Rule:   "U2: a rest is given back by compare-and-set. Here the store goes down to it whatever others have taken since",
			Caught: "duplicate, after a clean stop of a node that did not allocate last, with ordering per-node",
			Changes: []Change{
				{"persist/mongo/counters.go", `filter := append(known(bizTag), bson.E{Key: "max", Value: r.Last})`, "filter := known(bizTag)"},
			},
		},
		{
			Name:   "no-lease-begin",
			Rule:   "U5: times of a lease lie above whatever was granted on the machine ID before, and above the floor",
			Caught: "machine ID or duplicate, when a process ends and the next one with its machine ID has a clock that is behind. Rare: both must come together",
			Changes: []Change{
				{"strategy/snowflake/protocol.go", "lower: max(lower, t.Set.Floor), floored", "lower: 0, floored"},
			},
		},
		{
			Name:   "no-rollback",
			Rule:   "DESIGN §4 \"Clock rollback\": nothing is issued while the clock is behind the last time that was used",
			Caught: "order per process, when a clock is set back",
			Changes: []Change{
				{"strategy/snowflake/generator.go", "1<<g.layout.bitsSequence-g.start || ms > g.last {", "1<<g.layout.bitsSequence-g.start || ms != g.last {"},
				{"strategy/snowflake/generator.go", "\tif ms > g.last {\n\t\tg.last, g.used, g.start = ms, 0, 0", "\tif ms != g.last {\n\t\tg.last, g.used, g.start = ms, 0, 0"},
			},
		},
		{
			Name:   "sequence-again",
			Rule:   "DESIGN §4: the generator owns the last time and the sequence: none is used twice",
			Caught: "duplicate, at once",
			Changes: []Change{
				{"strategy/snowflake/generator.go", "\tg.used += count\n", "\tg.used += count / 2\n"},
			},
		},
		{
			Name:   "no-claim",
			Rule:   "docs/IDEMPOTENCY.md: of two requests with one key one issues, and what is kept for a key is not put aside",
			Caught: "idempotency, when a request is sent again",
			Changes: []Change{
				{"server/idempotency/idempotency.go", "case err == nil && held == r.claim:", "case err == nil:"},
				{"server/idempotency/lua/swap.lua", "if held and held ~= ARGV[1] then", "if false then"},
			},
		},
		{
			Name:   "late-period",
			Rule:   "DESIGN §3 \"Periods\": the period is fixed when the take is sent, and travels with the numbers. Here it is the one of half a second later",
			Caught: "period and duplicate, when a node's clock passes midnight or is set over it",
			Changes: []Change{
				{"strategy/segment/periodic.go", "seq.In(v.period)", "seq.In(s.calendar.Now(s.env.Now().Add(500 * time.Millisecond)))"},
			},
		},
	}
}

// Find returns the sabotage of a name.
func Find(name string) (Sabotage, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Sabotage{}, fmt.Errorf("no sabotage is called %q; there are %s", name, strings.Join(names, ", "))
}

// Overlay writes the changed files of a source tree into a folder, and the file for `go build
// -overlay`, whose path it returns.
func (s Sabotage) Overlay(root, folder string) (path string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	texts := make(map[string]string)
	for _, c := range s.Changes {
		if err := c.apply(root, texts); err != nil {
			return "", fmt.Errorf("sabotage %s: %w", s.Name, err)
		}
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = make(map[string]string)
	for file, text := range texts {
		changed := filepath.Join(folder, strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, filepath.FromSlash(file))] = changed
	}
	text, err := json.MarshalIndent(overlay, "", "  ")
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// apply makes a change to the text of its file, which other changes may have been made to.
func (c Change) apply(root string, texts map[string]string) error {
	text, known := texts[c.File]
	if !known {
		read, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(c.File)))
		if err != nil {
			return err
		}
		text = string(read)
	}
	if n := strings.Count(text, c.Old); n != 1 {
		return fmt.Errorf("%s: %q is there %d times, not once", c.File, c.Old, n)
	}
	texts[c.File] = strings.Replace(text, c.Old, c.New, 1)
	return nil
}
