package history

import (
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
)

// TestClockAhead checks that records that must be kept stay if the clock of a node, or that of the
// store too, is months ahead for a while, and that records go by the right clock.
func TestClockAhead(t *testing.T) {
	for name, c := range map[string]struct{ ofNode, ofStore time.Duration }{"node": {9000 * time.Hour, 0}, "store": {9000 * time.Hour, 9000 * time.Hour}} {
		for _, to := range []string{ToStore, ToFile} {
			t.Run(name+"/"+to, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { clockAhead(t, to, c.ofNode, c.ofStore) })
			})
		}
	}
}

func clockAhead(t *testing.T, to string, ofNode, ofStore time.Duration) {
	var node, stores atomic.Int64
	store := memory.New(func() time.Time { return time.Now().Add(time.Duration(stores.Load())) })
	settings := DefaultSettings()
	settings.To, settings.OnOverflow, settings.Retention = to, Block, 100*time.Hour
	if to == ToFile {
		settings.File.Path = filepath.Join(t.TempDir(), "history.jsonl")
	}
	env := plugin.Env{Store: store, Now: func() time.Time { return time.Now().Add(time.Duration(node.Load())) }, Log: slog.New(slog.DiscardHandler)}
	open := func() *Plugin {
		return must.Get(New(env, seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: name, Settings: &settings}))(t)
	}
	p := open()
	must.Do(t, issue(t.Context(), p, 1))
	time.Sleep(2 * time.Hour)
	stop(t, p)
	node.Store(int64(ofNode))
	stores.Store(int64(ofStore))
	p = open()
	must.Do(t, issue(t.Context(), p, 2)) // or files are not looked at
	time.Sleep(20 * time.Hour)
	node.Store(0)
	stores.Store(0)
	for _, step := range []struct {
		after time.Duration
		there bool
	}{{30 * time.Hour, true}, {80 * time.Hour, false}} {
		time.Sleep(step.after)
		if list := kept(t, p.pipe.store, "order"); slices.Contains(list, int64(1)) != step.there {
			t.Errorf("%s later the history holds %v", step.after, list)
		}
	}
	stop(t, p)
}

// TestClockBeyondFiles checks that files are not purged if the clock is far beyond their newest
// record.
func TestClockBeyondFiles(t *testing.T) {
	const retention = 720 * time.Hour
	f := openAt(t, filepath.Join(t.TempDir(), "history.jsonl"), nil, nil)
	at := func(d time.Duration) time.Time { return time.UnixMilli(9).Add(d) }
	if err := f.trust(t.Context(), at(100*retention), retention); err != nil {
		t.Errorf("without records: %v", err)
	}
	write(t, f, lines(1, 9))
	for d, want := range map[time.Duration]bool{-time.Hour: true, 0: true, retention + mostPurge: true, retention + mostIdle + 1: false, 100 * retention: false} {
		if err := f.trust(t.Context(), at(d), retention); (err == nil) != want {
			t.Errorf("%s after the newest record: %v", d, err)
		}
	}
}
