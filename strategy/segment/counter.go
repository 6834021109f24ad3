package segment

import (
	"context"
	"sync/atomic"

	"github.com/seqd/seqd"
)

// Counter issues the numbers of one counter. A [source] gives them in ordinals, and Counter
// converts these to numbers for callers, metrics and knowledge (ordinals.go). It is safe for
// concurrent use.
//
// A Counter can be closed while nobody uses it and made anew later, as at a clean stop and a start:
// Close gives back what is left, and what the process knows beyond the store is learnt
// (knowledge.go).
type Counter struct {
	ranges
	// cursor is the counter's cursor in Redis, whether it counts or not; nil if there can be none.
	cursor sharedCursor
	// moves lets the counter change its source; nil if it keeps the first one.
	moves   *moves
	near    *local // the source if that is local, so that callers take from its buffer directly
	present atomic.Pointer[source]
}

// source gives the ordinals of one counter: from a buffer in the memory of the node ([local]), a
// cursor in Redis ([shared]) or the store ([stored]).
type source interface {
	// open makes sure that the counter exists, and creates it if fresh says that it may be new.
	open(ctx context.Context, fresh bool) error
	// openKey is open for the counter of a key. If fresh is false, this process knows that the
	// counter exists.
	openKey(ctx context.Context, fresh bool) error
	// some adds n ordinals to seq. After an error, those that it added belong to the caller. n may be
	// more than seqd.MaxCount.
	some(ctx context.Context, n int, seq *seqd.Sequence) error
	// prepare fetches numbers before the first request.
	prepare()
	// health returns why the next request would be refused, degraded why the node issues, but not as
	// it should.
	health() error
	degraded() *seqd.Error
	// idle reports whether a source that is made later would go on where this one stopped.
	idle() bool
	measure() values
	// knows returns what is known of the counter, except of ranges that were handed out. It may be
	// called at any time.
	knows() known
	// inherit takes over what another source knew. It is called before callers come.
	inherit(k known)
	// stop refuses callers, or leaves that to close. It returns false if that was done before. close
	// comes after it, returns numbers to the store, and waits for what is under way until ctx ends.
	stop() (first bool)
	close(ctx context.Context) error
	// sequencer returns who keeps the order over nodes, "" if nobody does.
	sequencer() string
}

var (
	_ seqd.Strategy             = (*Counter)(nil)
	_ seqd.PartialGenerator     = (*Counter)(nil)
	_ seqd.ConsecutiveGenerator = (*Counter)(nil)
	_ seqd.Ranger               = (*Counter)(nil)
	_ seqd.CountLimiter         = (*Counter)(nil)
	_ seqd.Reporter             = (*Counter)(nil)
	_ seqd.Measurer             = (*Counter)(nil)
	_ seqd.Idler                = (*Counter)(nil)
	_ seqd.Learner              = (*Counter)(nil)
)

// source returns what gives numbers now.
func (c *Counter) source() source { return *c.present.Load() }

// become makes a source the one that gives numbers.
func (c *Counter) become(s source) {
	over, _ := s.(*shared)
	c.redisSource.Store(over)
	c.present.Store(&s)
}

// Init makes sure that the counter exists, and learns who sequences it. It allocates nothing for a
// biz type that is not keyed, so an unused one costs no numbers.
func (c *Counter) Init(ctx context.Context, fresh bool) error {
	open := source.open
	if c.keyed() {
		open = source.openKey
	}
	if err := open(c.source(), ctx, fresh); err != nil {
		return err
	}
	if s, ok := c.source().(*shared); ok && c.moves != nil && s.yields() {
		// It has issued nothing, so there is nothing to close.
		next := c.successor(s)
		next.inherit(s.knows())
		if err := next.open(ctx, false); err != nil {
			return err
		}
		c.become(next)
	}
	return nil
}

// Generate adds n numbers to seq, in as few ascending runs as the ranges allow.
func (c *Counter) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if l := c.near; l != nil {
		if l.ordinals.all() {
			return l.buffer.take(ctx, n, seq)
		}
		before := len(seq.Runs())
		err := l.buffer.take(ctx, n, seq)
		l.ordinals.show(seq.Runs()[before:])
		return err
	}
	if err := checkCount(n); err != nil {
		return err
	}
	before := seq.Len()
	err := c.some(ctx, n, seq)
	if err != nil {
		c.skipped(int64(seq.Len()-before), err)
	}
	return err
}

// GenerateSome implements [seqd.PartialGenerator].
func (c *Counter) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, c)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (c *Counter) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, c)
}

// GenerateRange implements [seqd.Ranger]. If the store sequences the counter, the epoch stays, and
// its next take begins above the range.
func (c *Counter) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	before := len(seq.Runs())
	err := c.handOut(ctx, n, c.source().measure().highest, seq)
	c.settings.ordinals().show(seq.Runs()[before:])
	return err
}

// some implements [takesSome].
func (c *Counter) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	before, goal := len(seq.Runs()), seq.Len()+n
	from := c.source()
	err := from.some(ctx, n, seq)
	if c.moves != nil && isMoved(err) {
		err = c.someOn(ctx, goal, seq, from, err)
	}
	c.settings.ordinals().show(seq.Runs()[before:])
	return err
}

// Health returns why the next request would be refused.
func (c *Counter) Health() error { return c.source().health() }

// Degraded returns why the node issues, but not as it should.
func (c *Counter) Degraded() *seqd.Error { return c.source().degraded() }

// Idle implements [seqd.Idler].
func (c *Counter) Idle() bool { return c.source().idle() }

// Measure implements [seqd.Measurer]: what this node has in hand, not what other nodes have.
func (c *Counter) Measure(tell func(seqd.Measurement)) { c.tell(c.source().measure(), tell) }

// Details implements [seqd.Reporter].
func (c *Counter) Details() map[string]any {
	if c.source().sequencer() != SequencerStore {
		return nil
	}
	return map[string]any{"sequencer": SequencerStore}
}

// prepare fetches numbers before the first request.
func (c *Counter) prepare() { c.source().prepare() }

// forget removes what is kept outside the store after the end of the period.
func (c *Counter) forget(ctx context.Context) error {
	if c.cursor == nil {
		return nil
	}
	return c.cursor.Drop(ctx)
}

// Close ends issuing and returns the numbers that nobody got to the store, so that the next process
// continues where this one stopped. Only the first call does anything.
func (c *Counter) Close(ctx context.Context) error {
	if c.moves != nil {
		c.moves.close(ctx)
	}
	s := c.source()
	first := s.stop()
	c.endHandOuts(ctx)
	if !first {
		return nil
	}
	return s.close(ctx)
}
