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
func (b *backends) startPostgres(ctx context.Context) error {
	data, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(data) })
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
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	b.cleanUps = append(b.cleanUps, c.stop)
	if err := c.await(ctx, addr); err != nil {
		return err
	}
	b.postgresURL = "postgres://seqd@" + addr + "/"
	if err := b.awaitPostgres(ctx); err != nil {
		return err
	}
	return b.createDatabase(ctx, "seqd")
}

// awaitPostgres waits until the server, which listens earlier, answers.
func (b *backends) awaitPostgres(ctx context.Context) error {
	for {
		c, err := pgx.Connect(ctx, b.postgresURL+"postgres")
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
func (b *backends) createDatabase(ctx context.Context, name string) error {
	pool, err := pgxpool.New(ctx, b.postgresURL+"postgres")
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
