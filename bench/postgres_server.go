package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresFolders are where Debian keeps the programs of PostgreSQL.
const postgresFolders = "/usr/lib/postgresql/*/bin/"

// postgresProgram returns the path of a program of PostgreSQL, of the newest version there is.
func postgresProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob(postgresFolders + name) // the pattern is a good one
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s, neither in the path nor in %s", name, postgresFolders)
	}
	return slices.Max(found), nil
}

// startPostgres starts a new PostgreSQL server. Its settings are those of initdb: every commit
// waits for the disk.
func (s *servers) startPostgres(ctx context.Context) error {
	data, err := s.folder()
	if err != nil {
		return err
	}
	who, err := unprivileged(data)
	if err != nil {
		return err
	}
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return err
	}
	init := exec.CommandContext(ctx, initdb, "-D", data, "-U", "seqd", "-A", "trust", "-E", "UTF8", "--locale=C")
	init.Dir, init.SysProcAttr = data, &syscall.SysProcAttr{Credential: who}
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	server, err := postgresProgram("postgres")
	if err != nil {
		return err
	}
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	c, err := startChildAs(ctx, who, data, nil, server, "-D", data, "-p", port, "-k", data, "-c", "listen_addresses=127.0.0.1")
	if err != nil {
		return err
	}
	s.cleanUps = append(s.cleanUps, c.stop)
	if err := c.await(ctx, addr); err != nil {
		return err
	}
	s.postgresAddr = addr
	return s.awaitPostgres(ctx)
}

// database returns the URL of a database.
func (s *servers) database(name string) string {
	return "postgres://seqd@" + s.postgresAddr + "/" + name
}

// onPostgres returns the settings of a node on a new database. With Redis, strict numbers come from
// a cursor there, and without it from the store itself.
func (s *servers) onPostgres(ctx context.Context, name string, redis bool) ([]string, error) {
	env := []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + s.database(name)}
	if redis {
		env = append(env, "SEQD_REDIS_ADDRS="+s.redisAddr, "SEQD_REDIS_KEYPREFIX="+name+":")
	}
	return env, s.createDatabase(ctx, name)
}

// awaitPostgres waits until the server, which listens earlier, answers.
func (s *servers) awaitPostgres(ctx context.Context) error {
	for {
		c, err := pgx.Connect(ctx, s.database("postgres"))
		if err == nil {
			return c.Close(ctx)
		}
		server, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || server.Code != startingUp {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startingUp is the server's code for "not yet".
const startingUp = "57P03"

// createDatabase creates an empty database.
func (s *servers) createDatabase(ctx context.Context, name string) error {
	pool, err := pgxpool.New(ctx, s.database("postgres"))
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "CREATE DATABASE "+name)
	return err
}

// unprivileged returns the user that runs PostgreSQL, which refuses root, and makes it the owner of
// a folder. It returns nil if this process is not root.
func unprivileged(folder string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	err = errors.Join(uidErr, gidErr, os.Chown(folder, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
