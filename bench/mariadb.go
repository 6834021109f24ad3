package main

import (
	"context"
	"database/sql"
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
func (s *servers) startMariaDB(ctx context.Context, databases ...string) error {
	data, err := s.folder()
	if err != nil {
		return err
	}
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
	if s.mariaDBAddr, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(s.mariaDBAddr)
	_, err = s.start(ctx, s.mariaDBAddr, server, "--no-defaults", who, files, "--socket="+filepath.Join(data, "socket"),
		"--bind-address=127.0.0.1", "--port="+port, "--skip-name-resolve")
	return err
}

// dsn returns the connection string of a database on the MariaDB server.
func (s *servers) dsn(database string) string {
	return "seqd:seqd@tcp(" + s.mariaDBAddr + ")/" + database
}

// openMariaDB returns a pool of connections to a database.
func openMariaDB(ctx context.Context, dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
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
	return pool, pool.PingContext(ctx)
}
