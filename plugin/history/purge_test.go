package history

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
)

// TestClockAhead checks that a node whose clock is ahead does not remove records of other nodes
// that must be kept.
func TestClockAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, log := memory.New(time.Now), &testlog.Text{}
		month := func(s *Settings) { s.OnOverflow, s.Retention = Block, 720*time.Hour }
		good := start(t, store, nil, month)
		must.Do(t, issue(t.Context(), good, 1))
		time.Sleep(time.Second)
		settings := DefaultSettings()
		month(&settings)
		settings.Batch-- // another batch size, so that there are two queues, as in two processes
		env := plugin.Env{Store: store, Now: func() time.Time { return time.Now().AddDate(1, 0, 0) }, Log: slog.New(slog.NewTextHandler(log, nil))}
		ahead := must.Get(New(env, seqd.BizType{Name: "order"}, seqd.PluginBinding{Name: name, Settings: &settings}))(t)
		time.Sleep(2 * time.Hour)
		if list := kept(t, store.History(), "order"); !slices.Contains(list, int64(1)) {
			t.Errorf("two hours later the history holds %v", list)
		}
		if log.Count("ahead of the store's") != 1 {
			t.Errorf("logged %s", log.String())
		}
		stop(t, good)
		stop(t, ahead)
	})
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
