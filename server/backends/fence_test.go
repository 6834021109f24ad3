package backends

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// fencedStore is a store that can fail over.
type fencedStore struct {
	persist.Store
	mu    sync.Mutex // guards what follows
	fence persist.Fence
	err   error
}

func (f *fencedStore) Fence(context.Context) (persist.Fence, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fence, f.err
}

func (f *fencedStore) set(fence persist.Fence, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fence, f.err = fence, err
}

func (f *fencedStore) ConfirmFence(context.Context, string) error { return nil }

func (f *fencedStore) CreateFenced(context.Context, persist.Document, string) error { return nil }
func (f *fencedStore) UpdateFenced(context.Context, persist.Document, string) error { return nil }

var _ persist.Fenced = (*fencedStore)(nil)

func (f *fencedStore) CreateLost(context.Context, persist.Counter) error { return nil }

// A failover is known within seconds, stays known while the store is away, and ends when an
// operator confirms it. It is logged once.
func TestWatchFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		under := &fencedStore{Store: memory.New(time.Now), fence: persist.Fence{Current: "1", Confirmed: "1"}}
		s := &Store{Store: under, log: slog.New(slog.NewTextHandler(&log, nil))}
		if why, ok := s.FailedOver(); why != nil || ok {
			t.Fatalf("before it was read: %v, %t", why, ok)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.WatchFence(ctx)
		for i, step := range []struct {
			fence persist.Fence
			err   error
			want  bool
		}{
			{persist.Fence{Current: "1", Confirmed: "1"}, nil, false},
			{persist.Fence{Current: "2", Confirmed: "1"}, nil, true},
			{persist.Fence{}, persist.ErrUnavailable, true},
			{persist.Fence{Current: "2", Confirmed: "1"}, nil, true},
			{persist.Fence{Current: "2", Confirmed: "2"}, nil, false},
		} {
			under.set(step.fence, step.err)
			time.Sleep(2 * fencePause)
			synctest.Wait()
			why, ok := s.FailedOver()
			if !ok || (why != nil) != step.want || why != nil && why.Code != seqd.CodeStoreFailedOver {
				t.Errorf("step %d: %v, %t", i, why, ok)
			}
		}
		cancel()
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "current=2 confirmed=1") || !strings.Contains(log.String(), "has confirmed") {
			t.Errorf("the log has %d lines:\n%s", n, &log)
		}
	})
}

// A store that cannot fail over is not watched.
func TestNoFence(t *testing.T) {
	s := &Store{Store: memory.New(time.Now), log: slog.New(slog.DiscardHandler)}
	s.WatchFence(t.Context())
	if why, ok := s.FailedOver(); why != nil || ok {
		t.Errorf("%v, %t", why, ok)
	}
}
