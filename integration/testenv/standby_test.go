package testenv_test

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
)

func TestStandbyLosesWhatItDidNotReceive(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	conn := openPostgres(t, primary.URL())
	sqlCounter(t, conn)
	standby := testenv.StartStandby(t, primary)
	if _, err := takeSQL(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.AwaitStandby(standby)
	standby.Detach()
	if _, err := takeSQL(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	standby.Promote()
	if got := standby.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
	if max, err := takeSQL(t.Context(), openPostgres(t, testenv.PostgresURL(primary.Addr(), standby.Addr()))); err != nil || max != 2 {
		t.Errorf("%d, %v", max, err)
	}
	if got := standby.Query("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"); got != "00000002" {
		t.Errorf("the timeline is %s", got)
	}
}

func TestSynchronousStandbyHasEverything(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	primary := testenv.StartPostgres(t)
	conn := openPostgres(t, primary.URL())
	sqlCounter(t, conn)
	standby := testenv.StartStandby(t, primary)
	primary.Synchronous()
	if _, err := takeSQL(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	standby.Promote()
	if got := standby.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
}

func TestArchiveRestoresAPoint(t *testing.T) {
	t.Parallel()
	archive := testenv.NewArchive(t)
	p := testenv.StartPostgres(t, archive.Settings()...)
	conn := openPostgres(t, p.URL())
	sqlCounter(t, conn)
	archive.Backup(p)
	for _, point := range []string{"one", "two"} {
		if _, err := takeSQL(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		archive.Point(p, point)
	}
	p.Kill()
	archive.Restore(p, "one")
	if got := p.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
	if max, err := takeSQL(t.Context(), openPostgres(t, p.URL())); err != nil || max != 2 {
		t.Errorf("%d, %v", max, err)
	}
}

func TestMariaDBReplicaLosesWhatItDidNotReceive(t *testing.T) {
	t.Parallel()
	primary := testenv.StartMariaDB(t, testenv.Replicated...)
	conn := openMariaDB(t, primary.DSN())
	mariaDBCounter(t, conn)
	replica := testenv.StartMariaDBReplica(t, primary)
	if _, err := takeMariaDB(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.AwaitReplica(replica)
	if _, err := takeMariaDB(t.Context(), openMariaDB(t, replica.DSN())); err == nil {
		t.Error("a replica takes writes")
	}
	replica.Detach()
	if _, err := takeMariaDB(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	replica.Promote()
	if max, err := takeMariaDB(t.Context(), openMariaDB(t, replica.DSN())); err != nil || max != 2 {
		t.Errorf("%d, %v", max, err)
	}
}

func TestSemiSynchronousReplicaHasEverything(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	primary := testenv.StartMariaDB(t, testenv.Replicated...)
	conn := openMariaDB(t, primary.DSN())
	mariaDBCounter(t, conn)
	replica := testenv.StartMariaDBReplica(t, primary)
	primary.SemiSynchronous(replica)
	if _, err := takeMariaDB(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	replica.Promote()
	if got := replica.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
}

func TestMariaDBSnapshot(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := testenv.StartMariaDB(t)
	mariaDBCounter(t, openMariaDB(t, m.DSN()))
	m.Stop()
	old := m.Snapshot()
	m.Start()
	if _, err := takeMariaDB(t.Context(), openMariaDB(t, m.DSN())); err != nil {
		t.Fatal(err)
	}
	m.Kill()
	m.RestoreSnapshot(old)
	m.Start()
	if got := m.Query("SELECT max FROM counters"); got != "0" {
		t.Errorf("max is %s", got)
	}
}
