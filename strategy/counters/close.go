package counters

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// mostFailed is how many counters an error of Close names.
const mostFailed = 10

// Close closes all counters, many at a time, also those in use, and returns their errors. It waits
// for counters that are being closed, and for what [Set.Go] runs. When ctx has ended, it waits no
// longer, and closes the others with that context, so that they do not wait either. Only the first
// call does anything.
func (s *Set[C]) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.Closed() {
		s.mu.Unlock()
		return nil
	}
	s.end()
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.work.Wait(); close(done) }()
	var late error
	select {
	case <-done:
	case <-ctx.Done():
		late = ctx.Err()
	}
	return errors.Join(late, s.closeAll(ctx, s.takeAll()))
}

// takeAll takes out all counters. From now on one that is opened is closed at once.
func (s *Set[C]) takeAll() (all []*Entry[C]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for len(s.open) > 0 {
		e := s.open[len(s.open)-1]
		e.pins.Add(-unusable) // also if it is in use
		s.takeOut(e)
		all = append(all, e)
	}
	return all
}

func (s *Set[C]) closeAll(ctx context.Context, all []*Entry[C]) error {
	var (
		mu     sync.Mutex // guards what follows
		failed []error
		total  int
		wg     sync.WaitGroup
	)
	busy := make(chan struct{}, parallel)
	for _, e := range all {
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			if err := s.shut(ctx, e); err != nil {
				mu.Lock()
				defer mu.Unlock()
				if total++; total <= mostFailed {
					failed = append(failed, err)
				}
			}
		})
	}
	wg.Wait()
	if total > mostFailed {
		failed = append(failed, fmt.Errorf("%d more counters did not close well", total-mostFailed))
	}
	return errors.Join(failed...)
}
