package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// sequenced makes the strategy of a strict counter of a store that nodes share, by the setting
// sequencer. The counter belongs to the biz type owner.
func sequenced(env strategy.Env, bizType seqd.BizType, settings *Settings, owner string) (counting, error) {
	var from droppable
	if env.Redis != nil {
		from = cursorOf(env, bizType)
	}
	switch {
	case settings.Sequencer == SequencerStore, from == nil && settings.Sequencer == SequencerAuto:
		return stored(env, bizType, from, owner, nil)
	case from == nil:
		return nil, fmt.Errorf("biz type %s: segment.sequencer is redis, and redis.addrs is empty", bizType.Name)
	case settings.Sequencer == SequencerRedis:
		return shared(env, bizType, from, owner, nil)
	}
	return newFollowing(env, bizType, from, owner)
}

// shared makes the strategy over a cursor.
func shared(env strategy.Env, bizType seqd.BizType, from sharedCursor, owner string, follow func()) (*Shared, error) {
	s, err := NewShared(env, bizType, from)
	if err != nil {
		return nil, err
	}
	s.bizType, s.follow = owner, follow
	return s, nil
}

// stored makes the strategy over the store. from is the counter's cursor in Redis, nil without Redis.
func stored(env strategy.Env, bizType seqd.BizType, from droppable, owner string, follow func()) (*Stored, error) {
	var retire func(context.Context) error
	if from != nil {
		retire = from.Drop
	}
	s, err := NewStored(env, bizType, retire)
	if err != nil {
		return nil, err
	}
	s.bizType, s.follow = owner, follow
	return s, nil
}

func cursorOf(env strategy.Env, bizType seqd.BizType) *rediscursor.Cursor {
	return rediscursor.Open(rediscursor.Options{Client: env.Redis, Prefix: env.RedisPrefix, Cluster: env.Cluster}, bizType.Name)
}

// droppable is a cursor that can be removed.
type droppable interface {
	sharedCursor
	Drop(context.Context) error
}

// Following is the strategy of a counter whose sequencer is `auto`, on a node that has Redis. It
// issues as the counter's sequencer epoch says: from the store itself if that says so, else from a
// cursor in Redis. If the sequencer changes, it follows. It is safe for concurrent use.
type Following struct {
	env     strategy.Env
	bizType seqd.BizType
	owner   string
	from    droppable
	alive   func(context.Context) error
	present atomic.Pointer[turn] // set when it is made, and by follow

	mu      sync.Mutex // guards what follows
	moving  bool       // move runs
	closed  bool
	running context.Context // of moves; nil before the first
	end     context.CancelFunc
	work    sync.WaitGroup // moves; added to under mu and before closed
}

// follower is Shared or Stored.
type follower interface {
	counting
	seqd.Measurer
	knowing
	inheriting
}

// turn is the strategy that issues now.
type turn struct {
	follower
	sequencer string
	over      chan struct{} // closed when another one has taken its place, or is not going to
}

var (
	_ counting              = (*Following)(nil)
	_ seqd.HealthReporter   = (*Following)(nil)
	_ seqd.DegradedReporter = (*Following)(nil)
	_ seqd.Measurer         = (*Following)(nil)
	_ seqd.Testator         = (*Following)(nil)
)

// newFollowing returns the strategy of one biz type. It does no I/O.
func newFollowing(env strategy.Env, bizType seqd.BizType, from droppable, owner string) (*Following, error) {
	f := &Following{env: env, bizType: bizType, owner: owner, from: from}
	first, err := f.turn(SequencerRedis)
	if err != nil {
		return nil, err
	}
	f.present.Store(first)
	return f, nil
}

// turn makes the strategy over a sequencer.
func (f *Following) turn(sequencer string) (*turn, error) {
	t := &turn{sequencer: sequencer, over: make(chan struct{})}
	var err error
	if sequencer == SequencerStore {
		t.follower, err = stored(f.env, f.bizType, f.from, f.owner, f.follow)
	} else {
		t.follower, err = shared(f.env, f.bizType, f.from, f.owner, f.follow)
	}
	if err != nil {
		return nil, err
	}
	t.watch(f.alive)
	return t, nil
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
	next, err := f.turn(SequencerStore)
	if err != nil {
		return err
	}
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

// Generate adds n numbers to seq. A caller who comes while the sequencer changes waits for that.
func (f *Following) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	before := seq.Len()
	var late *time.Timer
	for {
		t := f.present.Load()
		err := t.Generate(ctx, n, seq)
		if err == nil || seq.Len() > before || !isMoved(err) {
			return err
		}
		if late == nil {
			late = time.NewTimer(f.bizType.Settings.(*Settings).AcquireTimeout)
			defer late.Stop()
		}
		select {
		case <-t.over:
			if f.present.Load() == t { // it is closed, and nothing takes its place
				return err
			}
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

// follow begins to move to the other sequencer, unless that is under way.
func (f *Following) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.moving || f.closed {
		return
	}
	if f.running == nil {
		f.running, f.end = context.WithCancel(context.Background())
	}
	f.moving = true
	f.work.Go(f.move)
}

// move opens the other strategy, tries again until it can, and closes the present one. The other one
// issues after that, so it knows all that this node has issued.
func (f *Following) move() {
	t := f.present.Load()
	defer close(t.over)
	next, err := f.open(other(t.sequencer))
	if err == nil {
		f.close(t)
		next.inherit(t.knows())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moving = false
	if err == nil && !f.closed {
		f.present.Store(next)
		f.env.Log.Info("the sequencer of the counter has changed; the node follows", "bizType", f.bizType.Name, "sequencer", next.sequencer)
	}
}

func other(sequencer string) string {
	if sequencer == SequencerStore {
		return SequencerRedis
	}
	return SequencerStore
}

// open makes the strategy over a sequencer, ready to issue. An error says that the strategy is
// closed.
func (f *Following) open(sequencer string) (*turn, error) {
	next, err := f.turn(sequencer)
	for pause := cursor.FirstPause; err == nil; pause = min(2*pause, cursor.LastPause) {
		ctx, cancel := context.WithTimeout(f.running, fetchDeadline)
		failed := next.Init(ctx, false)
		cancel()
		if failed == nil {
			break
		}
		f.pause(pause)
		err = f.running.Err()
	}
	return next, err
}

// close closes a strategy whose place another one takes.
func (f *Following) close(t *turn) {
	ctx, cancel := context.WithTimeout(f.running, fetchDeadline)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		f.env.Log.Info("a sequencer could not be closed cleanly", "bizType", f.bizType.Name, "error", err)
	}
}

// pause waits, but not after Close.
func (f *Following) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.running.Done():
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

// prepare implements [counting].
func (f *Following) prepare() { f.present.Load().prepare() }

// watch implements [counting].
func (f *Following) watch(alive func(context.Context) error) {
	f.alive = alive
	f.present.Load().watch(alive)
}

// forget implements [counting].
func (f *Following) forget(ctx context.Context) error { return f.from.Drop(ctx) }

// knows implements [knowing].
func (f *Following) knows() known { return f.present.Load().knows() }

func (f *Following) inherit(k known) { f.present.Load().inherit(k) }

// Inherit takes over what another strategy of the same counter knew.
func (f *Following) Inherit(from seqd.Strategy) { inherit(f, from) }

// Legacy implements [seqd.Testator].
func (f *Following) Legacy() seqd.Strategy { return f.knows().legacy() }

// Close ends issuing. Only the first call does anything.
func (f *Following) Close(ctx context.Context) error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	if f.end != nil {
		f.end()
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() { f.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return f.present.Load().Close(ctx)
}
