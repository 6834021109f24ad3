package gapless

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/bounded"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// counter is one counter on this node. A caller submits an operation; the machine says what to read
// and write. One write at a time is under way, and the operations that arrive meanwhile share the
// next one. It is safe for concurrent use.
type counter struct {
	*Strategy
	name counters.Name
	key  string // of the document
	ends int64  // of the period, in ms since the Unix epoch, 0 for never

	writer string        // identifies the machine
	turn   chan struct{} // one value while nobody takes a place

	mu      lockorder.Outer // guards what follows
	machine *ledger.Machine
	// creators are the callers who may create the ledger, and placed is whether it has a place that
	// may have to be given back.
	creators int
	place    counters.Place // if placed
	placed   bool
	policy   ledger.Policy
	timer    *time.Timer // calls the machine again
	running  int         // commands under way
	// gathering is how many commands ended just now: then callers only join what they will step for
	gathering int
	arrived   int // callers so far
	closing   bool
	stopped   bool          // nobody waits for the end of what is under way any more
	idle      chan struct{} // closed when the machine is idle; nil before closing is set
	told      ledger.Stats  // what the totals contain
	looked    time.Time     // when told was last known to be true
	looking   bool          // whether told is being read again, or waits for that
}

// waiter is a caller.
type waiter struct {
	ledger.Request
	done chan struct{} // closed when the request is finished
}

// commandTimeout bounds a command. A store bounds the time of its operations itself.
const commandTimeout = 10 * time.Second

// counter returns a counter that has not been read.
func (s *Strategy) counter(name counters.Name) *counter {
	c := &counter{Strategy: s, name: name, key: name.Counter(s.BizType.Name), ends: s.Calendar.Ends(name.Period), writer: newID(), turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	c.policy = s.policyOf(c.ends)
	c.machine = ledger.New(ledger.Config{
		Counter: c.key, Writer: c.writer, Without: sabotage.OfMachine(ledger.ParseRules),
	}, c.policy)
	c.timer = time.AfterFunc(commandTimeout, c.tick)
	c.timer.Stop()
	c.machine.Inherit(s.Memory.Of(name))
	return c
}

// OpenCounter implements [counters.Kind]. It reads the ledger, and creates none.
func (s *Strategy) OpenCounter(ctx context.Context, name counters.Name, _ string) (*counter, error) {
	c := s.counter(name)
	// any operation reads the document first, and this one changes nothing
	_, err := c.do(ctx, ledger.Op{Kind: ledger.Find, ID: newID()})
	if c.machineKnows() {
		return c, nil
	}
	_ = c.close(ctx)
	return nil, err
}

// machineKnows reports whether the document was read, or refusals come from what was read.
func (c *counter) machineKnows() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Stats().Known || c.machine.Refusal() != nil
}

// CloseCounter implements [counters.Kind]. It waits for the writes under way. There is nothing to
// give back, except a place: if a write may still create the ledger, nobody knows whose the place
// is, and the keys are counted.
func (s *Strategy) CloseCounter(ctx context.Context, name counters.Name, c *counter) error {
	err := c.close(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.placed { // a write is under way
		c.Places(name.Period).Doubt()
	}
	c.tally(ledger.Stats{})
	return err
}

// Knows implements [counters.Kind]: a store that has less than was seen of a counter was restored.
func (s *Strategy) Knows(_ counters.Name, c *counter) ledger.Seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Seen()
}

// policyOf returns what the definition says about a counter whose period ends at ends.
func (s *Strategy) policyOf(ends int64) ledger.Policy {
	set := s.settings
	return ledger.Policy{
		Start: set.Start, TTL: set.ReservationTTL.Milliseconds(), Keep: s.Env.AnswerTTL.Milliseconds(),
		MaxReserved: int64(set.MaxReserved), MaxReservedPerCaller: int64(set.MaxReservedPerCaller), Void: set.OnRelease == Void,
		Told: s.BizType.Events, Ends: ends,
	}
}

