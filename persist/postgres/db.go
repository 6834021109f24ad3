package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd/internal/connlimit"
	"github.com/seqd/seqd/internal/distrust"
	"github.com/seqd/seqd/internal/secretfile"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// db sends statements to a server. Neither pgx nor its pool repeats one. with repeats those that the
// server has rolled back.
type db struct {
	pool     *pgxpool.Pool
	places   *connlimit.Places
	trace    func(ctx context.Context, statement string) func(error)
	allocate string // statement
	lossless bool
	home     atomic.Pointer[home] // nil until it was looked for
	closed   atomic.Bool
	// bare is true if a pooler refuses parameters at the start of a connection.
	bare atomic.Bool
}

var _ sqlstore.DB = (*db)(nil)

// Pool implements [sqlstore.DB].
func (d *db) Pool() (p persist.Pool) {
	p.InUse, p.Most, p.Waits, p.Waited = d.places.State()
	return p
}

// idleTime is how long a connection is kept that is not used.
const idleTime = time.Minute

// life is how long a connection is kept at most. The settings of the server are checked on each new
// one, and they can change without a restart, or with one that a pooler hides.
const life = 5 * time.Minute

// connect returns a pool, which has no connections yet, and which database it is for.
func connect(opts Options) (d *db, where string, err error) {
	cfg, err := parseURL(opts.URL)
	if err != nil {
		return nil, "", err
	}
	d = &db{places: connlimit.New(opts.MaxConnections), trace: opts.Trace, allocate: allocateStatement(opts.Lossless), lossless: opts.Lossless}
	if d.trace == nil {
		d.trace = func(context.Context, string) func(error) { return func(error) {} }
	}
	cfg.MaxConns, cfg.MaxConnIdleTime = int32(opts.MaxConnections), idleTime
	cfg.MaxConnLifetime, cfg.MaxConnLifetimeJitter = life, life/5
	c := cfg.ConnConfig
	c.ConnectTimeout = opts.Timeout
	// pgx also dials to cancel a statement, without a time-out of ours.
	c.DialFunc = distrust.Dialer(opts.Timeout)
	cfg.PrepareConn = func(_ context.Context, c *pgx.Conn) (bool, error) { return !distrust.Closed(c.PgConn().Conn()), nil }
	// One round trip, without a prepared statement, which may be unknown behind a pooler.
	c.DefaultQueryExecMode = pgx.QueryExecModeExec
	c.OnNotice = notice
	own := ownParameters(opts.Timeout, c.RuntimeParams)
	// The login of another database is not for this one: that needs a restart.
	present := secretfile.Follow(opts.URLFile, opts.URL, func(url string) bool { return withoutLogin(url) == withoutLogin(opts.URL) })
	cfg.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		readAgain(c, present())
		if !d.bare.Load() {
			for name, value := range own {
				c.RuntimeParams[name] = value
			}
		}
		return nil
	}
	check := settingsCheck{lossless: opts.Lossless}
	cfg.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		if !opts.ReadOnly {
			if err := check.conn(ctx, c); err != nil {
				return err
			}
		}
		c.TypeMap().RegisterType(bytea)
		return mark(ctx, c)
	}
	if d.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return nil, "", errParse
	}
	return d, fmt.Sprintf("%s at %s", c.Database, hosts(c)), nil
}

// readAgain reads the files that a connection string names: certificates are replaced before they
// expire, and users and passwords change. While they cannot be read, c stays as it is.
func readAgain(c *pgx.ConnConfig, url string) {
	fresh, err := pgx.ParseConfig(url)
	if err != nil {
		return
	}
	c.User, c.Password = fresh.User, fresh.Password
	if hosts(fresh) == hosts(c) {
		c.TLSConfig, c.Fallbacks = fresh.TLSConfig, fresh.Fallbacks
	}
}

// hosts lists the servers of a connection string.
func hosts(c *pgx.ConnConfig) string {
	list := []string{}
	last := ""
	for _, f := range append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port}}, c.Fallbacks...) {
		if at := fmt.Sprintf("%s:%d", f.Host, f.Port); at != last {
			list, last = append(list, at), at
		}
	}
	return strings.Join(list, ", ")
}

