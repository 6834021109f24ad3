// Package mysql is a store in a MySQL or MariaDB database that many nodes share. A counter is one
// row, and a range is allocated by one UPDATE.
//
// One server takes all writes. It can have any number of replicas, and one of them can take over.
// Then the fence is another one (fence.go), and what was written under the former one may be lost;
// see [persist.Fenced]. Of several servers that take writes at once,
// such as the nodes of Galera or of a replication group with many primaries, each has an identity of
// its own. So if nodes use more than one of them, only Options.Lossless is possible.
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
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// Options configures a store.
type Options struct {
	// DSN is the connection string, with credentials and TLS if needed. It must not weaken
	// durability.
	DSN string
	// Timeout bounds every operation; more than 0.
	Timeout time.Duration
	// MaxConnections is the most connections that are opened; more than 0.
	MaxConnections int
	// Lossless states that no failover of the server loses an acknowledged write. Open refuses it
	// if the server is not set up so.
	Lossless bool
	// Unreached opens the store even if it cannot be reached now: its operations return
	// persist.ErrUnavailable until it can.
	Unreached bool
	// ReadOnly opens the store to look at it. The schema is not created or changed.
	ReadOnly bool
	// Admit, unless nil, is called before every operation. If it returns an error, the operation
	// returns that error and does nothing.
	Admit func(context.Context) error
	// Now is the clock of the timestamps.
	Now func() time.Time
	// Trace, unless nil, is called before each statement is sent, with its name. The function that
	// it returns is called when the statement is done.
	Trace func(ctx context.Context, statement string) func(error)
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

// CheckDSN returns an error if the connection string cannot be read or asks for less than seqd
// needs. It does not use the network. No error shows a part of the string.
func CheckDSN(dsn string) error {
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
	s, err := sqlstore.Open(ctx, db, dialect(opts), sqlstore.Options{
		Describe: "mysql: numbers are unique over all nodes that share the database " + where,
		Timeout:  opts.Timeout, Lossless: opts.Lossless, Unreached: opts.Unreached, ReadOnly: opts.ReadOnly, Admit: opts.Admit, Now: opts.Now,
	})
	if err != nil {
		return nil, fmt.Errorf("store.mysql.dsn: open the database %s: %w", where, err)
	}
	return &Store{s, db}, nil
}
