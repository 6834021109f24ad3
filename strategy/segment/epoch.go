package segment

import (
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A cursor counts only under the sequencer epoch that the store holds (invariant U3b):
// docs/adr/0020-sequencer-epochs.md.

const (
	// recheckEpoch is how often the store is asked for the epoch of a counter in use.
	recheckEpoch = 3 * time.Second
	// trustEpoch is how old the store's last answer may be for a take to be sent without asking
	// again.
	trustEpoch = 5 * time.Second
	// askPatience bounds the wait of a take for that answer, and awayPatience that of a node that
	// knows the store to be away.
	askPatience, awayPatience = time.Second, 250 * time.Millisecond
	// seedPatience is how long the node that drew an epoch is given to install its seed. Where
	// seeds alternate an install takes longer, so each adds as much, but no more than mostPatience
	// of them.
	seedPatience, mostPatience = claimPatience, 8
	// contestedFor is the longest pause between two seeds over live cursors of other epochs that
	// count together, and manySeeds how many of them are reported.
	contestedFor = time.Minute
	manySeeds    = 3
)

// belief is which cursor counts, as the store last said. Guarded by Shared.mu.
type belief struct {
	epoch  string    // empty for none, also before the store was asked
	asked  time.Time // when the question was sent that this answers, zero before the first
	tried  time.Time // when the last question was sent
	missed time.Time // when a take last waited for an answer in vain
	// when an answer last changed epoch, zero for never or if this node drew it
	learnt time.Time
	// closed when the question under way in the background ends; nil while there is none
	asking chan struct{}

	// seeds over live cursors of other epochs, each within contestedFor of the one before
	seeds  int
	seeded time.Time // when the last of them was
}

// believe notes what the store said to a question that was sent at a time. Answers that overtook
// each other count by their questions. mu is held.
func (s *Shared) believe(epoch string, asked time.Time) {
	b := &s.belief
	if asked.Before(b.asked) {
		return
	}
	if epoch != b.epoch && !b.asked.IsZero() {
		b.learnt = time.Now()
	}
	b.epoch, b.asked = epoch, asked
	b.tried = asked
}

// drew notes that the store has made an epoch of this node the counter's, by an allocation that was
// sent at a time. The answer may be late: what the store said to a later question counts, and is no
// news if it is this epoch. mu is held.
func (s *Shared) drew(epoch string, sent time.Time) {
	b := &s.belief
	if !sent.Before(b.asked) {
		b.epoch, b.asked = epoch, sent
	}
	if b.epoch == epoch {
		b.learnt = time.Time{}
	}
}

// ask asks the store which cursor counts.
func (s *Shared) ask(ctx context.Context) error {
	asked := time.Now()
	s.mu.Lock()
	s.belief.tried = asked
	s.mu.Unlock()
	epoch, err := s.env.Store.Counters().Epoch(ctx, s.name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.believe(epoch, asked)
	s.mu.Unlock()
	return nil
}

// askWithin is ask with a timeout. Close cancels it. After an error the last belief stands.
func (s *Shared) askWithin(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() {
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.ask(ctx)
}

// awaitAnswer waits up to askPatience for the store's answer. The question itself may run longer.
func (s *Shared) awaitAnswer() {
	s.mu.Lock()
	done := s.startAsking()
	s.mu.Unlock()
	select {
	case <-done:
	case <-s.stopping:
	case <-time.After(askPatience):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.belief.asked) > trustEpoch {
		s.belief.missed = now
	}
}

// outdated reports whether a take must not be sent before the store was asked again. A store that
// was waited for in vain is not waited for again for a while. mu is held.
func (s *Shared) outdated(now time.Time) bool {
	b := &s.belief
	return now.Sub(b.asked) > trustEpoch && now.Sub(b.missed) > trustEpoch && !b.asked.IsZero() && s.storeAway() == nil
}

// startRecheck asks the store in the background if the last question was a while ago. mu is held.
func (s *Shared) startRecheck(now time.Time) {
	if now.Sub(s.belief.tried) >= recheckEpoch {
		s.startAsking()
	}
}

// startAsking asks the store in the background, unless that is under way, and returns what is
// closed when the question ends. mu is held.
func (s *Shared) startAsking() <-chan struct{} {
	if s.belief.asking != nil {
		return s.belief.asking
	}
	done := make(chan struct{})
	if !s.start(func() { s.askInBackground(done) }) {
		close(done)
		return done
	}
	s.belief.asking = done
	return done
}

func (s *Shared) askInBackground(done chan struct{}) {
	_ = s.askWithin(fetchDeadline) // a later take tries again
	s.mu.Lock()
	s.belief.asking = nil
	s.mu.Unlock()
	close(done)
}

// target is where a range goes that is to begin the cursor that a look saw. mu is held.
func (s *Shared) target(look *rediscursor.Taken) persist.Target {
	if look.Stub || look.Other {
		return persist.NewCursor(s.belief.epoch, persist.NewEpoch())
	}
	return persist.ToCursor(look.Epoch)
}

// spareFits reports whether the spare range can begin the cursor that a look saw, above the numbers
// up to issued. mu is held.
func (s *Shared) spareFits(look *rediscursor.Taken, issued int64) bool {
	o := &s.outage
	seed := look.Stub || look.Other
	return o.spare.First > issued && o.spareGen == look.Gen && o.spareEpoch == s.belief.epoch && seed == (o.spareEpoch != look.Epoch)
}

// awaitsSeed reports whether another node has drawn an epoch just now, and may still install its
// seed. mu is held.
func (s *Shared) awaitsSeed() bool {
	b := &s.belief
	patience := seedPatience * time.Duration(1+min(b.seeds, mostPatience))
	return b.epoch != "" && !b.learnt.IsZero() && time.Since(b.learnt) < patience
}

// inquire asks the store about a cursor that is live under another epoch than this node believes
// in.
//
// If the store does not answer, the node believes in that epoch if it replaced the one that the
// node believes in: then the store held it after that one, and all its ranges are unique (U1). That
// one may have been replaced too by now: so it is with every belief while the store is away. Of any
// other cursor the node cannot tell whether it was left behind.
func (s *Shared) inquire(look *rediscursor.Taken) error {
	s.mu.Lock()
	before := s.belief
	follows, patience := before.epoch != "" && look.Replaced == before.epoch, fetchDeadline
	switch {
	case follows && s.storeAway() != nil:
		patience = awayPatience
	case follows:
		patience = askPatience
	}
	s.mu.Unlock()
	err := s.askWithin(patience)
	if err == nil || !follows || isFinal(err) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.belief.epoch == before.epoch { // nobody has learnt more meanwhile
		s.belief.epoch = look.Epoch
	}
	return nil
}

// dispute decides about a cursor that is live under another epoch than this node believes in. The
// store says which counts.
func (m *mender) dispute(look *rediscursor.Taken) next {
	if m.asked != look.Gen {
		if err := m.inquire(look); err != nil {
			m.mu.Lock()
			m.failure = seqd.AsError(refusal(err))
			m.mu.Unlock()
			return later
		}
		m.asked = look.Gen
	}
	m.mu.Lock()
	same, early := m.belief.epoch == look.Epoch, m.awaitsSeed()
	m.mu.Unlock()
	switch {
	case same:
		return again
	case early:
		return soon
	}
	return m.bring(rediscursor.Seed, look)
}

// contest counts a seed over a cursor that was live under another epoch.
func (s *Shared) contest() {
	s.mu.Lock()
	b, now := &s.belief, time.Now()
	if now.Sub(b.seeded) > contestedFor {
		b.seeds = 0 // the last one was long ago
	}
	b.seeds, b.seeded = b.seeds+1, now
	seeds := b.seeds
	s.mu.Unlock()
	s.env.Log.Warn("the cursor did not count any more, so another one was begun; what was left in it is skipped", "bizType", s.name)
	if seeds < manySeeds {
		return
	}
	s.env.Log.Error("cursors alternate: nodes are configured with different Redis servers or orderings, or two Redis servers are primaries", "bizType", s.name, "times", seeds)
	s.report(seqd.Event{Kind: seqd.EventCursorContested, Numbers: int64(seeds)})
}

// contested returns that cursors alternate, nil if they do not. mu is held.
func (s *Shared) contested() *seqd.Error {
	b := &s.belief
	if b.seeds < manySeeds || time.Since(b.seeded) > contestedFor {
		return nil
	}
	return &seqd.Error{Code: seqd.CodeCursorContested,
		Detail: "cursors alternate, and order over the nodes does not hold: nodes are configured with different Redis servers or orderings, or two Redis servers are primaries"}
}
