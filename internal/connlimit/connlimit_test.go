package connlimit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// server gives away so many connections.
type server struct {
	mu                 sync.Mutex
	most, open, refuse int
}

var errRefused = errors.New("too many connections")

func refused(err error) bool { return errors.Is(err, errRefused) }

func (s *server) use() error {
	s.mu.Lock()
	if s.open == s.most {
		s.refuse++
		s.mu.Unlock()
		return errRefused
	}
	s.open++
	s.mu.Unlock()
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
	return nil
}

// ask lets callers use the server, and returns how many got an error and how often the server
// refused.
func ask(ctx context.Context, p *Places, s *server, callers int) (failed, refusals int) {
	var all sync.WaitGroup
	var mu sync.Mutex
	s.refuse = 0
	for range callers {
		all.Go(func() {
			for range 10 {
				if err := p.Do(ctx, refused, s.use); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return failed, s.refuse
}

func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := New(8), &server{most: 2}
		if failed, refusals := ask(t.Context(), p, s, 50); failed != 0 || refusals != 6 {
			t.Errorf("with 2 connections %d failed, %d were refused", failed, refusals)
		}
		if failed, refusals := ask(t.Context(), p, s, 50); failed != 0 || refusals != 0 {
			t.Errorf("it asked again: %d failed, %d were refused", failed, refusals)
		}
		s.most = 8
		time.Sleep(rest)
		began := time.Now()
		if failed, refusals := ask(t.Context(), p, s, 8); failed != 0 || refusals != 0 || time.Since(began) != 10*time.Millisecond {
			t.Errorf("with 8 connections again %d failed, %d were refused, in %v", failed, refusals, time.Since(began))
		}
		s.most = 0 // others have them all
		time.AfterFunc(time.Second, func() { s.mu.Lock(); s.most = 1; s.mu.Unlock() })
		if failed, _ := ask(t.Context(), p, s, 8); failed != 0 {
			t.Errorf("without a connection for a second %d failed", failed)
		}
		s.most = 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Do(ctx, refused, s.use); !refused(err) {
			t.Errorf("without a connection it returns %v", err)
		}
	})
}
