package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// Replicated are settings of a MariaDB server that has replicas.
var Replicated = []string{"log-bin=binlog", "sync-binlog=1", "log-slave-updates", "gtid-strict-mode=1"}

// StartMariaDBReplica starts a read-only replica of a server with the settings Replicated, and
// waits until it has all data. It is asynchronous, until the server is given SemiSynchronous.
func StartMariaDBReplica(t testing.TB, primary *MariaDB, settings ...string) *MariaDB {
	t.Helper()
	m := StartMariaDB(t, slices.Concat(Replicated, []string{"read-only=1"}, settings)...)
	m.Query(fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %d, MASTER_USER = '%s', MASTER_PASSWORD = '%s', "+
		"MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1", primary.port, sqlAdmin, sqlPassword))
	m.Query("START SLAVE")
	primary.AwaitReplica(m)
	return m
}

// AwaitReplica waits until a replica has applied everything that the server has written.
func (m *MariaDB) AwaitReplica(replica *MariaDB) {
	m.t.Helper()
	written := m.Query("SELECT @@gtid_binlog_pos")
	replica.await("apply "+written, func(ctx context.Context) error {
		// 0 is success, and -1 no success in that time.
		done, err := replica.query(ctx, fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', 5)", written))
		if err == nil && done != "0" {
			err = errors.New("it has not yet")
		}
		return err
	})
}

// Detach makes a replica stop to receive changes. What the primary writes from now on is lost if
// the replica is promoted.
func (m *MariaDB) Detach() {
	m.t.Helper()
	m.Query("STOP SLAVE IO_THREAD")
}

// Promote makes a replica a server of its own that takes writes. What the replica has received is
// applied first, because RESET SLAVE would delete it.
func (m *MariaDB) Promote() {
	m.t.Helper()
	m.Query("STOP SLAVE IO_THREAD")
	m.await("apply what was received", func(ctx context.Context) error {
		row, err := m.row(ctx, "SHOW SLAVE STATUS")
		if err != nil {
			return err
		}
		received := value(row, "Gtid_IO_Pos")
		applied, err := m.query(ctx, fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', 5)", received))
		if err == nil && applied != "0" {
			err = fmt.Errorf("%s is not applied yet", received)
		}
		return err
	})
	for _, statement := range []string{"STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = 0"} {
		m.Query(statement)
	}
}

// value returns a column of a row, "" if there is none.
func value(row []field, name string) string {
	for _, f := range row {
		if f.name == name {
			return f.value
		}
	}
	return ""
}

// SemiSynchronous makes commits wait until the replica has received them, for ever, and waits until
// it is there. AFTER_SYNC means that others cannot see what the replica does not have.
func (m *MariaDB) SemiSynchronous(replica *MariaDB) {
	m.t.Helper()
	replica.Query("SET GLOBAL rpl_semi_sync_slave_enabled = 1")
	replica.Query("STOP SLAVE IO_THREAD")
	replica.Query("START SLAVE IO_THREAD")
	const forever = 1 << 32 // in ms
	for _, setting := range []string{"wait_point = AFTER_SYNC", "timeout = " + strconv.Itoa(forever-1), "wait_no_slave = 1", "enabled = 1"} {
		m.Query("SET GLOBAL rpl_semi_sync_master_" + setting)
	}
	m.await("have a replica that acknowledges", func(ctx context.Context) error {
		row, err := m.row(ctx, "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")
		if err == nil && (len(row) != 2 || row[1].value != "1") {
			err = fmt.Errorf("%v", row)
		}
		return err
	})
}

// MariaDBSnapshot is a copy of the data of a server.
type MariaDBSnapshot struct{ folder string }

// Snapshot copies the data of a server that was stopped or killed.
func (m *MariaDB) Snapshot() MariaDBSnapshot {
	m.t.Helper()
	m.ended("Snapshot")
	s := MariaDBSnapshot{folder: filepath.Join(m.t.TempDir(), "snapshot")}
	must(m.t, m, "copy the data", copyFolder(m.data, s.folder))
	return s
}

// RestoreSnapshot replaces the data of a server that was stopped or killed, as the restore of a
// backup does. Call Start after it.
func (m *MariaDB) RestoreSnapshot(s MariaDBSnapshot) {
	m.t.Helper()
	m.ended("RestoreSnapshot")
	must(m.t, m, "restore the snapshot", errors.Join(os.RemoveAll(m.data), copyFolder(s.folder, m.data)))
}

func (m *MariaDB) ended(what string) {
	m.t.Helper()
	if m.process.alive() {
		m.t.Fatalf("%s while the server runs: Kill it first", what)
	}
}
