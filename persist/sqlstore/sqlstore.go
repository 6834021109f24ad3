// Package sqlstore is what stores in SQL databases share. A driver such as persist/postgres brings
// a [DB], which sends statements, and a [Dialect], which says what its database writes differently.
// Here is everything else, written once:
//
//   - schema.go: the tables are created and upgraded by whichever node comes first, and the fence
//     of the last failover that an operator confirmed is kept, as well as the first one of all;
//   - counters.go: counters, all but the statement that allocates a range;
//   - documents.go, history.go: documents and what was issued;
//   - slots.go: registries of machine IDs.
//
// Names, keys and texts are kept as bytes: they may contain any character, and are compared and
// ordered as bytes. Every statement reads or writes by an index, and none depends on a session, so
// that a pooler may give each transaction another connection.
//
// # Adding a database
//
// The statements here use what PostgreSQL and MySQL have in common: LIMIT, FOR UPDATE, a SELECT
// without FROM, several rows in one VALUES, and an empty text that is not NULL. SQL Server has no
// LIMIT and no FOR UPDATE; for Oracle an empty text is NULL. For such a database make what differs
// a field of [Dialect], as [Dialect.KeepFirst] is.
//
// The driver has to get these things right, or numbers are issued twice:
//
//   - DB.Allocate is one statement. It compares the epoch and the fence, computes the maximum and
//     writes all of them. Of two at the same time, the second waits for the first, and then
//     computes with what the first one wrote, not with what it saw before.
//   - No statement is sent again unless it certainly was not run (U2). Look for retries in the
//     client library, its pool and a proxy.
//   - DB.Allocate returns nil only if the commit is durable, with the standby if the store is
//     lossless. If that is not certain, it returns persist.ErrUnavailable.
//   - Each new connection is checked: a server that can lose what it acknowledges is [Refused]
//     (S1). Settings that change while a connection is open make [Dialect.Fence] NULL.
//   - [Dialect.Fence] changes at each failover, and is read in the statement that compares it (S2).
package sqlstore

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Scan copies the columns of a row: into an *int64, a *string, a *[]byte, or a **int64 if the
// column can be NULL. The bytes of a NULL are nil.
type Scan func(columns ...any) error

// Conn sends statements. Each call sends one, in one round trip, and never repeats it unless it is
// certain that it was not run, as when the server has rolled it back because of others. A parameter
// is written as "?" and is an int64, a string for a column of text, or a []byte for a column of
// bytes. name is short and for people.
//
// Errors are those of package persist. One that breaks a unique key wraps persist.ErrExists.
type Conn interface {
	// Exec returns how many rows the statement inserted, matched or deleted. A statement without
	// parameters may be several.
	Exec(ctx context.Context, name, statement string, params ...any) (int64, error)
	// Query calls row for each row.
	Query(ctx context.Context, name, statement string, row func(Scan) error, params ...any) error
}

// DB is a database. It is safe for concurrent use.
type DB interface {
	// Conn runs each statement in a transaction of its own.
	Conn
	// Transact runs f in a transaction in which each statement sees what others have committed by
	// then, and commits it unless f returns an error. It calls f again if the server has rolled the
	// transaction back because of others.
	Transact(ctx context.Context, name string, f func(Conn) error) error
	// Alone runs f while no other process runs Alone in the same database. f changes tables. It
	// runs in a transaction if the database can change tables in one.
	Alone(ctx context.Context, name string, f func(Conn) error) error
	// Exclusively runs f, which changes seqd_schema, when no other process has a statement or a
	// transaction on the tables under way. What others begin meanwhile waits, and then sees what f did.
	Exclusively(ctx context.Context, name string, f func(Conn) error) error
	// Allocate makes the step of [persist.Counter.Allocated] with the row of a counter, atomically
	// and durably, and returns the new maximum. In the common case it is one statement. now is in
	// ms since the Unix epoch. The request is valid.
	//
	// If there is no row, or the row is of another format, has another epoch or has too few numbers
	// left, nothing changes and Allocate returns persist.ErrNotFound. The caller then reads the row
	// to find out which it is.
	Allocate(ctx context.Context, req persist.Request, now int64) (highest int64, err error)
	// Pool returns the state of the pool of connections.
	Pool() persist.Pool
	// Close ends all use and waits for what is under way. Then every statement returns
	// persist.ErrClosed.
	Close() error
}

