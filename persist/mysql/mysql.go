// Package mysql is a store in a MySQL or MariaDB database that many nodes share. A counter is one
// row, and a range is allocated by one UPDATE.
//
// One server takes all writes. It can have any number of replicas, and one of them can take over.
// Then the fence is another one (fence.go), and what was written under the former one may be lost;
// see [persist.Fenced]. Of several servers that take writes at once, such as the nodes of Galera or
// of a replication group with many primaries, each has an identity of its own. So if nodes use more
// than one of them, only Options.Lossless is possible.
//
// The fence counts the failovers, as far as the server knows of them. If a server takes over that
// received nothing from the one before since that one took over, one failover is missing in the
// count, and if it is the former server itself, it notices no failover at all. So whatever fences a
// former server must keep it from that, or an operator raises the counters.
//
// A connection must lead to one server while it is open. A balancer of TCP connections does that. A
// proxy that sends single statements to several servers, as ProxySQL can, must send all of them to
// the one that takes the writes.
//
// The client library never sends a statement twice: [conn] hides from database/sql what it would
// repeat.
package mysql

import (
	"context"
	"fmt"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// Options configures a store.
type Options struct {
	// DSN is the connection string, with credentials and TLS if needed. It must not weaken
	// durability.
	DSN string
	// DSNFile is where user and password are read from for each connection, "" for DSN.
	DSNFile string
	sqlstore.Options
}

// Store is a [persist.Store] and [persist.Fenced] in one MySQL database, safe for concurrent use
// and for many processes.
type Store struct {
	*sqlstore.Store
	db *db
}

var (
	_ persist.Store  = (*Store)(nil)
	_ persist.Fenced = (*Store)(nil)
)

// checkDSN returns an error if the connection string cannot be read or asks for less than seqd
// needs. It does not use the network. No error shows a part of the string.
func checkDSN(dsn string) error {
	_, err := parseDSN(dsn)
	return err
}

// Open connects to the server, and creates or upgrades the schema. An error that wraps
// persist.ErrUnavailable can pass; any other needs an operator. No error contains the connection
// string, which may contain a password.
func Open(ctx context.Context, opts Options) (*Store, error) {
	db, where, err := connect(opts)
	if err != nil {
		return nil, fmt.Errorf("store.mysql.dsn: %w", err)
	}
	s, err := sqlstore.Open(ctx, db, dialect(opts), opts.Options,
		"mysql: numbers are unique over all nodes that share the database "+where)
	if err != nil {
		return nil, fmt.Errorf("store.mysql.dsn: open the database %s: %w", where, err)
	}
	return &Store{s, db}, nil
}
