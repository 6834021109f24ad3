package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mariaDBFolder is where Debian keeps the server.
const mariaDBFolder = "/usr/sbin"

// mariaDBProgram returns the path of a program of MariaDB.
func mariaDBProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(filepath.Join(mariaDBFolder, name))
	if err != nil {
		return "", fmt.Errorf("there is no %s, neither in the path nor in %s", name, mariaDBFolder)
	}
	return path, nil
}

// startMariaDB starts a new MariaDB server with the given databases. Its settings are the defaults:
// every commit waits for the disk.
func (b *backends) startMariaDB(ctx context.Context, databases ...string) error {
	data, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return err
	}
	b.cleanUps = append(b.cleanUps, func() error { return os.RemoveAll(data) })
	who := "--user=" // the present user; root must be named
	if os.Getuid() == 0 {
		who += "root"
	}
	installer, err := mariaDBProgram("mariadb-install-db")
	if err != nil {
		return err
	}
	users := filepath.Join(data, "users.sql")
	statements := "FLUSH PRIVILEGES;\nCREATE USER 'seqd'@'%' IDENTIFIED BY 'seqd';\nGRANT ALL ON *.* TO 'seqd'@'%';\n"
	for _, name := range databases {
		statements += "CREATE DATABASE " + name + ";\n"
	}
	if err := os.WriteFile(users, []byte(statements), 0o600); err != nil {
		return err
	}
	files := "--datadir=" + filepath.Join(data, "data")
	install := exec.CommandContext(ctx, installer, "--no-defaults", who, files, "--skip-test-db", "--auth-root-authentication-method=normal", "--extra-file="+users)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, out)
	}
	server, err := mariaDBProgram("mariadbd")
	if err != nil {
		return err
	}
	if b.mariaDBAddr, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(b.mariaDBAddr)
	return b.start(ctx, b.mariaDBAddr, nil, server, "--no-defaults", who, files, "--socket="+filepath.Join(data, "socket"),
		"--bind-address=127.0.0.1", "--port="+port, "--skip-name-resolve")
}

// dsn returns the connection string of a database on the MariaDB server.
func (b *backends) dsn(database string) string {
	return "seqd:seqd@tcp(" + b.mariaDBAddr + ")/" + database
}

// openMariaDB returns a pool of connections to a database on the MariaDB server.
func (b *backends) openMariaDB(ctx context.Context, database string, connections int) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(b.dsn(database))
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams, cfg.Timeout = true, 10*time.Second // one round trip for each statement
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	if err := pool.PingContext(ctx); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	b.cleanUps = append(b.cleanUps, pool.Close)
	return pool, nil
}