// Dialect is what databases write differently.
type Dialect struct {
	// Fence is an expression for the fence of the server that runs the statement, a text of at most 64
	// ASCII characters; see [persist.Fence]. It is NULL if the server has not been announced as the
	// one that takes the writes, or has settings now that can lose what it acknowledges (S1). Then it
	// counts as a standby until a new connection announces or refuses it. While seqd_schema has the
	// [LosslessMark], it is the fence after the mark if nothing is lost, and NULL otherwise; but in a
	// store that is only looked at, and was told that something can be lost, it is that of the server. It
	// is NULL while there is the [ShutMark], unless the store is opened for reading or PastShut.
	Fence string
	// Failovers is an expression for how many failovers there were since a row of seqd_counters was
	// written, at least 1.
	Failovers string
	// SchemaFence is Fence in a statement on the one row of seqd_schema. It is not NULL because of the
	// mark.
	SchemaFence string
	// Holds is a condition with one parameter, a text: that it is the fence of the server that runs
	// the statement. A statement with it takes effect only if its commit is as durable as that of
	// DB.Allocate.
	Holds string
	// Clock is an expression for the time at which it is evaluated, in ms since the Unix epoch.
	Clock string
	// Standby is an expression that is not 0 if the server takes no writes, so that what it has may
	// be out of date, or if Fence is NULL.
	Standby string
	// Proof is an expression whose value is 0. A statement that contains it returns only when all
	// that the statement has read is as durable as an acknowledged write.
	Proof string
	// KeepFirst is the end of an INSERT that leaves a row that exists as it is.
	KeepFirst string
	// DeleteSome returns a statement that deletes the first rows of a table that a condition
	// selects, in an order. Its last parameter is how many at most.
	DeleteSome func(table, where, order string) string
	// HasTables reports whether the table seqd_schema exists. It is called before the first statement
	// with a table, and not any more when the tables are known to be those that this build needs.
	HasTables func(ctx context.Context, c Conn) (bool, error)
	// Steps are the versions of the schema: the statements in Steps[n] lead from version n to
	// version n+1, and end by recording that. They can be repeated.
	Steps []string
}

// Options are those that every driver has. It opens the connections as they say.
type Options struct {
	// Timeout bounds every operation; more than 0.
	Timeout time.Duration
	// MaxConnections is the most connections that are opened; more than 0.
	MaxConnections int
	// Lossless states that no failover of the server loses an acknowledged write. Opening a store
	// fails if the server is not set up so.
	Lossless bool
	// Unreached opens the store without using the database: its operations return
	// persist.ErrUnavailable until it can be reached. The first one checks the schema. It does not
	// create one: the caller knows the store, so an empty database is the wrong one.
	Unreached bool
	// ReadOnly opens the store to look at it. The schema is not created or changed.
	ReadOnly bool
	// Beside opens the store for a command that runs beside nodes. It never sets the [LosslessMark].
	Beside bool
	// PastShut opens the store for the command that moves it, as if it were not shut; see [ShutMark].
	PastShut bool
	// Admit, unless nil, is called before every operation. If it returns an error, the operation returns
	// that error and does nothing.
	Admit func(context.Context) error
	// Now is the clock of the timestamps.
	Now func() time.Time
	// Trace, unless nil, is called before each statement is sent, with its name. The function that
	// it returns is called when the statement is done.
	Trace func(ctx context.Context, statement string) func(error)
}

// Store is a [persist.Store] and [persist.Fenced] in a database.
type Store struct {
	*link
	promise   string
	counters  counters
	documents documents
	slots     slots
	history   history
}

var (
	_ persist.Store   = (*Store)(nil)
	_ persist.Fenced  = (*Store)(nil)
	_ persist.Shutter = (*Store)(nil)

	_ persist.CounterFiller = (*Store)(nil)
)

// Open creates or upgrades the schema, and returns the store, whose Describe returns promise. It
// closes db if it returns an error.
func Open(ctx context.Context, db DB, dialect Dialect, opts Options, promise string) (*Store, error) {
	s := New(db, dialect, opts)
	s.promise = promise
	if opts.Unreached {
		return s, nil
	}
	if err := s.reach(ctx); err != nil {
		_ = db.Close()
		return nil, err
	}
	return s, nil
}

// New returns the store without using the database.
func New(db DB, dialect Dialect, opts Options) *Store {
	l := &link{db: db, dialect: dialect, opts: opts}
	return &Store{link: l, counters: newCounters(l), documents: newDocuments(l), slots: slots{l}, history: history{l}}
}

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns what was issued.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Shared is true: any number of processes can use one database.
func (s *Store) Shared() bool { return true }

// Lossy is true unless the driver was told that a failover loses nothing.
func (s *Store) Lossy() bool { return !s.opts.Lossless }

// Describe says what the store promises.
func (s *Store) Describe() string { return s.promise }

// Close closes the connections.
func (s *Store) Close() error { return s.db.Close() }

// Now returns the time of the server.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	var ms int64
	err = s.query(ctx, "read clock", "SELECT "+s.dialect.Clock, func(scan Scan) error { return scan(&ms) })
	return time.UnixMilli(ms), err
}
