package storesim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
)

// State is what the way to the database carries: of all nodes ([Cluster.Set]) or of one ([View.Set]). It
// lasts until somebody changes it. Planned faults and scripts set it.
type State int

const (
	// Up carries everything.
	Up State = iota
	// Away refuses operations at once. What is under way does not arrive, and no answer does.
	Away
	// Hung carries nothing until the state changes.
	Hung
	// Mute carries questions, and no answer until the state changes.
	Mute
)

// Call is an operation.
type Call struct {
	// Op is what it does, such as "allocate", and ID the counter or the kind and key of the
	// document that it is about, if it is one.
	Op, ID string
	// Write is true if it changes something.
	Write bool
}

// Fate is what happens to an operation. The zero Fate is that nothing goes wrong and it takes no time.
type Fate struct {
	// Send and Reply are how long the way to the database and the way back take.
	Send, Reply time.Duration
	// End is how it ends.
	End End
	// Left is true if the operation is applied although its caller leaves or is killed while it is on
	// its way.
	Left bool
}

// End is how an operation ends.
type End int

const (
	// Answered is with the answer of the database.
	Answered End = iota
	// Unsent is an error at once.
	Unsent
	// QuestionLost is an error after Send and Reply. Nothing was applied.
	QuestionLost
	// ReplyLost is the same, and the operation was applied.
	ReplyLost
)

// View is one life of a node, as the database sees it. It is safe for concurrent use.
type View struct {
	c    *Cluster
	draw func(Call) Fate
	ctx  context.Context // ends when the node is killed
	kill context.CancelFunc

	state  State // guarded by the cluster's mu, as is paused
	paused bool
}

// View returns what a node sees during one life. draw decides about each of its operations. It is
// called for one at a time, and must not use the cluster. If it is nil, nothing goes wrong.
func (c *Cluster) View(draw func(Call) Fate) *View {
	if draw == nil {
		draw = func(Call) Fate { return Fate{} }
	}
	v := &View{c: c, draw: draw}
	v.ctx, v.kill = context.WithCancel(c.ctx)
	return v
}

// Set sets the state of the way between this node and the database.
func (v *View) Set(s State) { v.change(func() { v.state = s }) }

// Pause stops the node, as SIGSTOP does: it sends nothing and receives nothing until Resume.
func (v *View) Pause() { v.change(func() { v.paused = true }) }

// Resume ends Pause.
func (v *View) Resume() { v.change(func() { v.paused = false }) }

// Kill ends the node: its operations return persist.ErrClosed. Those that are under way are applied if
// their Fate says that they have left.
func (v *View) Kill() { v.change(v.kill) }

func (v *View) change(f func()) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	f()
	v.c.wake()
}

// is reports whether the way is in a state; mu is held.
func (v *View) is(s State) bool { return v.state == s || v.c.state == s }

// await waits until a condition holds, which is looked at with mu held.
func (v *View) await(ctx context.Context, holds func() bool) error {
	for {
		v.c.mu.Lock()
		ok, changed := holds(), v.c.changed
		v.c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return v.whyEnded(ctx)
		}
	}
}

// travel waits until a time and until the way is open.
func (v *View) travel(ctx context.Context, until time.Time, open func() bool) error {
	if d := time.Until(until); d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return v.whyEnded(ctx)
		}
	}
	if ctx.Err() != nil {
		return v.whyEnded(ctx)
	}
	return v.await(ctx, open)
}

var (
	errAway  = fmt.Errorf("%w: connection refused", persist.ErrUnavailable)
	errReset = fmt.Errorf("%w: connection reset", persist.ErrUnavailable)
)

// whyEnded returns the error of an operation whose context has ended.
func (v *View) whyEnded(ctx context.Context) error {
	switch {
	case v.ctx.Err() != nil:
		return persist.ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, context.DeadlineExceeded)
	}
	return ctx.Err()
}

// question is an operation under way.
type question struct {
	call     Call
	fate     Fate
	do       operation
	arrives  time.Time
	promoted int // the cluster's, when it was sent
}

// send draws the fate of an operation.
func (v *View) send(call Call, do operation) (*question, error) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	q := &question{call: call, do: do, fate: v.draw(call), promoted: v.c.promoted}
	if q.fate.End == Unsent || v.is(Away) {
		return nil, errAway
	}
	q.arrives = time.Now().Add(q.fate.Send)
	return q, nil
}

// exchange sends a question and returns the answer.
func (v *View) exchange(ctx context.Context, q *question) (any, error) {
	if err := v.travel(ctx, q.arrives, v.hears); err != nil {
		if q.fate.Left && q.fate.End != QuestionLost {
			go v.deliver(q)
		}
		return nil, err
	}
	got, said, err := v.arrive(q)
	if err != nil {
		return nil, err
	}
	if err := v.travel(ctx, time.Now().Add(q.fate.Reply), v.answers); err != nil {
		return nil, err
	}
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	if q.fate.End == Answered && !v.is(Away) {
		return got, said
	}
	return nil, errReset
}

// hears reports whether questions arrive; answers whether answers do. mu is held.
func (v *View) hears() bool   { return !v.is(Hung) }
func (v *View) answers() bool { return !v.is(Hung) && !v.is(Mute) }

// deliver brings a question whose caller has left.
func (v *View) deliver(q *question) {
	if v.travel(v.c.ctx, q.arrives, v.hears) == nil {
		_, _, _ = v.arrive(q)
	}
}

// arrive applies an operation, and returns its result, or why it did not arrive.
func (v *View) arrive(q *question) (got any, said, err error) {
	v.c.mu.Lock()
	defer v.c.mu.Unlock()
	switch {
	case v.ctx.Err() != nil && !q.fate.Left:
		return nil, nil, persist.ErrClosed
	case v.is(Away) || q.promoted != v.c.promoted:
		return nil, nil, errReset
	case q.fate.End == QuestionLost:
		return nil, nil, nil
	}
	got, said = v.c.apply(q.call, q.do)
	return got, said, nil
}
