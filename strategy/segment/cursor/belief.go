package cursor

import (
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Numbers are taken from a cursor only if its sequencer epoch is the one that the store holds
// (invariant U3b). Then the cursor counts. See docs/adr/0020-sequencer-epochs.md.

// belief is the epoch that the store holds, as far as the node knows: the store's last answer.
type belief struct {
	epoch  string  // empty for none, also before the store was asked
	asked  instant // when the question was sent that epoch answers, zero before the first
	tried  instant // when the last question was sent
	missed instant // when a take last waited for an answer in vain
	// learnt is when an answer last changed epoch, zero for never or if this node drew it.
	learnt instant

	// settled is whether a cursor has counted while this machine existed.
	settled bool

	// seeds counts seeds over live cursors of other epochs, each within ContestedFor of the
	// previous one, and seeded is when the last of them was.
	seeds  int32
	seeded instant

	without RuleSet
}

// Began notes the epoch that the store held when the process began to use the counter, as the
// answer to a question that was sent at asked ([RuleFreshAsks]). It is not called if the store
// could not be read.
func (m *Machine) Began(when, asked time.Time, epoch string) {
	if !m.without(RuleFreshAsks) {
		m.belief.believe(at(when), epoch, at(asked))
	}
}

// inOrder reports whether the answer to a question that was sent at asked counts: answers that
// overtook each other count by their questions ([RuleAnswersInOrder]).
func (b *belief) inOrder(asked instant) bool {
	return asked >= b.asked || b.without.Has(RuleAnswersInOrder)
}

// believe notes what the store said to a question that was sent at asked.
func (b *belief) believe(now instant, epoch string, asked instant) {
	if !b.inOrder(asked) {
		return
	}
	if epoch != b.epoch && !b.asked.never() {
		b.learnt = now
	}
	b.epoch, b.asked, b.tried = epoch, asked, asked
	b.settled = b.settled || epoch != "" && epoch != persist.StoreEpoch
}

// drew notes that the store has replaced the counter's epoch by one that this node drew, in an
// allocation that was sent at sent. This result may be late: the answer to a later question counts
// instead, and is no news if it is this epoch.
func (b *belief) drew(epoch string, sent instant) {
	b.settled = true
	if b.inOrder(sent) {
		b.epoch, b.asked = epoch, sent
	}
	if b.epoch == epoch {
		b.learnt = 0
	}
}

// Believed returns the epoch that the node believes in, and when the question was sent that it is
// the answer to, the zero time before the first answer.
func (m *Machine) Believed() (epoch string, asked time.Time) {
	if !m.belief.asked.never() {
		asked = m.belief.asked.time()
	}
	return m.belief.epoch, asked
}

// outdated reports whether the store must be asked again before a take is sent ([RuleBeliefsAge]).
// After a wait that ended without an answer, takes do not wait again for a while. A process that
// has no answer yet need not wait: its take names no epoch, and so gets no numbers.
func (b *belief) outdated(now instant, storeAway bool) bool {
	return now.sub(b.asked) > TrustEpoch && now.sub(b.missed) > TrustEpoch && !b.asked.never() && !storeAway &&
		!b.without.Has(RuleBeliefsAge)
}

// ask is the question in the background. A take may wait for its answer, until wake.
type ask struct{ work }

// awaitAnswer asks the store and lets a take wait for the answer, for up to askPatience. The
// question itself may take longer.
func (m *Machine) awaitAnswer(now instant) bool {
	m.startAsking(now, false)
	if m.mode == Closing {
		return false
	}
	m.find(Ask).base().wake = now.add(askPatience)
	return true
}

// startRecheck asks the store in the background if the last question was a while ago.
func (m *Machine) startRecheck(now instant) {
	if now.sub(m.belief.tried) >= RecheckEpoch {
		age := now.sub(m.belief.asked)
		m.startAsking(now, age < TrustEpoch-hurryBefore) // after that a take may soon wait for the answer
	}
}

func (m *Machine) startAsking(now instant, unhurried bool) {
	if t := new(ask); m.begin(Ask, t) {
		t.base().pose(now, Question{Task: t.id, Timeout: FetchDeadline, Unhurried: unhurried})
	}
}

// tick lets the take be sent after askPatience.
func (t *ask) tick(now instant) { t.resume(now) }

// resume lets the waiting take be sent. After an error the last answer stands.
func (t *ask) resume(now instant) {
	if now.sub(t.belief.asked) > TrustEpoch {
		t.belief.missed = now
	}
	t.emit(Resume{})
}

func (t *ask) asked(now instant, _ error) {
	waits := !t.wake.never()
	t.end(now, &t.work)
	if waits {
		t.resume(now)
	}
}

// Yields reports whether the store itself sequences the counter, and no cursor may take over.
func (m *Machine) Yields() bool {
	return m.belief.epoch == persist.StoreEpoch && (!m.cfg.TakeOver || m.belief.settled)
}

// target is the target of a range that is to seed or advance the cursor that a look saw. A seed
// gets a new epoch ([RuleDrawnAnew]).
func (m *Machine) target(look *rediscursor.Taken) persist.Target {
	believed := m.belief.epoch
	switch {
	case !look.Stub && !look.Other:
		return persist.ToCursor(look.Epoch)
	case believed != "" && m.without(RuleDrawnAnew):
		return persist.NewCursor(believed, believed)
	}
	return persist.NewCursor(believed, m.cfg.NewEpoch())
}

// awaitsSeed reports whether another node has drawn an epoch just now, and may still install its
// seed ([RulePatience]).
func (b *belief) awaitsSeed(now instant) bool {
	patience := SeedPatience * time.Duration(1+min(b.seeds, mostPatience))
	return b.epoch != "" && now.sub(b.learnt) < patience && !b.without.Has(RulePatience)
}

// inquiry is a question to the store about a cursor whose epoch is not the one that the node
// believes in.
type inquiry struct {
	epoch   string // of the cursor
	before  string // the epoch that the node believed in
	follows bool   // the cursor's epoch replaced that in the store
}

// inquire asks the store about a cursor that has another epoch ([RuleAskToAdopt]). The answer goes
// to the task's method asked.
func (w *work) inquire(now instant, t task, look *rediscursor.Taken) inquiry {
	q := inquiry{epoch: look.Epoch, before: w.belief.epoch}
	// An epoch that was drawn never comes back, but the store may sequence the counter again.
	q.follows = q.before != "" && q.before != persist.StoreEpoch && look.Replaced == q.before
	if w.without(RuleAskToAdopt) || w.without(RuleFreshAsks) && w.belief.asked.never() {
		w.belief.epoch, w.belief.asked = look.Epoch, now
		t.asked(now, nil)
		return q
	}
	patience := FetchDeadline
	switch {
	case q.follows && w.away != nil:
		patience = awayPatience
	case q.follows:
		patience = askPatience
	}
	w.question(now, patience)
	return q
}

// answered returns nil if an inquiry has told the node what to believe, and otherwise the error.
//
// If the store did not answer, the node still adopts the epoch of the cursor, provided that this
// epoch replaced the one that the node believed in. Then the store held it later than that one, and
// its ranges are unique (U1). The store may hold yet another epoch by now, but while the store is
// away this is so for any belief. About any other cursor the node cannot tell whether it was left
// behind.
func (b *belief) answered(q inquiry, err error) error {
	if err == nil || !q.follows || IsFinal(err) {
		return err
	}
	if b.epoch == q.before { // nothing else was learnt meanwhile
		b.epoch = q.epoch
	}
	return nil
}

// contest counts a seed that replaced a live cursor of another epoch.
func (m *Machine) contest(now instant) {
	b := &m.belief
	if now.sub(b.seeded) > ContestedFor {
		b.seeds = 0
	}
	b.seeds, b.seeded = b.seeds+1, now
	m.log(slog.LevelWarn, "the cursor did not count any more, so another one was begun; what was left in it is skipped")
	if b.seeds >= manySeeds {
		m.log(slog.LevelError, "cursors alternate: nodes are configured with different Redis servers or orderings, or two Redis servers are primaries", "times", b.seeds)
		m.event(seqd.EventCursorContested, int64(b.seeds), nil)
	}
}

// contested returns an error if cursors alternate, else nil.
func (b *belief) contested(now instant) *seqd.Error {
	if b.seeds < manySeeds || now.sub(b.seeded) > ContestedFor {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeCursorContested,
		Detail: "cursors alternate, and order over the nodes does not hold: nodes are configured with different Redis servers or orderings, or two Redis servers are primaries"}
}
