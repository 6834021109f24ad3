package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// StartStandby starts a standby of a server, with the data that the server has now, and waits until
// it receives everything else as it is written. It is asynchronous, until the server is given
// Synchronous.
func StartStandby(t testing.TB, primary *Postgres, settings ...string) *Postgres {
	t.Helper()
	p := newPostgres(t, "")
	must(t, p, "copy the primary", run(p.command("pg_basebackup", primary.source(), "--pgdata="+p.data,
		"--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf")))
	p.Configure(append([]string{"hot_standby_feedback = on"}, settings...)...)
	p.Start()
	p.await("receive the changes of "+primary.name, func(ctx context.Context) error { return p.receives(ctx, true) })
	return p
}

// source is the argument of pg_basebackup that names the server.
func (p *Postgres) source() string {
	return fmt.Sprintf("--dbname=host=127.0.0.1 port=%d user=%s", p.port, sqlAdmin)
}

// receives returns an error unless a standby receives changes, or does not.
func (p *Postgres) receives(ctx context.Context, want bool) error {
	state, err := p.query(ctx, "SELECT coalesce(max(status), '') FROM pg_stat_wal_receiver")
	if err == nil && (state == "streaming") != want {
		err = fmt.Errorf("its receiver is %q", state)
	}
	return err
}

// Detach makes a standby stop to receive changes. What the primary writes from now on is lost if
// the standby is promoted.
func (p *Postgres) Detach() {
	p.t.Helper()
	p.Query("ALTER SYSTEM SET primary_conninfo = ''") // stronger than what pg_basebackup wrote
	p.Reload()
	p.await("stop to receive", func(ctx context.Context) error { return p.receives(ctx, false) })
}

// Promote makes a standby a primary, on a new timeline, and waits until it takes writes.
func (p *Postgres) Promote() {
	p.t.Helper()
	if p.Query("SELECT pg_promote(true, 170)") != "t" {
		p.t.Fatalf("%s was not promoted\n%s", p.name, lastOf(p.Log()))
	}
	p.awaitPrimary()
}

// Demote makes a running server a standby of no server, so that it refuses writes until it is given
// Promote.
func (p *Postgres) Demote() {
	p.t.Helper()
	p.Stop()
	signal := filepath.Join(p.data, "standby.signal")
	must(p.t, p, "write standby.signal", errors.Join(os.WriteFile(signal, nil, 0o600), giveTo(p.user, signal)))
	p.Start()
}

// awaitPrimary waits until the server takes writes.
func (p *Postgres) awaitPrimary() {
	p.t.Helper()
	p.await("take writes", func(ctx context.Context) error {
		recovers, err := p.query(ctx, "SELECT pg_is_in_recovery()")
		if err == nil && recovers != "f" {
			err = errors.New("it recovers")
		}
		return err
	})
}

// Synchronous makes commits wait for one standby, and waits until one is there.
func (p *Postgres) Synchronous() {
	p.t.Helper()
	p.Configure("synchronous_standby_names = '*'")
	p.Reload()
	p.await("have a synchronous standby", func(ctx context.Context) error {
		count, err := p.query(ctx, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")
		if err == nil && count != "1" {
			err = fmt.Errorf("it has %s", count)
		}
		return err
	})
	// Whether commits wait is up to the checkpointer, which reads its settings before a checkpoint. It
	// may have been about to begin the first one.
	p.Query("CHECKPOINT")
	p.Query("CHECKPOINT")
}

// AwaitStandby waits until a standby has applied everything that the server has written.
func (p *Postgres) AwaitStandby(standby *Postgres) {
	p.t.Helper()
	written := p.Query("SELECT pg_current_wal_flush_lsn()") // the place of the next insert can be above a page header
	standby.await("apply "+written, func(ctx context.Context) error {
		applied, err := standby.query(ctx, fmt.Sprintf("SELECT pg_last_wal_replay_lsn() >= '%s'", written))
		if err == nil && applied != "t" {
			err = errors.New("it has not yet")
		}
		return err
	})
}

// Archive is a base backup of a server and all that the server has written since, for a restore to
// a point in time.
type Archive struct {
	t      testing.TB
	folder string
}

// NewArchive makes an empty archive.
func NewArchive(t testing.TB) *Archive {
	t.Helper()
	user, err := unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	return &Archive{t: t, folder: userFolder(t, user)}
}

// Settings are those of the server that writes to the archive.
func (a *Archive) Settings() []string {
	return []string{"archive_mode = on", fmt.Sprintf("archive_command = 'test ! -f %[1]s/%%f && cp %%p %[1]s/%%f'", a.folder)}
}

// Backup makes the base backup.
func (a *Archive) Backup(p *Postgres) {
	a.t.Helper()
	must(a.t, p, "back up "+p.name, run(p.command("pg_basebackup", p.source(), "--pgdata="+a.base(),
		"--checkpoint=fast", "--no-sync", "--wal-method=none")))
}

func (a *Archive) base() string { return filepath.Join(a.folder, "base") }

// Point archives everything that the server has written so far, and names this moment.
func (a *Archive) Point(p *Postgres, name string) {
	a.t.Helper()
	p.Query(fmt.Sprintf("SELECT pg_create_restore_point('%s')", name))
	file := p.Query("SELECT pg_walfile_name(pg_switch_wal())")
	p.await("archive "+file, func(ctx context.Context) error {
		last, err := p.query(ctx, "SELECT coalesce(last_archived_wal, '') FROM pg_stat_archiver")
		if err == nil && last < file {
			err = fmt.Errorf("the last one is %q", last)
		}
		return err
	})
}

// Restore replaces the data of a killed server by that of a named moment, and starts it. It then
// takes writes, on a new timeline.
func (a *Archive) Restore(p *Postgres, point string, settings ...string) {
	a.t.Helper()
	if p.process.alive() {
		a.t.Fatal("Restore while the server runs: Kill it first")
	}
	p.forget()
	must(a.t, p, "remove the data", os.RemoveAll(p.data))
	must(a.t, p, "copy the backup", errors.Join(copyFolder(a.base(), p.data), os.WriteFile(filepath.Join(p.data, "recovery.signal"), nil, 0o600)))
	must(a.t, p, "give the data to the server", giveTo(p.user, p.data))
	p.Configure(append(slices.Clone(settings), fmt.Sprintf("restore_command = 'cp %s/%%f %%p'", a.folder),
		"recovery_target_name = '"+point+"'", "recovery_target_action = promote")...)
	p.Start()
	p.awaitPrimary()
}
