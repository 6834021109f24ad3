package machineid

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/seqd/seqd/internal/testing/scenario"
)

// Scenarios of the protocol: the nodes and the registry of the model, in an order that a person has
// written. Times are in ms of the model, from the start. The steps:
//
//	registry source=s1 lag=30          begins anew; without a source no failover loses anything
//	N1 starts horizon=100 skew=8 offline=40 ids=0-1 key=k
//	                                   a process on the machine N1, with the settings of before if none
//	                                   are given
//	N1 acts                            seeks a machine ID or renews its lease, to the end
//	N1 begins                          the same, and its messages stay in transit
//	deliver 2, deliver                 messages arrive, in their order: two, or all
//	delay, late                        what is in transit is late; it arrives
//	N1 times-out                       the attempt of N1 ends
//	N1 uses                            makes a number with the present time
//	N1 stops, N1 is-killed             its release stays in transit
//	N1 clock=5                         is 5 ms ahead of the true time
//	N1 is-cut, N1 reaches              does not reach the registry, does again
//	N1 loses-file
//	pass 50                            time passes
//	clock 5                            the clock of the registry is 5 ms ahead
//	down, up                           the registry does not answer, does again
//	wiped, dropped                     the registry loses everything, or its bootstrap part
//	backup, restored, restored dropped
//	failover to=backup                 another server takes over, with what the backup has
//	failover old=30 N2                 and the old server still serves N2, for 30 ms
type tale struct {
	*world
	out     without
	t       *testing.T
	members map[string]Member
	late    []*message
	text    strings.Builder
}

// shown are the rules that have a scenario: all but those that another one makes good, and the limits.
func shown() (list []rule) {
	for r := range firstLimit {
		if !slices.Contains(spare, r) {
			list = append(list, r)
		}
	}
	return list
}

func TestScenarios(t *testing.T) {
	scenario.Run(t, "testdata", shown(), func(list ...rule) scenario.Play {
		tl := &tale{out: leaveOut("", list...)}
		tl.registryStep(nil)
		return tl.play
	})
}

