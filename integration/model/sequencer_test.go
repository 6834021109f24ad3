package model

import (
	"fmt"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// Nodes that are configured with different sequencers do not take the counter from each other for
// ever: each takes over once.
func TestSequencersDoNotAlternate(t *testing.T) {
	for _, out := range []without{{}, leaveOut(takeOverOnce)} {
		t.Run(fmt.Sprint("without rule: ", out[takeOverOnce]), func(t *testing.T) {
			s := quiet(t, out)
			s.configure(s.n1, regime{by: byStore})
			s.n1.call(1)
			s.pass(nil)
			s.configure(s.n2, regime{by: byRedis})
			for range 5 {
				s.n2.call(1)
				s.passFor(2*time.Second, nil)
				s.n1.call(1)
				s.passFor(2*time.Second, nil)
			}
			if n := s.events["the store took over"]; (n > 1) != out[takeOverOnce] {
				t.Errorf("the store took over %d times", n)
			}
			if s.check.broken != "" {
				t.Error(s.check.broken)
			}
		})
	}
}

// The epoch "store" comes back, so a cursor that has replaced it once may be older than what the
// store says now. A node does not adopt it while the store is away.
func TestCursorOverAnOlderStore(t *testing.T) {
	s := quiet(t, without{})
	s.store.counter.Epoch = persist.StoreEpoch
	s.store.copied()
	s.backsUp()
	s.configure(s.n2, regime{by: byRedis})
	s.n2.call(1)
	s.pass(nil) // the rest of its range stays in Redis
	restored := func() {
		s.stopAll("stopped for a restore")
		s.restore()
		s.raise(s.check.ended)
	}
	restored()
	s.n1.next = regime{apart: true}
	s.n1.start(settings{step: 3, threshold: 1})
	s.n1.call(2)
	s.pass(nil)
	restored()
	s.n2.start(settings{step: 3, threshold: 1})
	s.pass(nil) // it has read the counter
	s.store.down = true
	s.n2.call(1)
	s.pass(nil)
	if s.check.calls != 2 {
		t.Errorf("%d calls were answered", s.check.calls)
	}
	s.store.down = false
	s.n2.call(1)
	s.pass(nil)
	if s.check.calls < 3 || s.check.broken != "" {
		t.Errorf("%d calls were answered; %s", s.check.calls, s.check.broken)
	}
}
