package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// sharedCursor is what the nodes of a cluster share: [rediscursor.Cursor].
type sharedCursor interface {
	Take(context.Context, rediscursor.Take) (rediscursor.Taken, error)
	Install(context.Context, rediscursor.Install) (rediscursor.Answer, error)
	Drop(context.Context) error
}

// shared is the source over a cursor that all nodes of the cluster share: numbers increase strictly
// over all of them.
//
// It is a shell around a machine of package cursor, which decides what to do and has the modes
// online, mending, alone and closing. It holds the lock around the machine, lets callers share
// takes (sharing.go) and executes the machine's commands (drive.go). It keeps no state of the
// protocol.
type shared struct {
	*ranges
	of *Counter // whose cursor is taken from
	// local is the node's own double buffer while it issues on its own, else nil.
	local atomic.Pointer[buffer]
	sharing

	// What follows is guarded by mu.
	machine *cursor.Machine
	resumed chan struct{} // closed when the take may be sent that waits; nil while none does
	timer   *time.Timer   // calls tick at due; nil while the machine waits for no time
	due     time.Time
}

var (
	_ source  = (*shared)(nil)
	_ taker   = (*shared)(nil)
	_ fetcher = (*shared)(nil)
)

// fromCursor returns a source over the cursor.
func (c *Counter) fromCursor() *shared {
	settings := c.settings
	s := &shared{
		ranges: &c.ranges,
		of:     c,
		machine: cursor.New(cursor.Config{
			Start: settings.Start, Threshold: settings.Threshold, Reserve: settings.ReserveSegments,
			Degrade: settings.OnRedisDown == Degrade, NoStandby: c.keyed(), TakeOver: settings.Sequencer == SequencerRedis, Step: settings.Step, MaxStep: settings.MaxStep,
			Patience: settings.AcquireTimeout, Without: sabotage.OfMachine(cursor.ParseRules),
		}),
	}
	s.taker = s
	return s
}

// open implements [source]. It learns which cursor counts.
func (s *shared) open(ctx context.Context, fresh bool) error {
	asked := time.Now()
	counter, known, err := s.begin(ctx, fresh)
	if known {
		s.mu.Lock()
		s.machine.Began(time.Now(), asked, counter.Epoch)
		s.mu.Unlock()
	}
	return err
}

func (s *shared) openKey(ctx context.Context, fresh bool) error { return s.open(ctx, fresh) }

func (s *shared) sequencer() string { return SequencerRedis }

func (s *shared) waited(d time.Duration) { s.tellWait(SequencerRedis, d) }

// idle implements [source]. A source that refuses is not idle: if another sequencer took over, a
// new one would take over again. Nor is one that issues on its own, or whose cursor may be behind:
// only this node can restore the order over nodes.
func (s *shared) idle() bool {
	return s.health() == nil && s.degraded() == nil && !s.knows().behind()
}

// some implements [source]. Online it takes from the cursor, alone from the local buffer, and
// mending it waits.
func (s *shared) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	goal, p := seq.Len()+n, patience{wait: s.settings.AcquireTimeout}
	for seq.Len() < goal {
		missing := goal - seq.Len()
		if local := s.local.Load(); local != nil {
			if err := local.takeWith(ctx, missing, seq, &p); err != errLeft {
				return err
			}
		} else if err := s.join(ctx, int64(missing), seq, &p); err != nil {
			return err
		}
	}
	return nil
}

// admit implements [taker]. A caller that is neither admitted nor refused, and need not wait, finds
// that the node is alone, and takes from the local buffer.
func (s *shared) admit(n int64) (wake <-chan struct{}, err error, ok bool) {
	switch mode, refusal := s.machine.Mode(), s.machine.Refusal(); {
	case mode == cursor.Online && refusal == nil:
		return nil, nil, true
	case mode == cursor.Closing:
		return nil, errStopping, false
	case refusal != nil:
		return nil, refusal, false
	case mode == cursor.Alone:
		return nil, nil, false // the node left the cursor just now
	}
	s.machine.Waiting(n)
	return s.toWake(), nil, false
}

// gone implements [taker].
func (s *shared) gone(n int64, late bool) error {
	s.machine.Gone(n)
	if late {
		return s.machine.Late()
	}
	return nil
}

// send implements [taker]. If the take does not bring what its batch needs, the machine mends the
// cursor while callers wait.
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
	b.sent = sent
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

func (s *shared) health() error {
	if local := s.local.Load(); local != nil {
		return local.health()
	}
	if err := s.ask((*cursor.Machine).Health); err != nil {
		return err
	}
	return nil
}

func (s *shared) degraded() *seqd.Error {
	if reason := s.ask((*cursor.Machine).Degraded); reason != nil {
		return reason
	}
	return s.storeAway()
}

// ask calls how, which is Health or Degraded, on the machine.
func (s *shared) ask(how func(*cursor.Machine, time.Time, cursor.RedisAway) *seqd.Error) (answer *seqd.Error) {
	var away cursor.RedisAway
	if s.env.RedisAway != nil {
		away.Since, away.Cause = s.env.RedisAway()
	}
	s.happens(func(now time.Time) { answer = how(s.machine, now, away) })
	return answer
}

// prepare mends the cursor ahead of the first request: the cursor is begun if there is none, and
// filled if it is short. If a take is under way, the take does that, and mending must not overlap
// with it.
func (s *shared) prepare() {
	s.happens(func(now time.Time) {
		if !s.taking {
			s.machine.Prepare(now)
		}
	})
}

func (s *shared) stop() (first bool) {
	s.happens(func(now time.Time) {
		if first = s.machine.Mode() != cursor.Closing; first {
			s.machine.Stop(now)
			s.cancel()
		}
	})
	return first
}

// close implements [source]. It waits for takes and commands.
func (s *shared) close(ctx context.Context) error {
	_ = ended(ctx, &s.work)
	var rest []persist.Range
	if local := s.local.Load(); local != nil {
		rest = local.close(ctx, errStopping)
	}
	s.mu.Lock()
	rest = append(rest, s.machine.Finish()...)
	s.mu.Unlock()
	return errors.Join(s.giveBack(ctx, rest), s.retireBehind(ctx))
}
