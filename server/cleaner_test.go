package server

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/idempotency"
)

// A failing purge and differing clocks are logged once, when they begin.
func TestCleanerWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			log          testlog.Text
			mu           sync.Mutex // guards what follows
			purged, skew error
		)
		now := func(err *error) error {
			mu.Lock()
			defer mu.Unlock()
			return *err
		}
		c := cleaner{
			purge: func(context.Context) (int, error) { return 0, now(&purged) },
			skew:  func(context.Context) error { return now(&skew) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		go c.run(ctx, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))
		for _, step := range []struct {
			purged, skew error
			want         []string
		}{
			{nil, nil, nil},
			{errors.New("the disk is full"), nil, []string{"level=WARN", "cannot be removed", "the disk is full"}},
			{nil, nil, []string{"level=INFO", "removed again"}},
			{nil, errors.New("25h ahead"), []string{"level=WARN", "clocks", "25h ahead"}},
			{nil, nil, []string{"level=INFO", "agree again"}},
		} {
			mu.Lock()
			purged, skew = step.purged, step.skew
			mu.Unlock()
			before := len(log.String())
			time.Sleep(5 * purgePause)
			synctest.Wait()
			text := log.String()[before:]
			lines := strings.Count(text, "\n")
			must.Equal(t, lines, min(1, len(step.want)), "the lines of %s", text)
			for _, want := range step.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in %s", want, text)
				}
			}
		}
		cancel()
		synctest.Wait()
	})
}

// Answers are kept in the store if it supports that.
func TestAnswersInStore(t *testing.T) {
	s := must.Get(bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(t)
	defer s.Close()
	if backend, _ := answersInStore(s, s.Documents(), storeclock.New(s, time.Now, nil)); backend != idempotency.NewKept(s.Answers()) {
		t.Errorf("bolt: %T", backend)
	}
	m := memory.New(time.Now)
	backend, clean := answersInStore(m, m.Documents(), storeclock.New(m, time.Now, nil))
	if _, ok := backend.(*idempotency.Store); !ok || clean.skew == nil {
		t.Errorf("memory: %T", backend)
	}
}

// Only the leader removes what has expired.
func TestDuties(t *testing.T) {
	docs, leading := memory.New(time.Now).Documents(), false
	d := duties{docs, func() bool { return leading }}
	must.Do(t, d.Create(t.Context(), persist.Document{Kind: "thing", Key: "x", Revision: 1, Expires: 5}))
	for i, lead := range []bool{false, true} {
		leading = lead
		must.Equal(t, must.Get(d.Purge(t.Context(), "thing", 10, 10))(t), i, "removed")
	}
}
