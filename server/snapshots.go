package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/brake"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/metrics"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/server/storeerror"
)

// saveSnapshot writes all that the store has for an administrator, more slowly while callers use the
// node.
func (b *back) saveSnapshot(ctx context.Context, w io.Writer) error {
	return storeerror.Of(snapshot.Save(b.paced(ctx), b.store.Store, w), "the store", "a snapshot")
}

// paced returns the context for long work in the background, which gives way to callers.
func (b *back) paced(ctx context.Context) context.Context {
	return persist.Paced(ctx, brake.New(b.front.gate.Requests.Entered).Yield)
}

const (
	// snapshotName is the end of the name of a scheduled snapshot, after that of its cluster: when
	// it was begun, in UTC. Names are in the order of time.
	snapshotName = "20060102T150405Z.snapshot"
	// snapshotPause is how long a node waits before it looks again whether a snapshot is due.
	snapshotPause = 5 * time.Second
	// failedPause is how long it waits after one that failed, at most: it may have read all of a large
	// store.
	failedPause = 5 * time.Minute
)

// schedule is what a node knows of scheduled snapshots.
type schedule struct {
	newest   atomic.Int64 // when the newest one was begun, in ms since the Unix epoch; 0 if it knows none
	failures atomic.Int64
}

// saveSnapshots saves snapshots while this node leads, until ctx ends.
func (b *back) saveSnapshots(ctx context.Context) {
	cfg := b.base.cfg.Snapshots
	if cfg.Every == 0 {
		return
	}
	for {
		pause := snapshotPause
		if b.terms.Leading() && b.saveDue(ctx, cfg) != nil {
			pause = min(cfg.Every, failedPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// saveDue saves a snapshot if the newest one in the folder is old enough, and removes the oldest.
func (b *back) saveDue(ctx context.Context, cfg config.Snapshots) error {
	prefix := "seqd-" + b.store.Cluster + "-"
	names, err := scheduled(cfg.Folder, prefix)
	now := b.common.Now()
	if err == nil {
		last := newest(names, prefix, now)
		b.schedule.newest.Store(last)
		if now.UnixMilli()-last < cfg.Every.Milliseconds() {
			return nil
		}
	}
	name := filepath.Join(cfg.Folder, prefix+now.UTC().Format(snapshotName))
	if err == nil {
		err = snapshot.WriteFile(name, func(w io.Writer) error { return snapshot.Save(b.paced(ctx), b.store.Store, w) })
	}
	if err == nil {
		b.schedule.newest.Store(now.UnixMilli())
		b.base.log.Info("a snapshot was saved", "file", name)
		for _, old := range names[:max(0, len(names)+1-cfg.Keep)] {
			err = errors.Join(err, os.Remove(filepath.Join(cfg.Folder, old)))
		}
	}
	if err != nil && ctx.Err() == nil {
		b.schedule.failures.Add(1)
		b.base.log.Error("a snapshot could not be saved, or an old one not be removed", "file", name, "error", err)
	}
	return err
}

// scheduled returns the names of the snapshots of a cluster in a folder, the oldest first. Its prefix
// tells them from those of others. It removes what a node left that was killed while it wrote one.
func scheduled(folder, prefix string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		begun, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		if _, err := time.Parse(snapshotName, begun); err == nil {
			names = append(names, e.Name())
		} else if _, err := time.Parse(snapshotName+snapshot.Part, begun); err == nil {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// newest returns when the newest snapshot was begun, in ms since the Unix epoch, 0 if there is none.
// A clock that was ahead for a while must not keep others from being saved, so a newer one than now
// does not count.
func newest(names []string, prefix string, now time.Time) int64 {
	for _, name := range slices.Backward(names) {
		if at, _ := time.Parse(snapshotName, strings.TrimPrefix(name, prefix)); !at.After(now) {
			return at.UnixMilli()
		}
	}
	return 0
}

// tellSnapshots tells what is known of scheduled snapshots. ok is false if there are none.
func (b *back) tellSnapshots() (s metrics.Snapshots, ok bool) {
	s = metrics.Snapshots{Every: b.base.cfg.Snapshots.Every, Failures: b.schedule.failures.Load()}
	if last := b.schedule.newest.Load(); last != 0 {
		s.Newest = time.UnixMilli(last)
	}
	return s, s.Every != 0
}