// do carries out an operation, and returns when it is durable, or when ctx or the patience of a
// request ends. What was sent for it is undone then, unless a repeated request gets it.
func (c *counter) do(ctx context.Context, op ledger.Op) (ledger.Result, error) {
	w := &waiter{done: make(chan struct{})}
	w.Op, w.Tag = op, w
	if err := c.submit(w); err != nil {
		return ledger.Result{}, err
	}
	select {
	case <-w.done:
		return w.Result, w.Err
	default:
	}
	var late <-chan time.Time
	if op.Kind != ledger.Return { // no caller waits for that, and nobody repeats it
		late = time.After(c.settings.AcquireTimeout)
	}
	select {
	case <-w.done:
		return w.Result, w.Err
	case <-late:
		return c.abandon(w, nil)
	case <-ctx.Done():
		return c.abandon(w, seqd.AsError(ctx.Err()))
	}
}

// submit passes an operation to the machine, also if that refuses everything now: it looks at the
// document again when there is a request, some time later.
func (c *counter) submit(w *waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return counters.ErrStopping
	}
	c.machine.Submit(&w.Request)
	if c.arrived++; c.gathering == 0 {
		c.step()
	}
	return nil
}

// abandon ends the wait of a caller. why is nil if its patience ended. Numbers that come back do so
// when the store is there again: nobody else would bring them.
func (c *counter) abandon(w *waiter, why *seqd.Error) (ledger.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-w.done:
		return w.Result, w.Err
	default:
	}
	if w.Op.Kind != ledger.Return {
		c.machine.Abandon(&w.Request)
	}
	if why == nil {
		why = c.machine.Late()
	}
	return ledger.Result{}, why
}

// step does what the machine wants. mu is held.
func (c *counter) step() {
	now, clock := time.Now(), c.times()
	timed(&c.policy, clock, c.Env.Attendance)
	c.machine.SetPolicy(c.policy)
	list, wake := c.machine.Next(now, clock.Store)
	for _, command := range list {
		c.running++
		go c.run(command)
	}
	c.finish()
	c.vacate()
	if c.timer.Stop(); !wake.IsZero() && !c.stopped {
		c.timer.Reset(wake.Sub(now))
	}
	if c.idle != nil && c.running == 0 && c.machine.Idle() {
		close(c.idle)
		c.idle = nil
	}
}

// tick does what the machine wants now.
func (c *counter) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.step()
}

// finish lets callers go whose requests are finished, and tells of reservations that expired. mu is
// held.
func (c *counter) finish() {
	for _, r := range c.machine.Finished() {
		c.count(r)
		close(r.Tag.(*waiter).done)
	}
	for _, e := range c.machine.Expired() {
		c.cameBack(e.Caller)
		c.tell(e)
	}
	c.tally(c.machine.Stats())
}

// recordBytes is about how many bytes a record takes besides what the quota adds to each: 1,200 in
// all (docs/IDEMPOTENCY.md). recordLife is how long the record of a reservation, or of numbers that
// became void, counts. Void numbers are kept for ever, so this bounds how many a caller adds in a
// day.
const (
	recordBytes = 1000
	recordLife  = 24 * time.Hour
)

// count charges the owner of a finished request, also if its caller has gone, for the records that
// it leaves: its answer, the one that the end of its reservation will leave, and its void numbers.
// mu is held.
func (c *counter) count(r *ledger.Request) {
	if c.Env.Quota == nil || r.Err != nil || r.Result.Replayed {
		return
	}
	handsOut := r.Op.Kind <= ledger.Reserve && len(r.Result.Runs) > 0
	if handsOut && r.Op.Once != "" {
		c.Env.Quota.Kept(r.Op.Caller, recordBytes, c.Env.AnswerTTL)
	}
	if handsOut && r.Op.Kind == ledger.Reserve {
		c.Env.Quota.Kept(r.Op.Caller, recordBytes, max(recordLife, c.Env.AnswerTTL))
	}
	switch {
	case r.Op.Kind == ledger.Return, r.Undone():
		c.cameBack(r.Op.Caller)
	case r.Op.Kind == ledger.Release && r.Result.Changed:
		c.cameBack(r.Result.Caller)
	}
}

