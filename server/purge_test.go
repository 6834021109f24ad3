package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// hoarder is a shared store that removes no documents while full is true.
type hoarder struct {
	persist.Store
	full atomic.Bool
}

type hoarderDocuments struct {
	persist.Documents
	store *hoarder
}

func (*hoarder) Shared() bool { return true }

func (h *hoarder) Documents() persist.Documents { return hoarderDocuments{h.Store.Documents(), h} }

func (d hoarderDocuments) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if d.store.full.Load() {
		return 0, errors.New("read only")
	}
	return d.Documents.Purge(ctx, kind, before, limit)
}

// A purge that fails is a warning, once for each row of failures: what is not removed fills the
// store.
func TestFailingPurgeIsLoggedOnce(t *testing.T) {
	for name, purge := range map[string]func(context.Context, *catalogue){
		"nodes": func(ctx context.Context, c *catalogue) { newNodes(c).beat(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &hoarder{Store: memory.New(time.Now)}
				c := newTestCatalogue(t, store)
				var log lockedText
				c.log = slog.New(slog.NewTextHandler(&log, nil))
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); purge(ctx, c) }()
				for row := 1; row <= 2; row++ {
					store.full.Store(true)
					time.Sleep(time.Hour)
					synctest.Wait()
					if n := strings.Count(log.String(), "\n"); n != row || strings.Count(log.String(), "level=WARN") != row || !strings.Contains(log.String(), "read only") {
						t.Errorf("after %d rows of failures the log has %d lines: %s", row, n, &log)
					}
					store.full.Store(false)
					time.Sleep(time.Hour)
				}
				cancel()
				<-ended
			})
		})
	}
}
