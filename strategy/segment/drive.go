package segment

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// happens passes an event on to the machine and executes the commands that follow from it.
func (s *shared) happens(event func(now time.Time)) {
	s.mu.Lock()
	now := time.Now()
	event(now)
	then := s.execute(now)
	s.mu.Unlock()
	run(then)
}

func run(then []func()) {
	for _, f := range then {
		f()
	}
}

// execute begins the machine's commands and sets the timer. It returns functions that must be
// called in order after mu is released, because an observer may call back. mu is held.
func (s *shared) execute(now time.Time) (then []func()) {
	for commands := s.machine.Commands(); commands != nil; commands = s.machine.Commands() {
		for _, c := range commands {
			if f := s.perform(now, c); f != nil {
				then = append(then, f)
			}
		}
	}
	s.setTimer(now)
	return then
}

// perform begins a command, or returns a function to call after mu is released. mu is held.
func (s *shared) perform(now time.Time, c cursor.Command) (then func()) {
	switch c := c.(type) {
	case cursor.Take:
		s.work.Go(func() { s.look(c) })
	case cursor.Install:
		s.work.Go(func() { s.install(c) })
	case cursor.Allocate:
		s.work.Go(func() { s.allocateFor(c) })
	case cursor.Question:
		stopping := s.untilStop()
		s.work.Go(func() { s.question(c, stopping) })
	case cursor.ReadStore:
		stopping := s.untilStop()
		s.work.Go(func() { s.readStore(c, stopping) })
	case cursor.OpenLocal:
		s.openLocal(c)
	case cursor.CloseLocal:
		return s.closeLocal(now)
	case cursor.Wake:
		return s.wake()
	case cursor.Resume:
		s.resume()
	case cursor.Event:
		return func() { s.report(c.Event) }
	case cursor.Log:
		return func() {
			s.env.Log.Log(context.Background(), c.Level, c.Text, append([]any{"bizType", s.name}, s.settings.ordinals().args(c.Args)...)...)
		}
	case cursor.StoreAnswers:
		return s.storeUnknown
	case cursor.Yield:
		return func() { s.of.startMove(s) }
	}
	return nil
}

func (s *shared) resume() {
	if s.resumed != nil {
		close(s.resumed)
		s.resumed = nil
	}
}

// setTimer sets the timer that calls tick at the machine's deadline, if there is one. mu is held.
func (s *shared) setTimer(now time.Time) {
	due := s.machine.Deadline()
	if due == s.due {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if s.due = due; !due.IsZero() {
		s.timer = time.AfterFunc(due.Sub(now), s.tick)
	}
}

// tick tells the machine that its deadline has come. Close waits for the commands that follow.
func (s *shared) tick() {
	s.mu.Lock()
	if s.machine.Mode() == cursor.Closing {
		s.mu.Unlock()
		return
	}
	s.work.Add(1)
	defer s.work.Done()
	now := time.Now()
	s.due = time.Time{} // the timer has fired
	s.machine.Tick(now)
	then := s.execute(now)
	s.mu.Unlock()
	run(then)
}

// within returns a context for a call that lasts at most as long as timeout, 0 for no limit.
func within(timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), timeout)
}

// cancelled returns a context for a call that lasts at most as long as timeout, which is not 0, or
// until stopping is closed.
func cancelled(timeout time.Duration, stopping <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := within(timeout)
	go func() {
		select {
		case <-stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// result passes on the result of a task's command.
func (s *shared) result(task cursor.Task, event func(now time.Time)) {
	s.happens(func(now time.Time) {
		if local := s.local.Load(); task == cursor.Comeback && local != nil {
			s.machine.Local(local.issued(), local.top())
		}
		event(now)
	})
}

func (s *shared) look(c cursor.Take) {
	ctx, cancel := within(c.Timeout)
	taken, err := s.of.cursor.Take(ctx, c.Take)
	cancel()
	s.result(c.Task, func(now time.Time) { s.machine.Looked(now, c.Task, taken, err) })
}

// install is never cancelled and never repeated (invariant U2).
func (s *shared) install(c cursor.Install) {
	answer, err := s.of.cursor.Install(context.Background(), c.Install)
	s.result(c.Task, func(now time.Time) { s.machine.Installed(now, c.Task, answer, err) })
}

func (s *shared) allocateFor(c cursor.Allocate) {
	r, err := s.fetchFor(c.To, c.Want, c.Floor, c.Why)
	s.result(c.Task, func(now time.Time) { s.machine.Allocated(now, c.Task, r, err) })
}

func (s *shared) question(c cursor.Question, stopping <-chan struct{}) {
	ctx, cancel := cancelled(c.Timeout, stopping)
	if c.Unhurried { // the store may delay it, so that it shares a query with others
		ctx = persist.Unhurried(ctx)
	}
	epoch, err := s.env.Store.Counters().Epoch(ctx, s.name)
	cancel()
	s.result(c.Task, func(now time.Time) { s.machine.Asked(now, c.Task, epoch, err) })
}

func (s *shared) readStore(c cursor.ReadStore, stopping <-chan struct{}) {
	ctx, cancel := cancelled(c.Timeout, stopping)
	_, err := s.env.Store.Counters().Read(ctx, s.name)
	cancel()
	s.result(c.Task, func(now time.Time) { s.machine.Read(now, c.Task, err) })
}

// fetch implements [fetcher]. The range is beside the cursor.
func (s *shared) fetch(want, floor int64, why cursor.Reason) (persist.Range, error) {
	return s.fetchFor(persist.Beside, want, floor, why)
}

// openLocal opens the local buffer. mu is held, so callers find the buffer as soon as the mode has
// changed.
func (s *shared) openLocal(c cursor.OpenLocal) {
	local := &buffer{}
	local.init(s, s.settings.Threshold, s.settings.AcquireTimeout, c.Floor)
	for _, r := range c.Ranges {
		local.adopt(r)
	}
	s.local.Store(local)
}

// closeLocal closes the local buffer, without waiting for its refill. It returns a function that
// reports the numbers left in it. mu is held, so the machine learns at once what callers took out
// of the buffer, and no observer can delay that.
func (s *shared) closeLocal(now time.Time) (then func()) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	local := s.local.Swap(nil) // first: a caller that is sent away must not find it again
	rest := local.close(ended, errLeft)
	s.machine.Closed(now, local.issued(), local.top())
	return func() {
		for _, r := range rest {
			s.skipped(r.Size(), errLeft)
		}
	}
}

// storeChanged passes on whether the store gives ranges.
func (s *shared) storeChanged() {
	s.happens(func(now time.Time) { s.machine.Store(now, s.whyAway()) })
}

// passed returns the highest number that this process has issued from the cursor.
func (s *shared) passed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Issued()
}
