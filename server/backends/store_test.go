package backends

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
)

// If biz types can issue without the store, one that cannot be reached is opened nevertheless, and
// refuses every operation.
func TestBeginWithoutTheStore(t *testing.T) {
	cfg := config.Default().Store
	cfg.Driver, cfg.Mongo.URI, cfg.Mongo.Timeout = "mongo", "mongodb://127.0.0.1:1", 100*time.Millisecond
	var log strings.Builder
	s, err := OpenStore(t.Context(), cfg, StoreOptions{
		Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Remembered: func() ([]string, string) { return []string{"user"}, "c" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Store.Close() })
	if !s.BeganWithout() || !s.Unreached() || s.Cluster != "c" {
		t.Errorf("%+v", s)
	}
	if _, err := s.Store.Documents().Read(t.Context(), "definition", "order"); !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("it answers %v", err)
	}
	if !strings.Contains(log.String(), "bizTypes=[user]") {
		t.Errorf("logged %s", &log)
	}
}

// A store that cannot be opened is no store, and not a pointer to none.
func TestStoreThatCannotBeOpened(t *testing.T) {
	for _, cfg := range []config.Store{
		{Driver: "bolt", Bolt: config.Bolt{Path: t.TempDir()}},
		{Driver: "mongo", Mongo: config.Mongo{URI: "nonsense"}},
		{Driver: "nonsense"},
	} {
		if s, err := NewStore(t.Context(), cfg, time.Now); err == nil || s != nil {
			t.Errorf("%s: %v, %v", cfg.Driver, s, err)
		}
	}
}
