package segment

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// sequenced makes the strategy of a strict counter in a store that nodes share. The setting
// sequencer, and whether the node has Redis, decide which one.
func sequenced(env strategy.Env, o origin) (counting, error) {
	sequencer := o.settings.Sequencer
	if env.Redis == nil {
		if sequencer == SequencerRedis {
			return nil, fmt.Errorf("biz type %s: segment.sequencer is redis, and redis.addrs is empty", o.name)
		}
		return stored(o, nil, nil), nil
	}
	opened := rediscursor.Open(rediscursor.Options{Client: env.Redis, Batch: env.RedisBatch, Prefix: env.RedisPrefix, Cluster: env.Cluster}, o.name)
	from := o.cursor(opened)
	switch sequencer {
	case SequencerStore:
		return stored(o, from.Drop, nil), nil
	case SequencerRedis:
		return shared(o, from, nil), nil
	}
	return newFollowing(o, from), nil
}

// droppable is a cursor that can be removed.
type droppable interface {
	sharedCursor
	Drop(context.Context) error
}

// Following is the strategy of a counter whose sequencer is `auto`, on a node that has Redis. The
// counter's sequencer epoch says where it takes numbers: from the store ([Stored]) or from a cursor
// in Redis ([Shared]). If the epoch changes, Following moves to the other one. It is safe for
// concurrent use.
//
// A move opens the other strategy, closes the present one, and hands over what it knows. So the
// numbers of this node keep increasing.
type Following struct {
	from    droppable
	present atomic.Pointer[turn]

	mu     lockorder.Outer // guards what follows
	closed bool
	moves  *moves // nil before the first
}

// moves is the state of a strategy that has followed another sequencer.
type moves struct {
	running context.Context // until Close
	end     context.CancelFunc
	over    chan struct{} // closed when the move under way ends; nil while there is none
}

// follower is Shared or Stored.
type follower interface {
	counting
	counter() *origin
}

// turn is a strategy that issues for a Following, or will.
type turn struct {
	follower
	of *Following
}

// follow begins the move to the other sequencer. The caller holds no lock, because follow locks
// Following.mu, which is an outer lock.
func (t *turn) follow() { t.of.move(t) }

// sequencer says who sequences the counter in this turn.
func (t *turn) sequencer() string {
	if _, ok := t.follower.(*Stored); ok {
		return SequencerStore
	}
	return SequencerRedis
}

var (
	_ counting              = (*Following)(nil)
	_ seqd.HealthReporter   = (*Following)(nil)
	_ seqd.DegradedReporter = (*Following)(nil)
	_ seqd.DetailReporter   = (*Following)(nil)
	_ seqd.Measurer         = (*Following)(nil)
	_ seqd.Learner          = (*Following)(nil)
)

// newFollowing returns the strategy of one counter. It does no I/O.
func newFollowing(o origin, from droppable) *Following {
	f := &Following{from: from}
	first := &turn{of: f}
	first.follower = shared(o, from, first)
	f.present.Store(first)
	return f
}

// successor makes the strategy over the other sequencer. That strategy has issued nothing and knows
// nothing yet.
func (f *Following) successor(t *turn) *turn {
	next, o := &turn{of: f}, *t.counter()
	if t.sequencer() == SequencerRedis {
		next.follower = stored(o, f.from.Drop, next)
	} else {
		next.follower = shared(o, f.from, next)
	}
	return next
}

// Init makes sure that the counter exists, and learns who sequences it.
func (f *Following) Init(ctx context.Context, fresh bool) error {
	t := f.present.Load()
	if err := t.Init(ctx, fresh); err != nil {
		return err
	}
	if s, ok := t.follower.(*Shared); !ok || !s.yields() {
		return nil
	}
	// It has issued nothing, so there is nothing to close.
	next := f.successor(t)
	next.inherit(t.knows())
	if err := next.Init(ctx, false); err != nil {
		return err
	}
	f.present.Store(next)
	return nil
}

// yields reports whether the store sequences the counter.
func (s *Shared) yields() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Yields()
}

// Generate adds n numbers to seq.
func (f *Following) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateAll(ctx, n, seq, f)
}

// GenerateSome implements [seqd.PartialGenerator].
func (f *Following) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, f)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (f *Following) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, f)
}

// GenerateRange implements [seqd.Ranger].
func (f *Following) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	return f.ask(ctx, func(t follower, ctx context.Context, n int, seq *seqd.Sequence) error {
		return t.GenerateRange(ctx, int64(n), seq)
	}, int(n), seq)
}

// some implements [takesSome].
func (f *Following) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return f.ask(ctx, follower.some, n, seq)
}

// MostInCall implements [seqd.CountLimiter].
func (f *Following) MostInCall() (most int, why string) { return f.present.Load().MostInCall() }

