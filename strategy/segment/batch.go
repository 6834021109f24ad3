package segment

import (
	"time"

	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// If a take does not bring what its batch needs, the machine mends the cursor while callers wait.

// send implements [taker].
func (s *shared) send(b *batch) (more bool) {
	sent, taken, err := time.Now(), rediscursor.Taken{}, errPanic
	// also if the client panics: others wait for the batch
	defer func() { more = s.took(b, sent, taken, err) }()
	take, wait := s.machine.Send(sent, b.want)
	for wait {
		s.awaitResume(sent)
		sent = time.Now()
		take, wait = s.machine.Send(sent, b.want)
	}
	s.mu.Unlock()
	taken, err = s.of.cursor.Take(b.span.Context(), take)
	return more
}

// awaitResume waits until the machine lets the take be sent. mu is held, and released meanwhile.
func (s *shared) awaitResume(now time.Time) {
	resumed := make(chan struct{})
	s.resumed = resumed
	then := s.execute(now)
	s.mu.Unlock()
	run(then)
	<-resumed
	s.mu.Lock()
}

// took passes what a take brought on to its batch.
func (s *shared) took(b *batch, sent time.Time, taken rediscursor.Taken, err error) (more bool) {
	now := time.Now()
	s.mu.Lock()
	runs := s.machine.Took(now, sent, b.want, taken, err).Runs
	if more = s.arrived(b, runs, s.machine.Mode() == cursor.Online); !more {
		defer s.work.Done()
	}
	gone, then := b.gone, s.execute(now)
	s.mu.Unlock()
	s.deliver(b, gone)
	run(then)
	return more
}
