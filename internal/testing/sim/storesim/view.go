package storesim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// State is what the way to the database carries: of all nodes ([Cluster.Set]) or of one ([View.Set]).
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
func (v *View) Kill() { v.kill() }

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

// ask draws the fate of an operation.
func (v *View) ask(call Call, do operation) (*question, error) {
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

// Client is how a node uses the database.
type Client struct {
	// Timeout bounds every operation; 0 is 5 s.
	Timeout time.Duration
	// Unreached opens the store without using the database.
	Unreached bool
	// Admit, unless nil, is called before every operation; see [sqlstore.Options].
	Admit func(context.Context) error
}

const timeout = 5 * time.Second

// Open opens the store, a [persist.Fenced] unless the database is Unfenced. It returns an error that
// wraps persist.ErrUnavailable if the database cannot be reached.
func (v *View) Open(ctx context.Context, client Client) (persist.Store, error) {
	if client.Timeout == 0 {
		client.Timeout = timeout
	}
	s := &store{view: v, client: client}
	s.counters = counters{s, persist.NewEpochs(s.findEpochs)}
	if !client.Unreached {
		if _, err := s.Now(ctx); err != nil {
			return nil, err
		}
	}
	if v.c.opts.Mode == Unfenced {
		return s, nil
	}
	return &fenced{s}, nil
}

// run does an operation of a store.
func (s *store) run(ctx context.Context, call Call, do operation) (any, error) {
	v := s.view
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.under.Done()
	if s.client.Admit != nil {
		if err := s.client.Admit(ctx); err != nil {
			return nil, err
		}
	}
	awake := func() bool { return !v.paused }
	if err := v.await(v.ctx, awake); err != nil {
		return nil, err
	}
	q, err := v.ask(call, do)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.client.Timeout)
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	got, err := v.exchange(bounded, q)
	if dead := v.await(v.ctx, awake); dead != nil {
		return nil, dead
	}
	return got, err
}

// begin admits an operation unless the store is closed or the node dead.
func (s *store) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.view.ctx.Err() != nil {
		return persist.ErrClosed
	}
	s.under.Add(1)
	return nil
}

// gate counts the operations under way until a store is closed.
type gate struct {
	mu     sync.Mutex // guards closed
	closed bool
	under  sync.WaitGroup
}

// Close ends all use of the store, and waits for what is under way. The database stays.
func (g *gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.under.Wait()
	return nil
}