// skipped implements [takesSome].
func (f *Following) skipped(n int64, why error) { f.present.Load().skipped(n, why) }

// ask gets numbers from the strategy that issues now. A caller who comes while the sequencer changes
// waits for that, and gets from the next strategy what it lacks.
func (f *Following) ask(ctx context.Context, get func(follower, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	before := seq.Len()
	var late *time.Timer
	for {
		t := f.present.Load()
		err := get(t.follower, ctx, n-(seq.Len()-before), seq)
		if err == nil || !isMoved(err) {
			return err
		}
		over := f.move(t)
		if over == nil { // it is closed
			return err
		}
		if late == nil {
			late = time.NewTimer(t.counter().settings.AcquireTimeout)
			defer late.Stop()
		}
		select {
		case <-over:
		case <-late.C:
			return err
		case <-ctx.Done():
			return seqd.AsError(ctx.Err())
		}
	}
}

// isMoved reports whether a strategy refused because another one is to take its place, or has.
func isMoved(err error) bool {
	return errors.Is(err, cursor.ErrYield) || errors.Is(err, storetake.ErrChanged) || errors.Is(err, errStopping)
}

// done is a channel that is closed.
var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// move begins the move from one strategy to the one over the other sequencer, unless that move is
// under way or is done. It returns a channel that is closed when the move ends. After Close it
// returns nil.
func (f *Following) move(from *turn) (over <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil
	case f.present.Load() != from:
		return done
	case f.moves == nil:
		f.moves = &moves{}
		f.moves.running, f.moves.end = context.WithCancel(context.Background())
	}
	if f.moves.over == nil {
		f.moves.over = make(chan struct{})
		go f.moveOn(from, f.moves.running)
	}
	return f.moves.over
}

// moveOn opens the other strategy, and closes the present one. Only then the other one issues, so it
// knows all that this node has issued.
func (f *Following) moveOn(t *turn, running context.Context) {
	next, err := f.open(t, running)
	if err == nil {
		ctx, cancel := context.WithTimeout(running, fetchDeadline)
		err := t.Close(ctx)
		cancel()
		if err != nil {
			t.counter().env.Log.Info("a sequencer could not be closed cleanly", "bizType", t.counter().name, "error", err)
		}
		next.inherit(t.knows())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.present.Store(next) // also after Close, which closes it
		next.counter().env.Log.Info("the sequencer of the counter has changed; the node follows",
			"bizType", next.counter().name, "sequencer", next.sequencer())
	}
	close(f.moves.over)
	f.moves.over = nil
}

// open makes the strategy over the other sequencer ready to issue. It tries again until it can, and
// fails only after Close.
func (f *Following) open(t *turn, running context.Context) (*turn, error) {
	next := f.successor(t)
	for pause := cursor.FirstPause; ; pause = min(2*pause, cursor.LastPause) {
		ctx, cancel := context.WithTimeout(running, fetchDeadline)
		err := next.Init(ctx, false)
		cancel()
		if err == nil {
			return next, nil
		}
		select {
		case <-time.After(pause):
		case <-running.Done():
			return nil, errStopping
		}
	}
}

// Health returns why the next request would be refused.
func (f *Following) Health() error { return f.present.Load().Health() }

// Degraded returns why the node issues, but not as it should.
func (f *Following) Degraded() *seqd.Error { return f.present.Load().Degraded() }

// Measure implements [seqd.Measurer].
func (f *Following) Measure(tell func(seqd.Measurement)) {
	f.present.Load().Measure(tell)
}

// Details implements [seqd.DetailReporter].
func (f *Following) Details() map[string]any {
	if s, ok := f.present.Load().follower.(*Stored); ok {
		return s.Details()
	}
	return nil
}

// prepare implements [counting].
func (f *Following) prepare() { f.present.Load().prepare() }

// watch implements [counting].
func (f *Following) watch(alive func(context.Context) error) { f.present.Load().watch(alive) }

// forget implements [counting].
func (f *Following) forget(ctx context.Context) error { return f.from.Drop(ctx) }

// knows implements [knowing].
func (f *Following) knows() known { return f.present.Load().knows() }

func (f *Following) inherit(k known) { f.present.Load().inherit(k) }

// Learn implements [seqd.Learner].
func (f *Following) Learn(from any) { learn(f, from) }

// Knowledge implements [seqd.Learner].
func (f *Following) Knowledge() any { return f.knows().knowledge() }

// Close ends issuing. Only the first call does anything.
func (f *Following) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	var over chan struct{}
	if f.moves != nil {
		f.moves.end()
		over = f.moves.over
	}
	f.mu.Unlock()
	if over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		}
	}
	return f.present.Load().Close(ctx)
}
