package backends

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
)

// A store that no seqd has run on is a warning that says where it is, or an error with
// store.mustExist: then nothing is made, by the service and by commands.
func TestStoreThatMustExist(t *testing.T) {
	cfg := config.Default().Store
	path := filepath.Join(t.TempDir(), "volume", "seqd.db")
	cfg.Settings["bolt"].(*bolt.Settings).Path = path
	open := func(mustExist bool) (log string, err error) {
		cfg.MustExist = mustExist
		var text strings.Builder
		s, err := OpenStore(t.Context(), cfg, StoreOptions{Now: time.Now, Log: slog.New(slog.NewTextHandler(&text, nil))})
		if err == nil {
			if at, ok := s.Created(); !ok || at.IsZero() || s.Cluster == "" {
				t.Errorf("the store was made at %s, %t, and is of the cluster %q", at, ok, s.Cluster)
			}
			err = s.Store.Close()
		}
		return text.String(), err
	}
	refused := func() {
		t.Helper()
		_, err := open(true)
		_, forCommand := NewStore(t.Context(), cfg, time.Now)
		for _, err := range []error{err, forCommand} {
			if seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), path) {
				t.Errorf("the error is %v", err)
			}
		}
	}
	refused()
	if _, err := os.Stat(filepath.Dir(path)); err == nil {
		t.Error("a folder was made")
	}
	for i, want := range []bool{true, false} {
		log, err := open(false)
		if warned := strings.Contains(log, "level=WARN") && strings.Contains(log, "place="+path); err != nil || warned != want {
			t.Errorf("start %d: %v, %s", i, err, log)
		}
	}
	if log, err := open(true); err != nil || strings.Contains(log, "WARN") {
		t.Errorf("a store that exists: %v, %s", err, log)
	}
	store := must.Get(NewStore(t.Context(), cfg, time.Now))(t)
	must.Report(t, store.Close())
}

// Commands open a store as what runs beside nodes, and nodes do not.
func TestBeside(t *testing.T) {
	var how driver.How
	ctx := seams.With(t.Context(), seams.Seams{OpenStore: func(_ context.Context, h driver.How) (persist.Store, error) {
		how = h
		return memory.New(time.Now), nil
	}})
	cfg, opts := config.Default().Store, StoreOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	must.Get(NewStore(ctx, cfg, time.Now))(t)
	must.Equal(t, true, how.Beside, "a command")
	must.Get(OpenStore(ctx, cfg, opts))(t)
	must.Equal(t, false, how.Beside, "a node")
	cfg.Driver = "postgres"
	opts.Remembered = func() ([]string, string) { return []string{"user"}, "c" }
	must.Get(OpenStore(ctx, cfg, opts))(t)
	must.Equal(t, false, how.Beside, "a node that can begin without the store")
}

// A new store is refused beside a Redis that serves another one, and stays new. A store that nodes
// share waits for a Redis that cannot be asked.
func TestNewStoreBesideRedis(t *testing.T) {
	away := errors.New("away")
	for _, tt := range []struct {
		driver, serves string
		err, want      error // of Redis, of enter
	}{
		{driver: "postgres", serves: "another", want: &seqd.Error{Code: seqd.CodeConflict}},
		{driver: "bolt", serves: "another", want: &seqd.Error{Code: seqd.CodeConflict}},
		{driver: "memory", serves: "another"},
		{driver: "postgres"},
		{driver: "postgres", err: away, want: persist.ErrUnavailable},
		{driver: "bolt", err: away},
	} {
		store, cfg := memory.New(time.Now), config.Default().Store
		cfg.Driver = tt.driver
		opts := StoreOptions{
			Now: time.Now, Log: slog.New(slog.DiscardHandler), Prior: func(context.Context) (string, error) { return tt.serves, tt.err },
		}
		_, err := opts.enter(t.Context(), cfg, store)
		if tt.want == nil && err != nil || tt.want != nil && seqd.CodeOf(err) != seqd.CodeOf(tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
		must.Equal(t, errors.Is(tt.want, persist.ErrUnavailable), errors.Is(err, persist.ErrUnavailable), "%+v: %v", tt, err)
		if _, made := persist.ReadCluster(t.Context(), store.Documents()); (made == nil) != (err == nil) {
			t.Errorf("%+v: the cluster: %v", tt, made)
		}
	}
}

// Of nodes that start at the same time one begins the store and tells Redis: the others go on.
func TestAnotherNodeBeginsTheStore(t *testing.T) {
	store, cfg := memory.New(time.Now), config.Default().Store
	cfg.Driver = "postgres"
	opts := StoreOptions{Now: time.Now, Log: slog.New(slog.DiscardHandler), Prior: func(ctx context.Context) (string, error) {
		return persist.ClusterID(ctx, store, time.Now)
	}}
	if known, err := opts.enter(t.Context(), cfg, store); err != nil || known.ID == "" {
		t.Errorf("%+v, %v", known, err)
	}
}
