package sim

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

const (
	blink = 300 * time.Millisecond
	short = 2 * time.Second
	some  = 8 * time.Second
	long  = 20 * time.Second
)

var (
	everyNode  = append([]string{"all"}, nodeNames...)
	directions = []string{"there", "back", "both"}
	turns      = []time.Duration{
		50 * time.Millisecond, -50 * time.Millisecond, 400 * time.Millisecond, -400 * time.Millisecond, 900 * time.Millisecond, -900 * time.Millisecond,
		3 * time.Second, -3 * time.Second, time.Minute, -time.Minute, time.Hour, -time.Hour, 24 * time.Hour, -24 * time.Hour,
	}
	// a skew of 1.5 s is allowed
	behind = []time.Duration{-500 * time.Millisecond, -1200 * time.Millisecond, -1400 * time.Millisecond, -3 * time.Second}

	storeAway = record.Fault{Store: true}
	cutOff    = record.Fault{Store: true, Redis: true}
)

func withRedis(o Options) bool    { return o.Redis }
func withoutRedis(o Options) bool { return !o.Redis }

// kinds are all kinds of faults and of actions of operators. doc.go says in which files the others are.
var kinds = append([]kind{
	{name: "kill", weight: 6, holds: "seqd", targets: nodeNames, least: blink, most: some, begin: func(w *World, f *fault) { w.node(f).kill(false) }, end: start},
	{name: "power-lost", weight: 2, holds: "seqd", targets: nodeNames, least: short, most: some, begin: func(w *World, f *fault) { w.node(f).kill(true) }, end: start},
	{name: "stop", weight: 3, holds: "seqd", targets: nodeNames, least: blink, most: some, after: 30 * time.Second, begin: stop, end: start},
	{name: "restart", weight: 3, holds: "seqd", targets: nodeNames, after: 30 * time.Second, begin: stop, end: start},
	{name: "pause", weight: 5, holds: "seqd pause", targets: nodeNames, least: short, most: long, marks: record.Fault{Paused: true},
		begin: func(w *World, f *fault) { w.node(f).pause() }, end: func(w *World, f *fault) { w.node(f).resume() }},
	{name: "clock-step", weight: 3, holds: "clock", targets: nodeNames, amounts: turns, least: short, most: some, begin: turnClock, end: resetClock},
	{name: "clock-midnight", weight: 2, holds: "clock", targets: nodeNames, least: short, most: some, begin: midnight, end: resetClock},
	{name: "clock-restart", weight: 2, holds: "clock seqd", targets: nodeNames, amounts: behind, least: short, most: some, after: 30 * time.Second,
		begin: func(w *World, f *fault) { w.node(f).stop(); turnClock(w, f); w.node(f).start() }, end: resetClock},
	{name: "clock-kill", weight: 1, holds: "clock seqd", targets: nodeNames, ways: []string{"", diskLost}, amounts: behind, least: short, most: some, begin: replace, end: resetClock},

	{name: "store-away", weight: 3, holds: "link@all store@", targets: everyNode, least: blink, most: long, marks: storeAway, begin: wayTo(storesim.Away), end: wayTo(storesim.Up)},
	{name: "store-hangs", weight: 3, holds: "link@all store@", targets: everyNode, least: blink, most: long, marks: storeAway, begin: wayTo(storesim.Hung), end: wayTo(storesim.Up)},
	{name: "store-mute", weight: 3, holds: "link@all store@", targets: everyNode, least: blink, most: some, marks: storeAway, begin: wayTo(storesim.Mute), end: wayTo(storesim.Up)},

	{name: "callers-cut", weight: 3, holds: "callers", targets: nodeNames, ways: directions, least: blink, most: long, begin: cutCallers},
	{name: "callers-reset", weight: 3, holds: "callers", targets: nodeNames, begin: func(w *World, f *fault) { w.net.Reset(callers, w.node(f).host) }},
	{name: "isolated", weight: 3, holds: "link@all store@ partition", targets: nodeNames, least: blink, most: long, marks: cutOff, begin: isolate, end: wayTo(storesim.Up)},
}, slices.Concat(redisKinds, failoverKinds, restoreKinds, otherRedisKinds, definitionKinds, workerKinds, termKinds, operatorKinds)...)

// node returns the node that a fault is about.
func (w *World) node(f *fault) *node { return w.named(f.planned.target) }

func (w *World) named(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	panic("no node is " + name)
}

func start(w *World, f *fault) { w.node(f).start() }
func stop(w *World, f *fault)  { w.node(f).stop() }

// diskLost is the way of a node that begins again on another machine.
const diskLost = "without its disk"

// replace kills a node, and starts it with a clock that is behind.
func replace(w *World, f *fault) {
	n := w.node(f)
	n.kill(false)
	if dir := filepath.Join(w.dir, n.name); f.way == diskLost {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			w.journal.Find("the disk of %s: %v", n.name, err)
		}
	}
	turnClock(w, f)
	n.start()
}

func turnClock(w *World, f *fault)  { w.node(f).setClock(f.amount) }
func resetClock(w *World, f *fault) { w.node(f).setClock(0) }

// midnight makes the clock of a node pass midnight after a second.
func midnight(w *World, f *fault) {
	const day = 24 * time.Hour
	now := time.Now().UTC()
	f.amount = now.Truncate(day).Add(day).Sub(now) - time.Second
	turnClock(w, f)
}

// wayTo sets the state of the way to the store, of one node or of all.
func wayTo(s storesim.State) func(w *World, f *fault) {
	return func(w *World, f *fault) {
		if f.planned.target == "all" {
			w.store.Set(s)
			return
		}
		w.node(f).setStore(s)
	}
}

// cutCallers cuts callers off from a node, in one direction or in both.
func cutCallers(w *World, f *fault) { w.cut(f, callers, w.node(f).host) }

// cut cuts two hosts off from each other, as the way of the fault says.
func (w *World) cut(f *fault, from, to string) {
	if f.way != "back" {
		f.later(w.net.Cut(from, to))
	}
	if f.way != "there" {
		f.later(w.net.Cut(to, from))
	}
}

// cutOffRedis cuts a node off from the servers of Redis, as the way of the fault says.
func (w *World) cutOffRedis(f *fault, n *node) {
	for i := range redisServers {
		w.cut(f, n.host, redisHost(i))
	}
}

// isolate cuts a node off from all servers. Its callers still reach it.
func isolate(w *World, f *fault) {
	w.node(f).setStore(storesim.Hung)
	w.cutOffRedis(f, w.node(f))
}

// base is the name of the biz type of a counter.
func base(counter string) string {
	name, _, _ := strings.Cut(counter, "@")
	name, _, _ = strings.Cut(name, "/")
	return name
}