// cameBack charges the owner of numbers that came back for the record that they leave if they
// became void. mu is held.
func (c *counter) cameBack(owner string) {
	if c.Env.Quota != nil && c.policy.Void {
		c.Env.Quota.Kept(owner, recordBytes, recordLife)
	}
}

// tell tells of a reservation that expired, in a goroutine of its own: mu is held, and those who
// are told may call back.
func (c *counter) tell(e *ledger.Entry) {
	x := seqd.Expiry{
		Reservation: seqd.Reservation{
			ID: fullID(e.ID, c.name), Key: c.name.Key, State: seqd.Expired, ExpiresAt: time.UnixMilli(e.Made + e.TTL),
		},
		Count: int(ledger.Count(e.Runs)), Caller: seqd.OwnerName(e.Caller),
	}
	go func() {
		c.Env.Observer.Event(seqd.Event{BizType: c.BizType.Name, Kind: seqd.EventReservationExpired, Numbers: int64(x.Count)})
		// those who are told of rejections are told: a caller that crashes often must not fill the log
		c.Env.Log.Debug("a reservation expired", "bizType", c.BizType.Name, "counter", c.key, "reservation", x.ID, "numbers", x.Count, "caller", x.Caller)
		if c.expired != nil {
			c.expired(x)
		}
	}()
}

// run executes a command.
func (c *counter) run(command ledger.Command) {
	out := c.execute(&command)
	c.done(&command, out)
	// Let the callers that are ready to run join the next write. An idle system has none, so it
	// loses no time.
	for before := -1; ; {
		runtime.Gosched()
		c.mu.Lock()
		if c.arrived == before {
			break
		}
		before = c.arrived
		c.mu.Unlock()
	}
	defer c.mu.Unlock()
	c.gathering--
	c.step()
}

// done passes what became of a command to the machine, and lets callers go.
func (c *counter) done(command *ledger.Command, out outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.gathering++
	c.policy.Floor = max(c.policy.Floor, out.Floor)
	c.machine.SetPolicy(c.policy)
	c.machine.Done(time.Now(), c.now(), command, out.Outcome)
	c.finish()
}

// outcome is that of a command, with what only a counter without a document needs.
type outcome struct {
	ledger.Outcome
	// Floor is the highest number that another strategy has issued under the name of the counter, 0
	// if that was not asked for: only a ledger that begins needs it.
	Floor int64
}

// execute does what a command asks for. It survives a driver that panics: callers wait for it.
func (c *counter) execute(command *ledger.Command) (out outcome) {
	defer bounded.Recover("the store's driver", &out.Err)
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	out.Outcome = c.documents.execute(ctx, command)
	begins := errors.Is(out.Err, persist.ErrNotFound) || out.Err == nil && out.Doc.Revision == 1
	if command.Action == ledger.Read && begins {
		floor, err := c.floor(ctx, c.key)
		switch {
		case err == nil:
			out.Floor = floor
		case out.Err == nil && errors.Is(err, persist.ErrFailedOver): // the fence of the ledger says whether it was raised since
		default:
			out.Err = err
		}
	}
	c.Note(out.Err)
	return out
}

// close ends the use of a counter: it waits until what is under way has ended, or ctx ends. It is
// called once.
func (c *counter) close(ctx context.Context) error {
	c.mu.Lock()
	idle := make(chan struct{})
	c.closing, c.idle = true, idle
	c.step()
	c.mu.Unlock()
	defer c.stop()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: writes under way have not ended: %w", c.key, ctx.Err())
	}
}

// stop ends what a counter that is closed does by itself. Its strategy may have been refused for
// good what it still had to do.
func (c *counter) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}
