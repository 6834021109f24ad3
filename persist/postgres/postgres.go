// Package postgres is a store in a PostgreSQL database that many nodes share. A counter is one row,
// and a range is allocated by one UPDATE … RETURNING. It uses nothing that depends on a session, so
// that a pooler such as pgbouncer may give each transaction another connection.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// Options configures a store.
type Options struct {
	// URL is the connection string, with credentials and TLS if needed. It must not weaken
	// durability.
	URL string
	// URLFile is where user and password are read from for each connection, "" for URL.
	URLFile string
	sqlstore.Options
}

// Store is a [persist.Store] and [persist.Fenced] in one PostgreSQL database, safe for concurrent
// use and for many processes.
type Store struct {
	*sqlstore.Store
	db *db
}

var (
	_ persist.Store  = (*Store)(nil)
	_ persist.Fenced = (*Store)(nil)
)

// CheckURL returns an error if the connection string cannot be read or asks for less than seqd
// needs. It does not use the network. No error shows a part of the string. If it names a file that
// cannot be read now, [Open] checks the rest.
func CheckURL(url string) error {
	_, err := parseURL(url)
	if errors.Is(err, persist.ErrUnavailable) {
		return nil
	}
	return err
}

// Open connects to the server, and creates or upgrades the schema. An error that wraps
// persist.ErrUnavailable can pass; any other needs an operator. No error contains the connection
// string, which may contain a password.
func Open(ctx context.Context, opts Options) (*Store, error) {
	db, where, err := connect(opts)
	if err != nil {
		return nil, fmt.Errorf("store.postgres.url: %w", err)
	}
	s, err := sqlstore.Open(ctx, db, dialect(db, opts.ReadOnly, opts.ReadOnly || opts.PastShut), opts.Options,
		"postgres: numbers are unique over all nodes that share the database "+where)
	if err != nil {
		return nil, fmt.Errorf("store.postgres.url: open the database %s: %w", where, err)
	}
	return &Store{s, db}, nil
}
