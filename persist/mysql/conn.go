package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/internal/distrust"
	"github.com/seqd/seqd/persist/sqlstore"
)

// mostPacket is the largest statement that is sent, in bytes. The server has a limit of its own,
// max_allowed_packet.
const mostPacket = 64 << 20

// force sets the options of the client library that a DSN may not choose.
func force(cfg *library.Config, timeout time.Duration) error {
	// Parameters are written into the statement, so that it takes one round trip. That is safe in
	// utf8mb4, and the library escapes as the present sql_mode demands.
	cfg.InterpolateParams = true
	// A row that a statement matched counts, even if it did not change.
	cfg.ClientFoundRows = true
	cfg.CheckConnLiveness = true
	cfg.ColumnsWithAlias, cfg.ParseTime, cfg.MultiStatements, cfg.RejectReadOnly, cfg.AllowAllFiles = false, false, false, false, false
	cfg.Collation, cfg.Loc, cfg.MaxAllowedPacket = "", time.UTC, mostPacket
	// The contexts of operations end first. These bound what has no context, such as a rollback.
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = timeout, timeout+time.Second, timeout+time.Second
	cfg.DialFunc = distrust.Dialer(timeout)
	cfg.Logger = &library.NopLogger{}
	if cfg.ConnectionAttributes == "" {
		cfg.ConnectionAttributes = "program_name:seqd"
	}
	return cfg.Apply(library.Charset("utf8mb4", ""))
}

// connector makes connections whose session is as seqd needs it, whatever the server's defaults
// are.
type connector struct {
	driver.Connector
	timeout  time.Duration
	lossless bool
	session  []string
}

var _ driver.Connector = (*connector)(nil)

// newConnector returns a connector. The time-out bounds the making of a connection, and in the
// server each statement and each wait for a lock.
func newConnector(inner driver.Connector, timeout time.Duration, lossless bool) *connector {
	// Locks are waited for in whole seconds.
	wait := max(1, (timeout+time.Second-1)/time.Second)
	return &connector{inner, timeout, lossless, []string{
		fmt.Sprintf("SET sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 1, completion_type = 0, sql_safe_updates = 0, "+
			"sql_auto_is_null = 0, unique_checks = 1, sql_select_limit = DEFAULT, sql_big_selects = 1, wait_timeout = 600, time_zone = '+00:00', innodb_lock_wait_timeout = %d, lock_wait_timeout = %d"+
			// MySQL bounds only queries.
			" /*!80000 , max_execution_time = %d */ /*M!100600 , max_statement_time = %.3f */",
			wait, wait, timeout.Milliseconds(), timeout.Seconds()),
		// It locks no gaps between rows, so purges do not keep others from inserting.
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	}}
}

// Connect implements [driver.Connector]. Its context may have no end.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	inner, err := c.Connector.Connect(ctx)
	if server, ok := errors.AsType[*library.MySQLError](err); ok && slices.Contains(full, server.Number) &&
		(server.Number != errLimit || strings.Contains(server.Message, "max_user_connections")) {
		return nil, sqlstore.Full(server.Error())
	}
	if err != nil {
		return nil, err
	}
	made, ok := inner.(libraryConn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	for _, statement := range c.session {
		if _, err := made.ExecContext(ctx, statement, nil); err != nil {
			_ = made.Close() // err says more
			return nil, err
		}
	}
	prepared := &conn{libraryConn: made, lossless: c.lossless}
	if c.lossless {
		if prepared.waits, err = replicaWaits(ctx, made); err != nil {
			_ = made.Close() // err says more
			return nil, err
		}
	}
	return prepared, nil
}

// libraryConn is what database/sql uses of a connection of the client library.
type libraryConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// conn is a connection that sends each statement once, and is closed after an error that a new
// connection may not have.
type conn struct {
	libraryConn
	useless atomic.Bool
	// lossless says that each write must have been acknowledged by a replica; see proof.go.
	lossless, transacting bool
	waits                 string
}

var (
	_ libraryConn = (*conn)(nil)

	errNotSent = errors.New("the statement could not be sent")
)

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.libraryConn.ExecContext(ctx, query, args)
	if err == nil && c.lossless && !c.transacting {
		err = c.prove(ctx)
	}
	return result, c.once(err)
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.libraryConn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, c.once(err)
	}
	return rows, nil
}

// once hides from database/sql that nothing was sent: it would send the statement again, on this or
// on another connection (invariant U2). The library says so only if that is certain, but who relies
// on it must know each of its ways to fail.
func (c *conn) once(err error) error {
	switch {
	case errors.Is(err, driver.ErrBadConn):
		c.useless.Store(true)
		return library.ErrInvalidConn
	case errors.Is(err, driver.ErrSkip):
		return errNotSent
	case uselessAfter(err):
		c.useless.Store(true)
	}
	return err
}

// IsValid implements [driver.Validator].
func (c *conn) IsValid() bool { return !c.useless.Load() && c.libraryConn.IsValid() }
