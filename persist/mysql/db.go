package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/internal/connlimit"
	"github.com/seqd/seqd/internal/secretfile"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// db sends statements to a server, each once.
type db struct {
	pool     *sql.DB
	places   *connlimit.Places
	most     int // connections
	timeout  time.Duration
	lossless bool
	fence    string // an expression; see [sqlstore.Dialect]
	trace    func(ctx context.Context, statement string) func(error)
	closed   atomic.Bool
}

var _ sqlstore.DB = (*db)(nil)

// Pool implements [sqlstore.DB].
func (d *db) Pool() (p persist.Pool) {
	p.InUse, p.Most, p.Waits, p.Waited = d.places.State()
	return p
}

// idleTime is how long a connection is kept that is not used. The server closes them later
// (wait_timeout).
const idleTime = time.Minute

// life is how long a connection is kept at most. The settings of the server are checked on each new
// one, and they can change without a restart.
const life = 5 * time.Minute

// connect returns a pool, which has no connections yet, and which database it is for.
func connect(opts Options) (d *db, where string, err error) {
	cfg, err := parseDSN(opts.DSN)
	if err != nil {
		return nil, "", err
	}
	if err := force(cfg, opts.Timeout); err != nil {
		return nil, "", errParse
	}
	present := present(opts)
	err = cfg.Apply(library.BeforeConnect(func(_ context.Context, c *library.Config) error {
		if fresh, err := parseDSN(present()); err == nil {
			c.User, c.Passwd = fresh.User, fresh.Passwd
		}
		return nil
	}))
	if err != nil {
		return nil, "", errParse
	}
	inner, err := library.NewConnector(cfg)
	if err != nil {
		return nil, "", errParse
	}
	var made driver.Connector = newConnector(inner, opts.Timeout, opts.Lossless)
	if !opts.ReadOnly {
		made = checked{made, opts.Lossless}
	}
	d = &db{pool: sql.OpenDB(made), places: connlimit.New(opts.MaxConnections), most: opts.MaxConnections, timeout: opts.Timeout, lossless: opts.Lossless, trace: opts.Trace}
	d.fence = inSchema(unmarked(opts))
	if d.trace == nil {
		d.trace = func(context.Context, string) func(error) { return func(error) {} }
	}
	d.pool.SetMaxOpenConns(opts.MaxConnections)
	d.pool.SetMaxIdleConns(opts.MaxConnections)
	d.pool.SetConnMaxIdleTime(idleTime)
	d.pool.SetConnMaxLifetime(life)
	return d, fmt.Sprintf("%s at %s", cfg.DBName, cfg.Addr), nil
}

// present returns a function that returns the data source name with the present login. That of another
// database is not for this one, which needs a restart.
func present(opts Options) func() string {
	return secretfile.Follow(opts.DSNFile, opts.DSN, func(dsn string) bool { return withoutLogin(dsn) == withoutLogin(opts.DSN) })
}

// sender is a pool, a connection or a transaction.
type sender interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Exec implements [sqlstore.Conn].
func (d *db) Exec(ctx context.Context, name, statement string, params ...any) (affected int64, err error) {
	err = d.unlocked(ctx, func() error {
		affected, err = session{d.pool, d}.Exec(ctx, name, statement, params...)
		return err
	})
	return affected, err
}

// Query implements [sqlstore.Conn].
func (d *db) Query(ctx context.Context, name, statement string, row func(sqlstore.Scan) error, params ...any) error {
	return d.placed(ctx, func() error { return session{d.pool, d}.Query(ctx, name, statement, row, params...) })
}

// placed calls use when it may take a connection of the pool.
func (d *db) placed(ctx context.Context, use func() error) error {
	err := d.places.Do(ctx, sqlstore.IsFull, use)
	if err == ctx.Err() { // there was no place
		err = d.translate(err)
	}
	return err
}

// exec sends a statement that returns no rows.
func (d *db) exec(ctx context.Context, to sender, name, statement string, params []any) (result sql.Result, err error) {
	if d.closed.Load() {
		return nil, persist.ErrClosed
	}
	done := d.trace(ctx, name)
	defer func() { done(err) }()
	result, err = to.ExecContext(ctx, statement, params...)
	if uselessAfter(err) {
		d.renew()
	}
	return result, d.translate(err)
}

// renew closes the connections that are not in use: another server may take the writes now.
func (d *db) renew() {
	d.pool.SetMaxIdleConns(-1)
	d.pool.SetMaxIdleConns(d.most)
}

// translate is the function translate, for a store that may have been closed meanwhile.
func (d *db) translate(err error) error {
	if err != nil && d.closed.Load() {
		return persist.ErrClosed
	}
	return translate(err)
}

// session is what a statement is sent to.
type session struct {
	to sender
	db *db
}

// Exec implements [sqlstore.Conn].
func (s session) Exec(ctx context.Context, name, statement string, params ...any) (int64, error) {
	result, err := s.db.exec(ctx, s.to, name, statement, params)
	if err != nil {
		return 0, err
	}
	if strings.HasSuffix(statement, keepFirst) {
		if id, err := result.LastInsertId(); err != nil || id == keptMark {
			return 0, err
		}
	}
	return result.RowsAffected()
}

