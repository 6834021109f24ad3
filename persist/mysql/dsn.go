package mysql

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	driver "github.com/go-sql-driver/mysql"
)

// These replace the errors of the client library for a DSN: they may quote parts of the password.
var (
	errParse    = errors.New("it cannot be read as a data source name such as user:password@tcp(host:3306)/database?tls=true")
	errEmpty    = errors.New("it is empty; set it to a data source name such as user:password@tcp(host:3306)/database")
	errURL      = errors.New("it is a URL, and the driver of MySQL wants a data source name such as user:password@tcp(host:3306)/database?tls=true")
	errDatabase = errors.New("it names no database: add its name after the slash, as in user:password@tcp(host:3306)/database")
	errOther    = errors.New("it sets a parameter that seqd does not know; leave it out")
	errOld      = errors.New("it sets allowOldPasswords, which sends passwords that can be guessed; leave it out")
	errClear    = errors.New("it sets allowCleartextPasswords without tls=true, which sends a password that can be read")
	errFiles    = errors.New("it sets allowAllFiles, which lets the server read files of this machine; leave it out")
	errMulti    = errors.New("it sets multiStatements, which seqd does not need; leave it out")
	errTwice    = errors.New("it sets a parameter twice; leave one out")
	errReject   = errors.New("it sets rejectReadOnly, which hides why a write failed; leave it out")
)

// parameters are the variables that a DSN may set for the session.
var parameters = []string{
	"time_zone", "wait_timeout", "net_read_timeout", "net_write_timeout", "lock_wait_timeout", "innodb_lock_wait_timeout",
	"max_execution_time", "max_statement_time",
}

// weakening are the variables that only weaken what seqd relies on.
var weakening = []string{
	"autocommit", "completion_type", "sql_log_bin", "sql_mode", "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only",
	"innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "default_storage_engine", "unique_checks", "foreign_key_checks",
	"wsrep_on", "wsrep_sync_wait", "wsrep_osu_method",
}

// parseDSN reads a data source name and checks what it asks for. It does not use the network. No
// error shows a part of it.
func parseDSN(dsn string) (*driver.Config, error) {
	switch scheme, _, isURL := strings.Cut(dsn, "://"); {
	case strings.TrimSpace(dsn) == "":
		return nil, errEmpty
	case isURL && !strings.ContainsAny(scheme, ":@(/"):
		return nil, errURL
	case strings.Contains(dsn, "?strict=") || strings.Contains(dsn, "&strict="):
		return nil, errOther // the library had this parameter once, and panics now
	case twice(dsn):
		return nil, errTwice // the library takes the last one
	}
	cfg, err := driver.ParseDSN(dsn)
	switch {
	case err != nil, cfg.Net != "tcp" && cfg.Net != "unix":
		return nil, errParse
	case cfg.DBName == "":
		return nil, errDatabase
	case cfg.AllowOldPasswords:
		return nil, errOld
	case cfg.AllowCleartextPasswords && (cfg.TLS == nil || cfg.TLS.InsecureSkipVerify):
		return nil, errClear
	case cfg.AllowAllFiles:
		return nil, errFiles
	case cfg.MultiStatements:
		return nil, errMulti
	case cfg.RejectReadOnly:
		return nil, errReject
	}
	return cfg, checkParameters(cfg.Params)
}

// twice reports whether a data source name sets a parameter twice.
func twice(dsn string) bool {
	_, query, _ := strings.Cut(dsn[strings.LastIndexByte(dsn, '/')+1:], "?")
	seen := make(map[string]bool)
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if seen[name] {
			return true
		}
		seen[name] = true
	}
	return false
}

// serverOf returns the address of the server that a data source name names, and the database; both
// are "" if it cannot be read.
func serverOf(dsn string) (addr, database string) {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return "", ""
	}
	return cfg.Addr, cfg.DBName
}

// checkParameters refuses the session variables that seqd cannot accept.
func checkParameters(params map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch lower := strings.ToLower(name); {
		case slices.Contains(weakening, lower):
			return fmt.Errorf("it sets %s, which can weaken what numbers rely on; leave it out", lower)
		case !slices.Contains(parameters, lower):
			return errOther
		}
	}
	return nil
}
