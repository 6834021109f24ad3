package cursor

import (
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Each rule does something: with it a machine keeps what is promised, without it the promise breaks
// in the same situation. integration/model shows the same for whole clusters.

// broken runs a situation with all rules and without some, and checks that it reports a breach only
// then.
func broken(t *testing.T, breach func(w *world) bool, without ...Rule) {
	t.Helper()
	for _, set := range []RuleSet{0, Rules(without...)} {
		w := newWorld(t, func(c *Config) { c.Without = set })
		if got := breach(w); got != (set != 0) {
			t.Errorf("without %v: broken %t", without, got)
		}
	}
}

func TestRuleGuard(t *testing.T) {
	broken(t, func(w *world) bool {
		low, high := persist.Range{First: 5, Last: 8}, persist.Range{First: 10, Last: 12}
		w.m.Took(w.now, w.now, 3, rediscursor.Taken{Runs: []persist.Range{high}, Ceil: 12}, nil)
		out := w.m.Took(w.now, w.now, 4, rediscursor.Taken{Runs: []persist.Range{low}, Ceil: 12}, nil)
		return out.Brought > 0
	}, RuleGuard)
}

func TestRuleFloor(t *testing.T) {
	broken(t, func(w *world) bool {
		w.issue(15, time.Second)
		w.store.max = 0 // it was restored
		w.lose()
		w.takeOnce(1)
		w.do(w.next(Spare), well)
		return w.store.max <= 15
	}, RuleFloor)
}

func TestRuleAbandonUnknown(t *testing.T) {
	broken(t, func(w *world) bool {
		w.takeOnce(1)
		w.fetch()
		for w.next(Mend) < 0 || !isInstall(w.waiting[w.next(Mend)]) {
			w.do(0, well)
		}
		r := w.waiting[w.next(Mend)].(Install).Install.Range
		w.do(w.next(Mend), lost)
		return w.m.outage.standby == r
	}, RuleAbandonUnknown)
}

func isInstall(c Command) bool { _, ok := c.(Install); return ok }

// spareInHand brings a machine to where it has a range for the beginning of a cursor, and is about
// to look again.
func spareInHand(w *world) {
	w.takeOnce(1)
	w.fetch()
	w.do(w.next(Spare), well)
}

func TestRuleYoungSpare(t *testing.T) {
	broken(t, func(w *world) bool {
		spareInHand(w)
		w.lose() // after others had a cursor there
		w.do(w.next(Mend), well)
		i := w.next(Mend)
		return i >= 0 && isInstall(w.waiting[i])
	}, RuleYoungSpare)
}

func TestRuleSpareEpoch(t *testing.T) {
	broken(t, func(w *world) bool {
		spareInHand(w)
		w.m.belief.believe(at(w.now), "theirs", at(w.now.Add(time.Second)))
		w.now = w.now.Add(time.Minute)
		w.do(w.next(Mend), well)
		i := w.next(Mend)
		return i >= 0 && isInstall(w.waiting[i])
	}, RuleSpareEpoch)
}

// goesBack lets a node issue on its own and come back to a cursor that holds what it held.
func goesBack(w *world) {
	w.issue(3, time.Second)
	w.pass(2 * time.Second)
	w.redis.down = true
	w.takeOnce(1)
	w.pass(time.Second)
	w.is(Alone)
	w.issue(25, 0)
	w.redis.down = false
	for w.m.Mode() == Alone {
		w.pass(10 * time.Millisecond)
	}
}

func TestRuleAdvanceFirst(t *testing.T) {
	broken(t, func(w *world) bool {
		goesBack(w)
		w.is(Online)
		return w.redis.cur < w.highest && w.takeOnce(1) == 0
	}, RuleAdvanceFirst)
}

func TestRuleAheadKept(t *testing.T) {
	broken(t, func(w *world) bool {
		goesBack(w)
		w.is(Online)
		w.m.enter(Mending)
		w.m.outage.ahead = true // an earlier return failed half-way
		w.m.enter(Alone)
		w.m.startComeback(at(w.now))
		w.m.find(Comeback).base().state = closing
		w.m.Closed(w.now, 0, 0)
		return !w.m.outage.ahead
	}, RuleAheadKept)
}

func TestRuleStandbyAboveCeil(t *testing.T) {
	broken(t, func(w *world) bool {
		w.issue(3, time.Second)
		w.pass(2 * time.Second)
		w.m.seeCeil(1000)
		w.redis.down = true
		w.takeOnce(1)
		w.pass(time.Second)
		w.is(Alone)
		return len(w.local.ranges) > 0
	}, RuleStandbyAboveCeil)
}

// otherCursor lets a node meet a cursor that does not count.
func otherCursor(w *world) {
	w.redis = redis{gen: 7, epoch: "old", cur: 100, last: 200, ceil: 200}
	w.takeOnce(1)
	w.settle()
}

func TestRuleAskToAdopt(t *testing.T) {
	broken(t, func(w *world) bool {
		w.issue(3, time.Second)
		otherCursor(w)
		return w.redis.epoch == "old"
	}, RuleAskToAdopt)
}

func TestRuleFreshAsks(t *testing.T) {
	broken(t, func(w *world) bool {
		otherCursor(w)
		return w.redis.epoch == "old"
	}, RuleFreshAsks)
}

func TestRuleAnswersInOrder(t *testing.T) {
	broken(t, func(w *world) bool {
		w.m.belief.believe(at(w.now), "new", at(w.now.Add(2*time.Second)))
		w.m.belief.believe(at(w.now), "old", at(w.now.Add(time.Second)))
		return w.m.belief.epoch == "old"
	}, RuleAnswersInOrder)
}

func TestRuleBeliefsAge(t *testing.T) {
	broken(t, func(w *world) bool {
		w.issue(3, time.Second)
		w.now = w.now.Add(time.Hour)
		_, wait := w.m.Send(w.now, 1)
		return !wait
	}, RuleBeliefsAge)
}

func TestRuleDrawnAnew(t *testing.T) {
	broken(t, func(w *world) bool {
		w.issue(3, time.Second)
		before := w.store.epoch
		w.lose()
		w.takeOnce(1)
		w.settle()
		return w.store.epoch == before
	}, RuleDrawnAnew)
}

func TestRulePatience(t *testing.T) {
	broken(t, func(w *world) bool {
		w.m.belief.believe(at(w.now), "theirs", at(w.now))
		return !w.m.belief.awaitsSeed(at(w.now))
	}, RulePatience)
}
