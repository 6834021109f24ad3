package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/brake"
	"github.com/seqd/seqd/server/config"
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
	// snapshotName is the name of a scheduled snapshot, which says when it was begun, in UTC. Names
	// are in the order of time.
	snapshotName = "seqd-20060102T150405Z.snapshot"
	// snapshotPause is how long a node waits before it looks again whether a snapshot is due.
	snapshotPause = 5 * time.Second
	// failedPause is how long it waits after one that failed, at most: it may have read all of a large
	// store.
	failedPause = 5 * time.Minute
)

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
	names, err := scheduled(cfg.Folder)
	now := b.common.Now()
	if err == nil && !due(names, now, cfg.Every) {
		return nil
	}
	name := filepath.Join(cfg.Folder, now.UTC().Format(snapshotName))
	if err == nil {
		err = snapshot.WriteFile(name, func(w io.Writer) error { return snapshot.Save(b.paced(ctx), b.store.Store, w) })
	}
	if err == nil {
		b.base.log.Info("a snapshot was saved", "file", name)
		for _, old := range names[:max(0, len(names)+1-cfg.Keep)] {
			err = errors.Join(err, os.Remove(filepath.Join(cfg.Folder, old)))
		}
	}
	if err != nil && ctx.Err() == nil {
		b.base.log.Error("a snapshot could not be saved, or an old one not be removed", "file", name, "error", err)
	}
	return err
}

// scheduled returns the names of the snapshots in a folder, the oldest first. It removes what a
// node left that was killed while it wrote one.
func scheduled(folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := time.Parse(snapshotName, e.Name()); err == nil {
			names = append(names, e.Name())
		} else if _, err := time.Parse(snapshotName+snapshot.Part, e.Name()); err == nil {
			if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(names)
	return names, nil
}

// due reports whether another snapshot is due. A clock that was ahead for a while must not keep
// others from being saved, so a newer one than now does not count.
func due(names []string, now time.Time, every time.Duration) bool {
	for _, name := range names {
		if at, _ := time.Parse(snapshotName, name); !at.After(now) && now.Sub(at) < every {
			return false
		}
	}
	return true
}
