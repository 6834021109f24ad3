package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd/persist"
)

// These replace the errors of the client library for a URL: they may quote parts of the password.
var (
	errParse  = errors.New("it cannot be read as a connection string such as postgres://user:password@host:5432/database?sslmode=verify-full; escape special characters of the password")
	errScheme = errors.New("it is not the address of a PostgreSQL server: it must begin with postgres://, or have the form host=… user=… dbname=…")
	errEmpty  = errors.New("it is empty; set it to a connection string such as postgres://user:password@host:5432/database")
	errOther  = errors.New("it sets a parameter that seqd does not know; leave it out")
	errTwice  = errors.New("it sets a parameter twice; leave one out")
	errPool   = errors.New("it sets a parameter that begins with pool_; use store.postgres.maxConnections")
)

// parameters are those that a URL may set for the session.
var parameters = []string{
	"application_name", "search_path", "options", "timezone", "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout",
}

// weakening are the parameters that only weaken what seqd relies on.
var weakening = []string{
	"synchronous_commit", "fsync", "full_page_writes", "data_sync_retry", "zero_damaged_pages", "ignore_checksum_failure",
	"default_transaction_read_only", "transaction_read_only", "default_transaction_isolation", "transaction_isolation", "session_replication_role",
}

// parseURL reads a connection string and checks what it asks for. It does not use the network. No
// error shows a part of the string.
func parseURL(text string) (*pgxpool.Config, error) {
	if err := checkScheme(text); err != nil {
		return nil, err
	}
	conn, err := pgx.ParseConfig(text)
	switch {
	case err != nil:
		return nil, unread(err)
	case twice(text):
		return nil, errTwice // psql takes the last one, and the library the first one
	}
	if strings.Contains(conn.Database, "@") {
		return nil, errParse // a part of the password: it has a slash that is not escaped
	}
	if err := checkParameters(conn.RuntimeParams); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errParse
	}
	if severalHosts(cfg.ConnConfig) {
		// The one that takes writes is used, whatever target_session_attrs says.
		cfg.ConnConfig.ValidateConnect = writable
	} else {
		cfg.ConnConfig.ValidateConnect = nil // settingsCheck says it better
	}
	return cfg, nil
}

// unread returns the error for a connection string that the library cannot read. A file that it
// names may come later.
func unread(err error) error {
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, file)
	}
	return errParse
}

// twice reports whether a URL sets a parameter twice.
func twice(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false // it is none
	}
	for _, values := range u.Query() {
		if len(values) > 1 {
			return true
		}
	}
	return false
}

// serverOf returns the addresses of the servers that a connection string names, and the database;
// both are "" if it cannot be read.
func serverOf(text string) (addrs, database string) {
	parsed, err := parseURL(text)
	if err != nil {
		return "", ""
	}
	cfg := parsed.ConnConfig
	list := []string{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}
	for _, f := range cfg.Fallbacks {
		if addr := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !slices.Contains(list, addr) {
			list = append(list, addr)
		}
	}
	return strings.Join(list, ", "), cfg.Database
}

// severalHosts reports whether the connection string names more than one server.
func severalHosts(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// checkScheme refuses what the client library would take for keywords and values.
func checkScheme(text string) error {
	scheme, _, isURL := strings.Cut(text, "://")
	switch {
	case strings.TrimSpace(text) == "":
		return errEmpty
	case scheme == "postgres" || scheme == "postgresql":
		return nil
	case isURL && !strings.ContainsAny(scheme, "= "), !strings.Contains(text, "="):
		return errScheme
	}
	return nil
}

// checkParameters refuses the session parameters that seqd cannot accept.
func checkParameters(params map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch lower := strings.ToLower(name); {
		case slices.Contains(weakening, lower):
			return errWeakens(lower)
		case strings.HasPrefix(lower, "pool_"):
			return errPool
		case !slices.Contains(parameters, lower):
			return errOther
		}
	}
	// The server takes a backslash for a quote, and a dash in a name for an underscore.
	options := strings.ToLower(strings.NewReplacer("-", "_", "\\", "").Replace(params["options"]))
	for _, name := range weakening {
		if strings.Contains(options, name) {
			return errWeakens(name)
		}
	}
	return nil
}

func errWeakens(name string) error {
	return fmt.Errorf("it sets %s, which can weaken what numbers rely on; leave it out", name)
}

// writable returns an error unless a new connection can write.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, "SHOW transaction_read_only", nil, nil, nil, nil).Read()
	if result.Err != nil {
		return result.Err
	}
	if len(result.Rows) == 1 && string(result.Rows[0][0]) == "off" {
		return nil
	}
	return errors.New("the server is a standby or read only, and takes no writes")
}
