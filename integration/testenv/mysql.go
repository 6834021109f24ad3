package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// MySQLServer is the environment variable that names the mysqld of MySQL that StartMySQL starts.
// scripts/mysql-versions sets it.
const MySQLServer = "SEQD_TEST_MYSQLD"

// mySQLSettings are mariaDBSettings for MySQL.
var mySQLSettings = []string{
	"bind-address=127.0.0.1", "socket=mysql.sock", "pid-file=mysql.pid", "skip-name-resolve", "mysqlx=OFF", "secure-file-priv=NULL",
	"innodb-redo-log-capacity=16M", "innodb-buffer-pool-size=32M", "innodb-buffer-pool-dump-at-shutdown=off", "max-connections=60",
}

var mySQLTemplate template

// StartMySQL starts the server of MySQL that MySQLServer names, or MariaDB if it names none. So the
// same tests run on each of them. See [StartMariaDB].
func StartMySQL(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	binary := os.Getenv(MySQLServer)
	if binary == "" {
		return StartMariaDB(t, settings...)
	}
	if _, err := exec.LookPath(binary); err != nil {
		t.Fatalf("%s: %v; run scripts/mysql-versions", MySQLServer, err)
	}
	m := &MariaDB{
		server: newServer(t, "mysql"), data: filepath.Join(t.TempDir(), "data"), temporary: t.TempDir(), binary: binary,
		settings: append(slices.Clone(mySQLSettings), settings...),
	}
	must(t, m, "create a database", mySQLTemplate.unpack(nil, m.initializeMySQL, m.data))
	m.Start()
	return m
}

// initializeMySQL makes a new data folder, with the database and its users. Each server that is
// started on a copy of it draws an identity of its own.
func (m *MariaDB) initializeMySQL(folder string) error {
	file := folder + ".sql"
	if err := os.WriteFile(file, []byte(strings.Join(mySQLUsers(), "\n")), 0o600); err != nil {
		return err
	}
	args := []string{"--no-defaults", "--initialize-insecure", "--user=" + userName(), "--datadir=" + folder, "--init-file=" + file}
	for _, setting := range mySQLSettings {
		args = append(args, "--"+setting)
	}
	if err := run(ownTemporary(folder, m.binary, args...)); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(folder, "auto.cnf"))
}

// mySQLUsers are the statements that create the database and its users.
func mySQLUsers() []string {
	return []string{
		fmt.Sprintf("CREATE DATABASE %s CHARACTER SET utf8mb4;", sqlName),
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';", sqlName, sqlPassword),
		fmt.Sprintf("GRANT ALL ON %s.* TO '%s'@'%%';", sqlName, sqlName),
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s';", sqlAdmin, sqlPassword),
		fmt.Sprintf("GRANT ALL ON *.* TO '%s'@'%%' WITH GRANT OPTION;", sqlAdmin),
	}
}

// NewDSN creates another empty database, which belongs to the ordinary user, and returns its
// connection string.
func (m *MariaDB) NewDSN() string {
	m.t.Helper()
	name := Unique()
	m.Query("CREATE DATABASE " + name)
	m.Query(fmt.Sprintf("GRANT ALL ON %s.* TO '%s'@'%%'", name, sqlName))
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", sqlName, sqlPassword, m.Addr(), name)
}
