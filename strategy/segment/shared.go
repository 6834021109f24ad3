package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// sharedCursor is what the nodes of a cluster share: [rediscursor.Cursor].
type sharedCursor interface {
	Take(context.Context, rediscursor.Take) (rediscursor.Taken, error)
	Install(context.Context, rediscursor.Install) (rediscursor.Answer, error)
}

// Shared issues the numbers of one biz type from a cursor that all nodes of the cluster share:
// strictly increasing over all of them. It is safe for concurrent use.
//
// It is a shell around a machine of package cursor, which decides what to do and has the modes
// online, mending, alone and closing. Shared holds the lock around the machine, lets callers share
// takes (sharing.go) and executes the machine's commands (drive.go). It keeps no state of the
// protocol.
type Shared struct {
	ranges
	cursor sharedCursor
	// turn follows the store when that has taken over; nil if this node never does.
	turn *turn
	// local is the node's own double buffer while it issues on its own, else nil.
	local atomic.Pointer[buffer]
	sharing

	// What follows is guarded by mu.
	machine *cursor.Machine
	resumed chan struct{} // closed when the take may be sent that waits; nil while none does
	timer   *time.Timer   // calls tick at due; nil while the machine waits for no time
	due     time.Time
	// stopping is closed by Close; nil until something runs that Close cancels.
	stopping chan struct{}
}

var (
	_ seqd.Strategy         = (*Shared)(nil)
	_ seqd.HealthReporter   = (*Shared)(nil)
	_ seqd.DegradedReporter = (*Shared)(nil)
)

// NewShared returns the strategy of one biz type over a cursor. The biz type's Settings must be of
// type *Settings with increment 1. It does no I/O.
func NewShared(env strategy.Env, bizType seqd.BizType, from sharedCursor) (*Shared, error) {
	o, err := unspaced(env, bizType)
	if err != nil {
		return nil, err
	}
	return shared(o, from, nil), nil
}

// shared returns the strategy of one counter over a cursor. t may be nil.
func shared(o origin, from sharedCursor, t *turn) *Shared {
	settings := o.settings
	s := &Shared{
		ranges: ranges{origin: o},
		cursor: from,
		turn:   t,
		machine: cursor.New(cursor.Config{
			Start: settings.Start, Threshold: settings.Threshold, Reserve: settings.ReserveSegments,
			Degrade: settings.OnRedisDown == Degrade, NoStandby: o.keyed() != nil, TakeOver: settings.Sequencer == SequencerRedis, Step: settings.Step, MaxStep: settings.MaxStep,
			Patience: settings.AcquireTimeout, Without: sabotaged(),
		}),
	}
	s.ranges.shared, s.taker = s, s
	return s
}

// Init makes sure that the counter exists, and learns which cursor counts.
func (s *Shared) Init(ctx context.Context, fresh bool) error {
	asked := time.Now()
	counter, known, err := s.begin(ctx, fresh)
	if known {
		s.mu.Lock()
		s.machine.Began(time.Now(), asked, counter.Epoch)
		s.mu.Unlock()
	}
	return err
}

// GenerateRange implements [seqd.Ranger].
func (s *Shared) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	return s.handOut(ctx, n, s.measure().highest, seq)
}

// some implements [takesSome]. Online it takes from the cursor, alone from the local buffer, and
// mending it waits.
func (s *Shared) some(ctx context.Context, n int, seq *seqd.Sequence) error {
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
func (s *Shared) admit(n int64) (wake <-chan struct{}, err error, ok bool) {
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
func (s *Shared) gone(n int64, late bool) error {
	s.machine.Gone(n)
	if late {
		return s.machine.Late()
	}
	return nil
}

// Health returns why the next request would be refused.
func (s *Shared) Health() error {
	if local := s.local.Load(); local != nil {
		return local.health()
	}
	if err := s.ask((*cursor.Machine).Health); err != nil {
		return err
	}
	return nil
}

// Degraded returns why the node issues, but not as it should.
func (s *Shared) Degraded() *seqd.Error {
	if reason := s.ask((*cursor.Machine).Degraded); reason != nil {
		return reason
	}
	return s.storeAway()
}

// ask calls how, which is Health or Degraded, on the machine.
func (s *Shared) ask(how func(*cursor.Machine, time.Time, cursor.RedisAway) *seqd.Error) (answer *seqd.Error) {
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
func (s *Shared) prepare() {
	s.happens(func(now time.Time) {
		if !s.taking {
			s.machine.Prepare(now)
		}
	})
}

// forget removes the cursor.
func (s *Shared) forget(ctx context.Context) error {
	if c, ok := s.cursor.(interface{ Drop(context.Context) error }); ok {
		return c.Drop(ctx)
	}
	return nil
}

// Close ends issuing and gives back the numbers that only this node had. It waits for takes and
// commands under way until ctx ends. Only the first call does anything.
func (s *Shared) Close(ctx context.Context) error {
	closed := false
	s.happens(func(now time.Time) {
		if closed = s.machine.Mode() == cursor.Closing; !closed {
			s.machine.Stop(now)
			if s.stopping != nil {
				close(s.stopping)
			}
		}
	})
	if closed {
		return nil
	}
	s.endHandOuts(ctx)
	ended := make(chan struct{})
	go func() { s.work.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	var rest []persist.Range
	if local := s.local.Load(); local != nil {
		rest = local.close(ctx, errStopping)
	}
	s.mu.Lock()
	rest = append(rest, s.machine.Finish()...)
	s.mu.Unlock()
	return errors.Join(s.giveBack(ctx, rest), s.retireBehind(ctx))
}
