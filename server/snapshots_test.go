package server

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

const clusterPrefix = "seqd-0123456789abcdef0123456789abcdef-"

// Snapshots are told apart by their cluster. What a node left that was killed is removed, and nothing
// else. One of a clock that was ahead does not count as the newest.
func TestScheduledSnapshots(t *testing.T) {
	folder := t.TempDir()
	const other = "seqd-ffffffffffffffffffffffffffffffff-"
	for _, name := range []string{clusterPrefix + "20261201T020000Z.snapshot", clusterPrefix + "20261201T010000Z.snapshot", clusterPrefix + "20261201T030000Z.snapshot.part",
		clusterPrefix + "20990101T000000Z.snapshot", clusterPrefix + "20261201T020000Z.snapshot.restored", other + "20261201T000000Z.snapshot", other + "20261201T023000Z.snapshot.part",
		"seqd-20261201T025000Z.snapshot", "mine.snapshot", "mine.part"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	names := must.Get(scheduled(folder, clusterPrefix))(t)
	if want := []string{clusterPrefix + "20261201T010000Z.snapshot", clusterPrefix + "20261201T020000Z.snapshot", clusterPrefix + "20990101T000000Z.snapshot"}; !slices.Equal(names, want) {
		t.Errorf("the snapshots are %q", names)
	}
	must.Equal(t, len(must.Get(os.ReadDir(folder))(t)), 9)
	at := time.Date(2026, 12, 1, 2, 0, 0, 0, time.UTC)
	must.Equal(t, newest(names, clusterPrefix, at.Add(time.Hour)), at.UnixMilli())
	must.Equal(t, newest(names, clusterPrefix, at.Add(-time.Second)), at.Add(-time.Hour).UnixMilli())
	must.Equal(t, newest(nil, clusterPrefix, at), 0)
}
