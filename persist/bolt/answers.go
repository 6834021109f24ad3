package bolt

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// answers implements [persist.Answers]. Claims are kept in memory: the lock of the store's file
// keeps other processes out, so a claim of a process that has ended has no owner. Answers are kept
// in files of their own; see windows.
//
// One goroutine at a time works on an ID. Its turn lasts until its write ends, even if the caller
// has stopped waiting.
type answers struct {
	windows windows

	mu      sync.Mutex // guards the fields below
	entries map[string]*claimed
	closed  bool
}

var _ persist.Answers = (*answers)(nil)

// fillAnswers prepares the answers of a store. It opens no file.
func (s *Store) fillAnswers(opts Options) {
	if opts.Elapsed == nil {
		began := time.Now()
		opts.Elapsed = func() time.Duration { return time.Since(began) }
	}
	opts.Path += answersSuffix
	s.answers.entries = make(map[string]*claimed)
	s.answers.windows.opts = opts
	s.answers.windows.start, s.answers.windows.startAt = opts.Now().UnixMilli(), opts.Elapsed()
}

// claimed is the state of an ID that somebody claims or works on.
type claimed struct {
	turn  chan struct{} // full while a goroutine works on the ID; guards claim and until
	users int           // how many work on it or wait for their turn; guarded by answers.mu
	claim string        // "" for none
	until time.Duration // when the claim ends, by Options.Elapsed
}

// enter waits for the turn to work on an ID.
func (a *answers) enter(ctx context.Context, id string) (*claimed, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, persist.ErrClosed
	}
	e := a.entries[id]
	if e == nil {
		e = &claimed{turn: make(chan struct{}, 1)}
		a.entries[id] = e
	}
	e.users++
	a.mu.Unlock()
	select {
	case e.turn <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		a.release(id, e)
		return nil, ctx.Err()
	}
}

// leave ends a turn.
func (a *answers) leave(id string, e *claimed) {
	<-e.turn
	a.release(id, e)
}

// release forgets the state of an ID that nobody needs.
func (a *answers) release(id string, e *claimed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.users--
	if e.users == 0 && e.claim == "" {
		delete(a.entries, id)
	}
}

// kept returns the text that is kept under an ID, "" for none.
func (a *answers) kept(ctx context.Context, id string, e *claimed) (string, error) {
	if e.claim != "" && e.until > a.windows.opts.Elapsed() {
		return e.claim, nil
	}
	return a.windows.find(ctx, id)
}

// Claim implements [persist.Answers].
func (a *answers) Claim(ctx context.Context, id, claim string, lease time.Duration) (held string, err error) {
	e, err := a.enter(ctx, id)
	if err != nil {
		return "", err
	}
	defer a.leave(id, e)
	held, err = a.kept(ctx, id, e)
	if held == "" && err == nil {
		e.claim, e.until = claim, a.windows.opts.Elapsed()+lease
	}
	return held, err
}

// Swap implements [persist.Answers].
func (a *answers) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	e, err := a.enter(ctx, id)
	if err != nil {
		return "", err
	}
	if e.claim != old { // otherwise no answer is kept: Claim has looked
		if held, err = a.kept(ctx, id, e); held == "" && err == nil {
			err = persist.ErrNotFound
		}
	}
	switch {
	case held != "" || err != nil:
	case text == old:
		e.claim, e.until = old, a.windows.opts.Elapsed()+keep
	default:
		return "", a.finish(ctx, id, e, text, keep)
	}
	a.leave(id, e)
	return held, err
}

// finish writes an answer, and ends the turn when the write has ended, even if the caller no longer
// waits.
func (a *answers) finish(ctx context.Context, id string, e *claimed, text string, keep time.Duration) error {
	done := make(chan error, 1)
	go func() {
		err := a.windows.put(id, text, keep)
		e.claim = "" // after an error too: only the file says whether there is an answer
		a.leave(id, e)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Drop implements [persist.Answers].
func (a *answers) Drop(ctx context.Context, id, claim string) error {
	e, err := a.enter(ctx, id)
	if err != nil {
		return err
	}
	if e.claim == claim {
		e.claim = ""
	}
	a.leave(id, e)
	return nil
}

// Purge implements [persist.Answers].
func (a *answers) Purge(ctx context.Context) (purged int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := a.sweep(); err != nil {
		return 0, err
	}
	return a.windows.purge()
}

// sweep forgets claims that have ended.
func (a *answers) sweep() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return persist.ErrClosed
	}
	now := a.windows.opts.Elapsed()
	for id, e := range a.entries {
		if e.users == 0 && e.until <= now {
			delete(a.entries, id)
		}
	}
	return nil
}

func (a *answers) close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	return a.windows.close()
}
