package cursor

import (
	"cmp"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// outage is what a node keeps in case Redis goes away, and its state while Redis is away.
type outage struct {
	// standby is what the node would issue first on its own; the zero range while there is none.
	standby persist.Range
	fetched instant     // when the last standby range came
	issued  int64       // numbers taken since then
	reason  *seqd.Error // why the node left the cursor, nil when it takes from it again
	left    instant     // when it left the cursor last
	// returned is when it took from it again last.
	returned instant
	// rejected is set if callers were refused because Redis is away, and no numbers came from the
	// cursor since.
	rejected bool
	// ahead is set while the node has issued numbers on its own and has not yet seen the cursor
	// above them.
	ahead bool
	hold  time.Duration // how long the node stays on its own at least
}

// hand takes out the ranges in hand and returns them, the lower one first.
func (m *Machine) hand() (rest []persist.Range) {
	for _, r := range []*persist.Range{&m.outage.standby, &m.spare.Range} {
		if r.First > 0 {
			rest = append(rest, *r)
			*r = persist.Range{}
		}
	}
	slices.SortFunc(rest, func(a, b persist.Range) int { return cmp.Compare(a.First, b.First) })
	return rest
}

// standing is the task Standby: it tries to allocate a standby range until it has one.
type standing struct{ work }

// startStandby replaces the standby range if there is none, or if the cursor has passed it.
func (m *Machine) startStandby(now instant) {
	o := &m.outage
	if !m.cfg.Degrade || m.cfg.NoStandby || o.standby.First > max(m.ceil, m.highest) || m.under(Standby) || now.sub(o.fetched) < standbyPause {
		return
	}
	if t := new(standing); m.begin(Standby, t) {
		t.tick(now)
	}
}

// tick looks at the cursor before it allocates, to get the latest floor: the store may have been
// restored meanwhile, and the range must be above what other nodes have.
func (t *standing) tick(now instant) { t.peek(now, false, 0) }

func (t *standing) looked(now instant, _ rediscursor.Taken, err error) {
	if err != nil {
		t.pauses(now, pausing, LastPause)
		return
	}
	t.allocate(now, persist.Beside, min(t.standbySize(now), t.cfg.MaxStep), t.seen, Standing)
}

// standbySize is how many numbers last for standbyLasts at the present rate.
func (m *Machine) standbySize(now instant) int64 {
	lasted := now.sub(m.outage.fetched) // standbyPause at least, ages before the first range
	return max(min(LeastStandby, m.cfg.Step), int64(float64(m.outage.issued)*float64(standbyLasts)/float64(lasted)))
}

func (t *standing) allocated(now instant, r persist.Range, err error) {
	o := &t.outage
	switch {
	case err != nil && !IsFinal(err):
		t.pauses(now, pausing, LastPause)
		return
	case t.over:
		t.drop(r, ErrStopping) // Finish has returned what there was
	default:
		t.drop(o.standby, ErrBelow)
		o.standby, o.fetched, o.issued = r, now, 0
	}
	t.end(now, &t.work)
}

// leave stops waiting for Redis: the node issues on its own or, without Degrade, refuses callers.
func (t *mend) leave(now instant, cause error) {
	switch {
	case t.Yields():
		t.yield(now)
		return
	case !t.cfg.Degrade, t.belief.epoch == persist.StoreEpoch: // others take from the store, in order
		t.reject(now, cause)
		return
	}
	t.end(now, &t.work)
	if t.mode == Closing {
		return
	}
	t.goAlone(now, cause)
}

// reject refuses callers, and looks again later.
func (t *mend) reject(now instant, cause error) {
	known := t.outage.rejected
	t.outage.rejected, t.refusal = true, RedisError(cause)
	t.emit(Wake{})
	t.redis.failing, t.redis.failures = 0, 0 // otherwise it would never take again
	if !known {
		t.redisGone("Redis does not serve the cursor; requests are rejected", cause)
	}
	t.later(now)
}

// goAlone lets callers take from the node's own buffer, which begins with what is in hand.
func (m *Machine) goAlone(now instant, cause error) {
	var keep, dropped []persist.Range
	for _, r := range m.hand() {
		if m.mayIssueAlone(r) {
			keep = append(keep, r)
		} else {
			dropped = append(dropped, r)
		}
	}
	o := &m.outage
	if o.hold = min(max(2*o.hold, firstHold), LastHold); o.reason == nil && now.sub(o.returned) > steady {
		o.hold = 0
	}
	reason := RedisError(cause)
	reason.Detail += "; this node issues on its own, and order over the nodes is suspended"
	o.reason, o.left, m.refusal = reason, now, nil
	m.emit(OpenLocal{keep, m.seen})
	m.enter(Alone)
	m.startComeback(now)
	m.dropAll(dropped, ErrBelow)
	m.redisGone("Redis does not serve the cursor; the node issues on its own", cause)
}

// mayIssueAlone reports whether a node on its own may issue from a range that it kept. The range
// must be above all that this node has issued, and above all that has been in the cursor: if the
// store was restored in between, other nodes may have issued numbers of the range
// ([RuleStandbyAboveCeil]).
func (m *Machine) mayIssueAlone(r persist.Range) bool {
	least := max(m.highest, m.ceil)
	if m.without(RuleStandbyAboveCeil) {
		least = m.highest
	}
	return r.First > least
}