// ownParameters are what a session begins with, unless the connection string says otherwise. The
// server ends what the client no longer waits for, and sends the warnings that notice needs. The
// others keep the defaults of the server, the database and the user from changing what statements do.
// Behind a pooler they do not last; with and byteaCodec need none of them.
func ownParameters(timeout time.Duration, given map[string]string) map[string]string {
	ms := strconv.FormatInt(max(timeout.Milliseconds(), 1), 10)
	own := map[string]string{
		"statement_timeout": ms, "idle_in_transaction_session_timeout": ms, "lock_timeout": "0", "client_min_messages": "warning",
		"default_transaction_isolation": "read committed", "bytea_output": "hex", "client_encoding": "UTF8",
	}
	for name := range given {
		delete(own, name)
	}
	if given["application_name"] == "" {
		given["application_name"] = "seqd" // every pooler takes it
	}
	return own
}

// The names of what is kept with a connection.
const (
	direct   = "direct"
	strict   = "strict"
	unproven = "unproven"
)

// mark records whether a connection leads straight to the server, and whether its statements run at a
// stricter level than READ COMMITTED. A pooler announces another process than the one that runs the
// statements, and may have sessions with the level of the server, the database or the user.
func mark(ctx context.Context, c *pgx.Conn) error {
	var pid uint32
	var level string
	var ends []string // settings by which the server would end a connection just when it is used
	const asked = "SELECT pg_backend_pid(), current_setting('transaction_isolation'), ARRAY(SELECT name FROM " +
		"unnest(ARRAY['idle_session_timeout', 'transaction_timeout']) AS name WHERE current_setting(name, true) <> '0')" // older servers lack them
	if err := c.QueryRow(ctx, asked).Scan(&pid, &level, &ends); err != nil {
		return err
	}
	data := c.PgConn().CustomData()
	if pid == c.PgConn().PID() {
		data[direct] = true
		for _, name := range ends {
			if _, err := c.Exec(ctx, "SET "+name+" = 0"); err != nil {
				return err
			}
		}
	}
	if level != "read committed" {
		data[strict] = true
	}
	return nil
}

func isDirect(c *pgx.Conn) bool { return c.PgConn().CustomData()[direct] != nil }

// notice marks a connection whose commit returned although no standby has acknowledged it: the wait
// was cancelled. The server reports success with a warning.
func notice(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Routine == "SyncRepWaitForLSN" {
		c.CustomData()[unproven] = true
	}
}

// errUnproven is returned for a commit that a failover may take back.
var errUnproven = fmt.Errorf("%w: the commit was cancelled while it waited for the synchronous standby", persist.ErrUnavailable)

// with uses one connection for a statement or a transaction. If the server has rolled it back because
// of others, nothing has happened, and with does it again: others have made progress. At the level
// READ COMMITTED that is a deadlock. Sessions of a pooler may have a stricter level.
func (d *db) with(ctx context.Context, name string, use func(*pgx.Conn) error) error {
	for {
		err := d.places.Do(ctx, sqlstore.IsFull, func() error { return d.once(ctx, name, use) })
		if err == ctx.Err() { // there was no place
			return translate(err)
		}
		if !rolledBack(err) || ctx.Err() != nil {
			return err
		}
	}
}

// once uses one connection once.
func (d *db) once(ctx context.Context, name string, use func(*pgx.Conn) error) error {
	pooled, err := d.acquire(ctx)
	if err != nil {
		if d.closed.Load() {
			return persist.ErrClosed
		}
		return translate(err)
	}
	defer pooled.Release()
	c := pooled.Conn()
	done := d.trace(ctx, name)
	err = use(c)
	if data := c.PgConn().CustomData(); data[unproven] != nil {
		delete(data, unproven)
		err = errUnproven
	}
	if movedOn(err) {
		d.pool.Reset() // another server may take the writes
	}
	done(err)
	return err
}

// acquire returns a connection, or a [sqlstore.Full].
func (d *db) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	c, err := d.pool.Acquire(ctx)
	if refusesParameters(err) && d.bare.CompareAndSwap(false, true) {
		c, err = d.pool.Acquire(ctx)
	}
	if text, ok := full(err); ok {
		err = sqlstore.Full(text)
	}
	return c, err
}

// Close implements [sqlstore.DB].
func (d *db) Close() error {
	d.closed.Store(true)
	d.pool.Close()
	return nil
}