// Query implements [sqlstore.Conn].
func (s session) Query(ctx context.Context, name, statement string, row func(sqlstore.Scan) error, params ...any) (err error) {
	if s.db.closed.Load() {
		return persist.ErrClosed
	}
	done := s.db.trace(ctx, name)
	defer func() { done(err) }()
	rows, err := s.to.QueryContext(ctx, statement, params...)
	if err != nil {
		return s.db.translate(err)
	}
	defer func() {
		_ = rows.Close() // rows.Err says what failed
		if errors.Is(err, persist.ErrUnavailable) {
			s.db.renew()
		}
	}()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return s.db.translate(rows.Err())
}

// attempts is how often a transaction is tried that the server ends to break a deadlock.
const attempts = 10

// unlocked calls transact until the server does not roll it back to break a deadlock. Then nothing
// has changed: to try again is no repetition. A purge and an update of the same document can lock
// each other out.
func (d *db) unlocked(ctx context.Context, transact func() error) (err error) {
	for range attempts {
		if err = d.placed(ctx, transact); !isDeadlock(err) {
			break
		}
	}
	return err
}

// Transact implements [sqlstore.DB].
func (d *db) Transact(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.unlocked(ctx, func() error { return d.transact(ctx, name, f) })
}

func (d *db) transact(ctx context.Context, name string, f func(sqlstore.Conn) error) (err error) {
	if d.closed.Load() {
		return persist.ErrClosed
	}
	done := d.trace(ctx, name)
	defer func() { done(err) }()
	tx, err := d.pool.BeginTx(ctx, nil)
	if err != nil {
		return d.translate(err)
	}
	if err := f(session{tx, d}); err != nil {
		_ = tx.Rollback() // without it the server ends the transaction with its connection
		if errors.Is(err, persist.ErrUnavailable) {
			d.renew()
		}
		return err
	}
	return d.translate(tx.Commit())
}

// Alone implements [sqlstore.DB]. Each statement is committed by itself: the server cannot change
// tables in a transaction.
func (d *db) Alone(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.placed(ctx, func() error { return d.alone(ctx, f) })
}

// Exclusively implements [sqlstore.DB]. LOCK TABLES waits for transactions that have used a table, and
// what comes later waits before it reads.
func (d *db) Exclusively(ctx context.Context, name string, f func(sqlstore.Conn) error) error {
	return d.Alone(ctx, name, func(c sqlstore.Conn) error {
		_, err := c.Exec(ctx, "lock tables", "SET SESSION lock_wait_timeout = 2;\nLOCK TABLES seqd_schema WRITE, seqd_counters WRITE, seqd_documents WRITE, seqd_slots WRITE")
		if err == nil {
			err = f(c)
		}
		// also if the caller has left: the connection goes back to the pool
		_, unlocked := c.Exec(context.WithoutCancel(ctx), "unlock tables", "UNLOCK TABLES;\nSET SESSION lock_wait_timeout = DEFAULT")
		return errors.Join(err, unlocked)
	})
}

func (d *db) alone(ctx context.Context, f func(sqlstore.Conn) error) error {
	if d.closed.Load() {
		return persist.ErrClosed
	}
	c, err := d.pool.Conn(ctx)
	if err != nil {
		return d.translate(err)
	}
	defer func() { _ = c.Close() }() // it returns the connection
	s := statements{session{c, d}}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock(ctx, c)
	return f(s)
}

// lockName is an expression for the name of the lock that Alone holds, at most 64 characters. It is
// per database.
const lockName = "LEFT(CONCAT('seqd/', DATABASE()), 64)"

// statements sends several statements as one.
type statements struct{ session }

// lock waits for the lock of Alone.
func (s statements) lock(ctx context.Context) error {
	var got *int64
	wait := int64(max(1, s.db.timeout/time.Second))
	err := s.Query(ctx, "lock schema", "SELECT GET_LOCK("+lockName+", ?)", func(scan sqlstore.Scan) error { return scan(&got) }, wait)
	if err == nil && (got == nil || *got != 1) {
		err = fmt.Errorf("%w: another process creates or upgrades the tables", persist.ErrUnavailable)
	}
	return err
}

// unlock returns the lock, or closes the connection, which does the same.
func (s statements) unlock(ctx context.Context, c *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.db.timeout)
	defer cancel()
	if _, err := c.ExecContext(ctx, "DO RELEASE_LOCK("+lockName+")"); err != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // it returns what it is given
	}
}

// Exec implements [sqlstore.Conn].
func (s statements) Exec(ctx context.Context, name, several string, params ...any) (affected int64, err error) {
	if len(params) > 0 {
		return s.session.Exec(ctx, name, several, params...)
	}
	for statement := range strings.SplitSeq(several, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		n, err := s.session.Exec(ctx, name, statement)
		if err != nil {
			return affected, err
		}
		affected += n
	}
	return affected, nil
}

// Close implements [sqlstore.DB].
func (d *db) Close() error {
	d.closed.Store(true)
	_ = d.pool.Close() // it fails only if the server or the network has ended a connection before
	return nil
}

// isDeadlock reports whether the server has rolled a transaction back because of others.
func isDeadlock(err error) bool {
	server, ok := errors.AsType[*library.MySQLError](err)
	return ok && (server.Number == errDeadlock || server.Number == errNotCertified)
}
