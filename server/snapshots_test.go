package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// A snapshot is due if the newest one is old enough; one of a clock that was ahead does not count.
// What a node left that was killed is removed, and nothing else.
func TestScheduledSnapshots(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"seqd-20261201T020000Z.snapshot", "seqd-20261201T010000Z.snapshot", "seqd-20261201T030000Z.snapshot.part", "seqd-20990101T000000Z.snapshot", "mine.snapshot", "mine.part"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	names := must.Get(scheduled(folder))(t)
	if want := []string{"seqd-20261201T010000Z.snapshot", "seqd-20261201T020000Z.snapshot", "seqd-20990101T000000Z.snapshot"}; !slices.Equal(names, want) {
		t.Errorf("the snapshots are %q", names)
	}
	must.Equal(t, len(must.Get(os.ReadDir(folder))(t)), 5)
	at := time.Date(2026, 12, 1, 2, 59, 59, 0, time.UTC)
	must.Equal(t, due(names, at, time.Hour), false)
	must.Equal(t, due(names, at.Add(time.Second), time.Hour), true)
	must.Equal(t, due(nil, at, time.Hour), true)
}
