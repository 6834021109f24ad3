package backends

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// If biz types can issue without the store, one that cannot be reached is opened nevertheless, and
// refuses every operation.
func TestBeginWithoutTheStore(t *testing.T) {
	cfg := config.Default().Store
	cfg.Driver = "mongo"
	*cfg.Settings["mongo"].(*mongo.Settings) = mongo.Settings{URI: "mongodb://127.0.0.1:1", Database: "seqd", Timeout: 100 * time.Millisecond}
	var log strings.Builder
	s, err := OpenStore(t.Context(), cfg, StoreOptions{
		Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Remembered: func() ([]string, string) { return []string{"user"}, "c" },
	})
	must.Do(t, err)
	t.Cleanup(func() { _ = s.Store.Close() })
	if !s.BeganWithout() || !s.Unreached() || s.Cluster != "c" {
		t.Errorf("%+v", s)
	}
	must.Is(t, must.Err(s.Store.Documents().Read(t.Context(), "definition", "order")), persist.ErrUnavailable, "it answers")
	if !strings.Contains(log.String(), "bizTypes=[user]") {
		t.Errorf("logged %s", &log)
	}
}

// A store that cannot be opened is no store, and not a pointer to none.
func TestStoreThatCannotBeOpened(t *testing.T) {
	for _, cfg := range []config.Store{
		{Driver: "bolt", Settings: map[string]driver.Settings{"bolt": &bolt.Settings{Path: t.TempDir()}}},
		{Driver: "mongo", Settings: map[string]driver.Settings{"mongo": &mongo.Settings{URI: "nonsense"}}},
		{Driver: "nonsense"},
	} {
		if s, err := NewStore(t.Context(), cfg, time.Now); err == nil || s != nil {
			t.Errorf("%s: %v, %v", cfg.Driver, s, err)
		}
	}
}

// A certificate that is not there yet is waited for: its volume may be mounted later.
func TestCertificateThatComesLater(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	store := config.Default().Store
	url, uri := "postgres://u@127.0.0.1:1/db?sslmode=verify-full&sslrootcert="+file, "mongodb://127.0.0.1:1/?tls=true&tlsCAFile="+file
	store.Settings["postgres"].(*postgres.Settings).URL, store.Settings["mongo"].(*mongo.Settings).URI = url, uri
	must.Do(t, postgres.CheckURL(url))
	must.Do(t, mongo.CheckURI(uri))
	for _, store.Driver = range []string{"postgres", "mongo"} {
		_, err := NewStore(t.Context(), store, time.Now)
		if must.Is(t, err, persist.ErrUnavailable, store.Driver); !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", store.Driver, err)
		}
	}
}

// What a start waits for is logged as a warning while it can come by itself. It is an error if only
// an operator can help, and if it goes away once it was there.
func TestLevels(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	away := fmt.Errorf("refused: %w", persist.ErrUnavailable)
	started, met := &Redis{opts: RedisOptions{Log: log}}, &Redis{opts: RedisOptions{Log: log}}
	met.note(nil)
	for _, test := range []struct {
		log  func(error)
		err  error
		want string
	}{
		{LogWaiting(log, "store"), away, "WARN"},
		{LogWaiting(log, "store"), errors.New("no rights"), "ERROR"},
		{started.note, away, "WARN"},
		{started.note, rediscursor.ErrUnfit, "ERROR"},
		{met.note, away, "ERROR"},
	} {
		text.Reset()
		if test.log(test.err); !strings.Contains(text.String(), "level="+test.want+" ") {
			t.Errorf("%v: want %s: %s", test.err, test.want, &text)
		}
	}
}
