package model

import (
	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
)

// Some settings may differ between nodes by mistake, or change for all of them: which Redis, and
// which ordering.

// even is what the configuration says, for all nodes.
func (w *world) even() regime { return regime{redis: w.redis, by: w.by} }

// byStoreAlone reports whether every process takes from the store, and will.
func (w *world) byStoreAlone() bool {
	for _, n := range w.nodes {
		if n.up && n.st == nil {
			return false
		}
	}
	return !w.store.lost && w.store.read().Epoch == persist.StoreEpoch && !w.uneven()
}

// uses reports whether a process uses a Redis.
func (w *world) uses(redis int) bool {
	for _, n := range w.nodes {
		if n.up && n.redis == redis {
			return true
		}
	}
	return false
}

// uneven reports whether a process is not configured as it should be.
func (w *world) uneven() bool {
	for _, n := range w.nodes {
		if n.up && n.regime != w.even() {
			return true
		}
	}
	return false
}

// wakes reports whether a cursor would count again if an epoch came back: one that does not count
// any more, or that is in the Redis that is not in use. Its seed may also still be on its way.
func (w *world) wakes(epoch string) bool {
	counts := epoch == w.store.read().Epoch
	for _, s := range w.servers {
		if !(counts && s.redis == w.redis) && epoch != "" && s.keys[key]["epoch"] == epoch {
			return true
		}
	}
	for _, m := range w.inFlight {
		if m.question == install && m.to == toRedis && !(counts && m.server.redis == w.redis) && m.install.Epoch == epoch {
			return true
		}
	}
	return false
}

// moves moves the cluster to the other Redis, which shares nothing with the present one: all nodes
// are stopped, configured, and started. What they sent before may arrive late.
func (w *world) moves() bool {
	if w.fragile() {
		return false
	}
	w.stopAll("stopped for a move to another Redis")
	w.redis = 1 - w.redis
	for _, n := range w.nodes {
		n.next = w.even()
	}
	w.say("the configuration names another Redis")
	w.count("moved to another Redis")
	return true
}

// movesSequencer stops all nodes and changes the sequencer.
func (w *world) movesSequencer() bool {
	if w.fragile() {
		return false
	}
	w.stopAll("stopped for another sequencer")
	w.by = worlds.Pick(&w.dice, byRedis, byStore, byStore, auto)
	for _, n := range w.nodes {
		n.next = w.even()
	}
	w.say("the sequencer is %v now", w.by)
	w.count("another sequencer")
	return true
}

// mixesSequencers gives one node another sequencer. If all have it, it is that of the
// configuration.
func (w *world) mixesSequencers() bool {
	n := w.someNode()
	if w.fragile() || n.stopping || n.next != w.even() {
		return false
	}
	n.next.by = worlds.Pick(&w.dice, byRedis, byStore, auto)
	if n.next.by == w.by {
		return false
	}
	w.count("two sequencers")
	by := n.next.by
	n.reconfigure()
	if w.dice.OneIn(3) { // the change goes to all nodes, one after another
		w.by = by
		w.say("that is the sequencer of all nodes now")
	}
	return true
}

// mixes configures one node with the other Redis, by mistake, or because nodes are moved there one
// by one.
func (w *world) mixes() bool {
	n := w.someNode()
	if w.fragile() || n.next.redis != w.redis || n.stopping {
		return false
	}
	n.next.redis = 1 - w.redis
	n.reconfigure()
	w.count("two Redis servers")
	for _, n := range w.nodes {
		if n.next.redis == w.redis {
			return true
		}
	}
	w.redis = 1 - w.redis
	w.say("that is the Redis of all nodes now")
	w.count("moved to another Redis node by node")
	return true
}

// turns configures a node with per-node ordering.
func (w *world) turns() bool {
	n := w.someNode()
	if w.fragile() || n.next.apart || n.stopping {
		return false
	}
	n.next.apart = true
	n.reconfigure()
	w.count("per-node ordering")
	return true
}

// evens configures a node as all should be.
func (w *world) evens() bool {
	n := w.someNode()
	if n.next == w.even() || n.stopping || w.restoredTaken {
		return false
	}
	n.next = w.even()
	n.reconfigure()
	return true
}

// reconfigure ends the process, mostly by a clean stop, so that another one begins under the new
// configuration.
func (n *node) reconfigure() {
	n.say("is configured with Redis %s, per-node ordering: %t, sequencer: %v", [...]string{"A and B", "C"}[n.next.redis], n.next.apart, n.next.by)
	live := n.regime
	live.by = n.next.by
	switch {
	case !n.up:
	case live == n.next && !n.stopping && !n.paused && !n.apart && n.w.dice.OneIn(2):
		n.regime = n.next
		n.replace(n.by == byStore || n.by == auto && n.st != nil)
		n.settle()
		n.w.count("another sequencer while it runs")
	case n.paused || n.ops[givingBack] != nil || n.w.dice.OneIn(3):
		n.die("is killed")
	default:
		n.stop()
	}
}