// play executes a step.
func (tl *tale) play(t *testing.T, step *scenario.Step) string {
	tl.t = t
	tl.text.Reset()
	tl.step += 20 // no node pauses
	switch words := step.CmdArgs; step.Cmd {
	case "registry":
		tl.registryStep(words)
	case "deliver":
		tl.deliver(words)
	case "delay":
		tl.late, tl.inFlight = append(tl.late, tl.inFlight...), nil
	case "late":
		tl.late, tl.inFlight = nil, append(tl.late, tl.inFlight...)
		tl.deliver(nil)
	case "pass":
		tl.now += number(words[0].Key)
	case "clock":
		tl.registry.wobble = number(words[0].Key)
	case "down", "up":
		tl.registry.down = step.Cmd == "down"
	case "wiped":
		tl.becomes(contents{})
	case "dropped":
		c := tl.registry.contents
		c.set = nil
		tl.becomes(c)
	case "backup":
		tl.registry.backup = tl.registry.contents
	case "restored":
		tl.restored(len(words) > 0)
	case "failover":
		tl.failover(words)
	default:
		tl.nodeStep(tl.named(step.Cmd), words)
	}
	tl.check.broken = "" // its line is in the text
	if tl.text.Len() == 0 {
		return "ok"
	}
	return tl.text.String()
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// registryStep begins anew.
func (tl *tale) registryStep(words []datadriven.CmdArg) {
	tl.world = newWorld(tl.out, 0)
	tl.nodes, tl.mixed, tl.weights, tl.members = nil, false, [actionsInAll]int{}, make(map[string]Member)
	r := simulated{blind: tl.out.rules[sourceCompared]}
	for _, w := range words {
		switch w.Key {
		case "source":
			r.source = w.Vals[0]
			tl.sources = 1
		case "lag":
			r.lag = number(w.Vals[0])
		}
	}
	tl.world.registry = r
	tl.world.registry.remember(tl.now)
	tl.trace = func(text string) { tl.text.WriteString(text[len("0000 000000  "):] + "\n") }
}

// named returns a node, which is new if nobody has named it before.
func (tl *tale) named(name string) *node {
	for _, n := range tl.nodes {
		if n.name == name {
			return n
		}
	}
	n := &node{w: tl.world, name: name, key: name}
	tl.nodes = append(tl.nodes, n)
	return n
}

func (tl *tale) nodeStep(n *node, words []datadriven.CmdArg) {
	switch words[0].Key {
	case "starts":
		tl.starts(n, words[1:])
	case "acts", "begins":
		if !n.begin() {
			tl.say("%s: has nothing to do", n.name)
		}
		if words[0].Key == "acts" {
			tl.deliver(nil)
		}
		if tl.text.Len() == 0 {
			tl.say("%s: is %s", n.name, n.mode)
		}
	case "times-out":
		if n.op == nil {
			tl.say("%s: waits for nothing", n.name)
			return
		}
		n.failed(n.op, errUnanswered)
	case "uses":
		if !n.issue() {
			tl.say("%s: cannot make a number at %d", n.name, rel(n.clock()))
		}
	case "stops":
		n.stop()
	case "is-killed":
		n.die()
	case "clock":
		n.offset = number(words[0].Vals[0])
	case "is-cut", "reaches":
		n.cut = words[0].Key == "is-cut"
	case "loses-file":
		n.disk = nil
	default:
		tl.t.Fatalf("there is no step %s", words[0].Key)
	}
}

// starts starts a process.
func (tl *tale) starts(n *node, words []datadriven.CmdArg) {
	m, known := tl.members[n.name]
	if !known {
		m = Member{Layout: "layout", Key: n.name, Horizon: 100, MaxSkew: 8, Floored: true}
	}
	for _, w := range words {
		switch w.Key {
		case "horizon":
			m.Horizon = number(w.Vals[0])
		case "skew":
			m.MaxSkew = number(w.Vals[0])
		case "offline":
			m.Offline = number(w.Vals[0])
		case "key":
			m.Key = w.Vals[0]
		case "ids":
			first, last, _ := strings.Cut(w.Vals[0], "-")
			m.First, m.Last = number(first), number(last)
		default:
			tl.t.Fatalf("there is no setting %s", w.Key)
		}
	}
	tl.members[n.name] = m
	trace := tl.trace
	tl.trace = nil // start says which settings it has drawn
	n.start()
	tl.trace = trace
	n.key, n.Member = m.Key, m
	tl.say("%s: starts; key %s, IDs %d to %d, horizon %d, maxSkew %d, offline %d", n.name, m.Key, m.First, m.Last, m.Horizon, m.MaxSkew, m.Offline)
}

// deliver lets messages arrive.
func (tl *tale) deliver(words []datadriven.CmdArg) {
	most := int64(1000)
	if len(words) > 0 {
		most = number(words[0].Key)
	}
	for ; most > 0 && len(tl.inFlight) > 0; most-- {
		m := tl.inFlight[0]
		tl.remove(0)
		tl.arrive(m)
		tl.step += 20
	}
}

func (tl *tale) restored(dropped bool) {
	c := tl.registry.backup
	if dropped {
		c.set = nil
	} else {
		tl.check.bare = true
		tl.restores++
	}
	tl.becomes(c)
}

// failover lets another server take over: with what there is, or with the backup.
func (tl *tale) failover(words []datadriven.CmdArg) {
	r := &tl.registry
	c, old := r.contents, (*oldSide)(nil)
	for _, w := range words {
		switch w.Key {
		case "to":
			c = r.backup
		case "old":
			old = &oldSide{r.contents, r.source, tl.now + number(w.Vals[0])}
		default:
			tl.named(w.Key).behind = true
		}
	}
	r.contents, r.old, r.source, r.history = c, old, tl.newSource(), nil
	r.remember(tl.now)
	tl.say("registry: fails over to %s", r.source)
}
