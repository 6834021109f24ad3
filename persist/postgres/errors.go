package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// translate turns errors of the client library into those of package persist. It leaves out what
// the client library knows of the connection string.
func translate(err error) error {
	if err == nil || sqlstore.Translated(err) {
		return err
	}
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translateServer(server)
	}
	if _, ok := errors.AsType[pgx.ScanArgError](err); ok {
		return fmt.Errorf("%w: a row is damaged: %w", persist.ErrInvalid, err)
	}
	if connecting, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		err = connecting.Unwrap()
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case strings.Contains(text, "server refused TLS connection"):
		return sqlstore.Refused("the server does not offer TLS, which sslmode asks for")
	case strings.Contains(text, "tls: ") || strings.Contains(text, "x509: "):
		return sqlstore.Refusef("the TLS connection fails: %s", text)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, context.DeadlineExceeded)
	}
	return fmt.Errorf("%w: %s", persist.ErrUnavailable, text)
}

// The codes of the server that need a word; see the manual, appendix A.
const (
	uniqueViolation   = "23505"
	readOnly          = "25006"
	invalidPassword   = "28P01"
	unknownDatabase   = "3D000"
	missingRight      = "42501"
	undefinedFunction = "42883"
	recovering        = "55000" // a function that only a primary has
	diskFull          = "53100"
	tooMany           = "53300"
	notSerializable   = "40001"
	deadlock          = "40P01"
	lockTimeout       = "55P03"
	cancelled         = "57014"
	shutdown          = "57P0" // the class of admin_shutdown, crash_shutdown and cannot_connect_now
)

// meanings say more than the message of the server.
var meanings = map[string]string{
	readOnly:          "the server is a standby or read only",
	recovering:        "the server is a standby or not ready",
	invalidPassword:   "the user or the password is wrong",
	unknownDatabase:   "there is no such database",
	missingRight:      "the user lacks a right",
	undefinedFunction: "the server lacks a function of PostgreSQL 13",
	diskFull:          "the disk of the server is full",
	tooMany:           "the server has no connection left",
	lockTimeout:       "another session holds a lock",
	cancelled:         "the statement took too long",
}

// lasting are the classes of errors that waiting does not mend: an operator has to.
var lasting = []string{"0A", "22", "23", "28", "3D", "3F", "42", "54"}

// translateServer translates an error of the server. Its details are left out, because they show
// values.
func translateServer(e *pgconn.PgError) error {
	text := fmt.Sprintf("%s (SQLSTATE %s)", e.Message, e.Code)
	if meaning := meanings[e.Code]; meaning != "" {
		text = meaning + ": " + text
	}
	switch {
	case e.Code == uniqueViolation:
		return persist.ErrExists
	case isLasting(e):
		return sqlstore.Refused(text)
	}
	return away{e.Code, text}
}

func isLasting(e *pgconn.PgError) bool {
	for _, class := range lasting {
		if strings.HasPrefix(e.Code, class) {
			return true
		}
	}
	// what pgbouncer says for a wrong password, for a database or a user that it does not know, and
	// for a parameter of the connection string that it does not take
	return e.Code == "08P01" && (strings.Contains(e.Message, "authentication failed") || strings.Contains(e.Message, "no such") ||
		strings.Contains(e.Message, unsupported))
}

// full returns what a server or a pooler says that refuses a connection because there are too many.
// The words of poolers are max_client_conn, max_user_client_connections and the like.
func full(err error) (text string, ok bool) {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	server, said := errors.AsType[*pgconn.PgError](err)
	if !connecting || !said {
		return "", false
	}
	lower := strings.ToLower(server.Message)
	pooler := server.Code != tooMany && strings.Contains(lower, "max") && strings.Contains(lower, "client")
	return fmt.Sprintf("%s: %s (SQLSTATE %s)", meanings[tooMany], server.Message, server.Code), server.Code == tooMany || pooler
}

// away is an error of the server that can pass. It is persist.ErrUnavailable.
type away struct{ code, text string }

// Error implements [error].
func (a away) Error() string { return persist.ErrUnavailable.Error() + ": " + a.text }

// Unwrap makes it persist.ErrUnavailable.
func (away) Unwrap() error { return persist.ErrUnavailable }

// rolledBack reports whether the server has ended a transaction because of others, so that nothing
// has happened. Sessions of a pooler may have a lock_timeout that is shorter than the time of the
// caller.
func rolledBack(err error) bool {
	a, ok := errors.AsType[away](err)
	return ok && (a.code == notSerializable || a.code == deadlock || a.code == lockTimeout)
}

// movedOn reports whether an error shows that this server takes no writes any more, or must not. A
// new connection leads to another one, or says why it must not.
func movedOn(err error) bool {
	if errors.Is(err, sqlstore.ErrStandby) {
		return true
	}
	a, ok := errors.AsType[away](err)
	return ok && (a.code == readOnly || strings.HasPrefix(a.code, shutdown))
}
