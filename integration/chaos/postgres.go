package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
)

// postgres is a primary and a standby of PostgreSQL.
type postgres struct {
	pair
	bin      string // the folder of the programs
	uid, gid int    // PostgreSQL refuses to run as root
}

// The database of the nodes and its owner.
const postgresDatabase = "seqd"

func newPostgres(w *world, lossy bool) (*postgres, error) {
	p := &postgres{pair: pair{port: postgresPort, lossy: lossy}}
	return p, inOrder(
		p.findPrograms,
		func() error { return p.create(w, "p", "320m") },
		func() error { return p.prepare(0) },
		func() error { return p.prepare(1) },
	)
}

// findPrograms finds the newest PostgreSQL that is installed, and a user for it.
func (p *postgres) findPrograms() error {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return errors.New("PostgreSQL is missing; install it: apt-get update && apt-get install -y postgresql")
	}
	p.bin = filepath.Dir(found[len(found)-1])
	if os.Getuid() != 0 {
		return errors.New("PostgreSQL needs a user of its own; run the laboratory as root")
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	p.uid, err = strconv.Atoi(who.Uid)
	if err == nil {
		p.gid, err = strconv.Atoi(who.Gid)
	}
	return err
}

// prepare says how a server is run.
func (p *postgres) prepare(i int) error {
	s := p.servers[i]
	s.command = func() *exec.Cmd { return p.program(s, "postgres", p.settings(i)...) }
	s.ready = func() error { _, err := p.ask(s, "postgres", "SELECT 1"); return err }
	return os.Chown(s.disk, p.uid, p.gid)
}

// settings returns the arguments of a server. Both have the same, because either may become the
// primary.
func (p *postgres) settings(i int) []string {
	s, other := p.servers[i], p.servers[1-i]
	values := []string{
		"listen_addresses=*", fmt.Sprintf("port=%d", postgresPort), "unix_socket_directories=" + s.disk,
		"max_connections=100", "shared_buffers=16MB", "wal_keep_size=64MB", "min_wal_size=16MB", "max_wal_size=64MB",
		"wal_receiver_timeout=5s", "wal_sender_timeout=5s", "wal_retrieve_retry_interval=200ms",
		fmt.Sprintf("primary_conninfo=host=%s port=%d user=postgres application_name=%s connect_timeout=2", other.host.addr, postgresPort, s.host.name),
	}
	if !p.lossy {
		values = append(values, "synchronous_standby_names=ANY 1 (p1, p2)")
	}
	args := []string{"-D", s.data()}
	for _, value := range values {
		args = append(args, "-c", value)
	}
	return args
}

// program returns a command that runs a program of PostgreSQL on a server's host.
func (p *postgres) program(s *storeServer, name string, args ...string) *exec.Cmd {
	as := []string{fmt.Sprintf("--reuid=%d", p.uid), fmt.Sprintf("--regid=%d", p.gid), "--clear-groups", filepath.Join(p.bin, name)}
	cmd := s.host.command("setpriv", append(as, args...)...)
	cmd.Dir = s.disk
	return cmd
}

// finish runs a program of PostgreSQL to its end.
func (p *postgres) finish(s *storeServer, name string, args ...string) error {
	out, err := p.program(s, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s on %s: %w: %s", name, s.host.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// ask runs a statement and returns what it printed. It uses the server's socket, without faults of
// the network, and does not wait for the standby.
func (p *postgres) ask(s *storeServer, database, statement string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "psql"), "-X", "-A", "-t", "-q", "-h", s.disk, "-U", "postgres", "-d", database, "-c", statement)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c synchronous_commit=local", "PGCONNECT_TIMEOUT=2")
	out, err := cmd.Output()
	if ended, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%q on %s: %w: %s", statement, s.host.name, err, strings.TrimSpace(string(ended.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

func (p *postgres) env(addr string) []string {
	return []string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_FAILOVER=" + p.failover(),
		fmt.Sprintf("SEQD_STORE_POSTGRES_URL=postgres://%s@%s/%s?sslmode=disable", postgresDatabase, addr, postgresDatabase),
	}
}

// start makes a cluster and its standby.
func (p *postgres) start() error {
	s := p.primary()
	access := "local all all trust\nhost all all " + subnet + "0/24 trust\nhost replication all " + subnet + "0/24 trust\n"
	return inOrder(
		func() error {
			return p.finish(s, "initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--wal-segsize=1")
		},
		func() error { return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(access), 0o600) },
		s.start,
		func() error {
			_, err := p.ask(s, "postgres", "CREATE ROLE "+postgresDatabase+" LOGIN IN ROLE pg_monitor")
			return err
		},
		func() error {
			_, err := p.ask(s, "postgres", "CREATE DATABASE "+postgresDatabase+" OWNER "+postgresDatabase)
			return err
		},
		p.rebuild,
	)
}

// failOver promotes the standby, and leads the nodes there.
func (p *postgres) failOver() error {
	promoted, err := p.ask(p.standby(), "postgres", "SELECT pg_promote(true, 30)")
	if err == nil && promoted != "t" {
		err = errors.New("the standby was not promoted")
	}
	if err != nil {
		return err
	}
	return p.swap()
}

// rebuild makes a standby from the primary, and waits until it receives what is written.
func (p *postgres) rebuild() error {
	s := p.standby()
	if s.process != nil {
		s.process.kill()
	}
	return inOrder(
		func() error { return os.RemoveAll(s.data()) },
		func() error {
			return p.finish(s, "pg_basebackup", "-D", s.data(), "-h", p.primary().host.addr, "-p", fmt.Sprint(postgresPort), "-U", "postgres", "-X", "stream", "-c", "fast", "--no-sync")
		},
		func() error { return os.WriteFile(filepath.Join(s.data(), "standby.signal"), nil, 0o644) },
		s.start,
		func() error { return within(patience, p.streaming) },
	)
}

// streaming returns an error until the standby receives what is written.
func (p *postgres) streaming() error {
	count, err := p.ask(p.primary(), "postgres", "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")
	if err == nil && count != "1" {
		err = fmt.Errorf("%s standbys", count)
	}
	return err
}

// backup uses pg_dump, as docs/STORES.md says.
func (p *postgres) backup(ctx context.Context) (putBack func(context.Context) error, err error) {
	s := p.primary()
	args := func(more ...string) []string { return append([]string{"-h", s.disk, "-U", "postgres"}, more...) }
	dump, err := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_dump"), args("-Fc", postgresDatabase)...).Output()
	return func(ctx context.Context) error {
		s = p.primary() // there may have been a failover
		cmd := exec.CommandContext(ctx, filepath.Join(p.bin, "pg_restore"), args("--clean", "--if-exists", "--single-transaction", "-d", postgresDatabase)...)
		cmd.Stdin = strings.NewReader(string(dump))
		out, err := cmd.CombinedOutput()
		return named("pg_restore: "+strings.TrimSpace(string(out)), err)
	}, named("pg_dump", err)
}

func (p *postgres) counters(context.Context) (map[string]int64, error) {
	text, err := p.ask(p.primary(), postgresDatabase, "SELECT convert_from(name, 'UTF8') || ' ' || highest FROM seqd_counters")
	if err != nil {
		return nil, err
	}
	return readMaxima(text)
}
