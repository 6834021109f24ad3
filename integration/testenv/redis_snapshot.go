package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// RedisSnapshot is a copy of the data of a Redis server.
type RedisSnapshot struct{ file string }

// SaveSnapshot writes the data to disk (SAVE) and keeps a copy for RestartFrom.
func (r *Redis) SaveSnapshot() RedisSnapshot {
	r.t.Helper()
	// SAVE fails while data is written for a replica that has just connected.
	r.await("SAVE", func(ctx context.Context) error { return r.client.Save(ctx).Err() })
	s := RedisSnapshot{file: filepath.Join(r.t.TempDir(), "dump.rdb")}
	must(r.t, r, "copy the snapshot", copyFile(filepath.Join(r.data, "dump.rdb"), s.file))
	return s
}

// RestartFrom kills the server if it runs, and starts it with a snapshot, as the restore of a
// backup does. The snapshot may be that of another server.
func (r *Redis) RestartFrom(s RedisSnapshot) {
	r.t.Helper()
	r.Kill()
	r.clearData()
	must(r.t, r, "restore the snapshot", errors.Join(copyFile(s.file, filepath.Join(r.data, "dump.rdb")), r.restoreAppendOnly(s)))
	r.start()
}

// restoreAppendOnly writes the same data as an append-only file, because with "appendonly yes"
// Redis 7 reads nothing else.
func (r *Redis) restoreAppendOnly(s RedisSnapshot) error {
	const base = "appendonly.aof.1.base.rdb"
	folder := filepath.Join(r.data, "appendonlydir")
	if err := copyFile(s.file, filepath.Join(folder, base)); err != nil {
		return err
	}
	manifest := "file " + base + " seq 1 type b\n"
	return os.WriteFile(filepath.Join(folder, "appendonly.aof.manifest"), []byte(manifest), 0o600)
}