// Exec implements [sqlstore.Conn].
func (d *db) Exec(ctx context.Context, name, statement string, params ...any) (affected int64, err error) {
	err = d.with(ctx, name, func(c *pgx.Conn) error {
		affected, err = d.exec(ctx, c, statement, params)
		return err
	})
	return affected, err
}

// Query implements [sqlstore.Conn].
func (d *db) Query(ctx context.Context, name, statement string, row func(sqlstore.Scan) error, params ...any) error {
	return d.with(ctx, name, func(c *pgx.Conn) (err error) {
		rows := 0
		query := func(sqlstore.Conn) error {
			return d.query(ctx, c, statement, func(scan sqlstore.Scan) error { rows++; return row(scan) }, params)
		}
		if c.PgConn().CustomData()[strict] != nil { // which may take back rows that the caller has seen
			err = d.transact(ctx, c, query)
		} else {
			err = query(nil)
		}
		if rows > 0 && rolledBack(err) {
			err = fmt.Errorf("%w: %s", persist.ErrUnavailable, err) // the caller has seen rows
		}
		return err
	})
}

// Transact implements [sqlstore.DB].
func (d *db) Transact(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.with(ctx, name, func(c *pgx.Conn) error { return d.transact(ctx, c, f) })
}

// transact runs a transaction on a connection.
func (d *db) transact(ctx context.Context, c *pgx.Conn, f func(sqlstore.Conn) error) error {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return translate(err)
	}
	if err = d.makeDurable(ctx, c); err == nil {
		err = f(session{c, d})
	}
	if err != nil {
		if tx.Rollback(ctx) != nil { // the server ends the transaction with its connection
			_ = c.Close(ctx)
		}
		return err
	}
	return translate(tx.Commit(ctx))
}

// alone is the key of the lock that Alone holds: "seqd".
const alone int64 = 0x73657164

// Alone implements [sqlstore.DB].
func (d *db) Alone(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.Transact(ctx, name, func(c sqlstore.Conn) error {
		lock := "SELECT 1 FROM pg_advisory_xact_lock(?::bigint)"
		if err := c.Query(ctx, "lock schema", lock, func(sqlstore.Scan) error { return nil }, alone); err != nil {
			return err
		}
		return f(c)
	})
}

// Exclusively implements [sqlstore.DB]. A statement takes its lock of a table before its snapshot, so one
// that waits for this transaction sees what it did.
func (d *db) Exclusively(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.Transact(ctx, name, func(c sqlstore.Conn) error {
		_, err := c.Exec(ctx, "lock tables", "LOCK TABLE seqd_counters, seqd_documents, seqd_slots IN SHARE ROW EXCLUSIVE MODE")
		if err != nil {
			return err
		}
		return f(c)
	})
}

// session is the connection of a transaction.
type session struct {
	conn *pgx.Conn
	db   *db
}

// Exec implements [sqlstore.Conn].
func (s session) Exec(ctx context.Context, name, statement string, params ...any) (affected int64, err error) {
	done := s.db.trace(ctx, name)
	defer func() { done(err) }()
	return s.db.exec(ctx, s.conn, statement, params)
}

// Query implements [sqlstore.Conn].
func (s session) Query(ctx context.Context, name, statement string, row func(sqlstore.Scan) error, params ...any) (err error) {
	done := s.db.trace(ctx, name)
	defer func() { done(err) }()
	return s.db.query(ctx, s.conn, statement, row, params)
}

func (d *db) exec(ctx context.Context, c *pgx.Conn, statement string, params []any) (int64, error) {
	tag, err := c.Exec(ctx, d.named(numbered(statement)), params...)
	return tag.RowsAffected(), translate(err)
}

func (d *db) query(ctx context.Context, c *pgx.Conn, statement string, row func(sqlstore.Scan) error, params []any) error {
	rows, err := c.Query(ctx, d.named(numbered(statement)), params...)
	if err != nil {
		return translate(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return translate(err)
		}
	}
	return translate(rows.Err())
}

// unsupported is in the error of pgbouncer for a parameter that it does not know.
const unsupported = "unsupported startup parameter"

// refusesParameters reports whether a pooler refuses parameters at the start of a connection.
func refusesParameters(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	return ok && server.Code == "08P01" && strings.Contains(server.Message, unsupported)
}
