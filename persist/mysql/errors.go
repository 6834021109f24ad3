package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// Numbers of errors, which mean the same on MySQL and MariaDB.
const (
	errDuplicateKey   = 1062
	errTooLong        = 1406
	errNoTable        = 1146
	errOutOfRange     = 1264
	errDeadlock       = 1213
	errPacketTooLarge = 1153
	errLimit          = 1226
	errNotCertified   = 3101 // the group of servers has rolled the transaction back when it was to be committed
)

// full are the errors of a server that has as many connections as it, or the user, may have.
// errLimit is also that of other limits.
var full = []uint16{1040, 1203, errLimit}

// standby are the errors of a server that takes no writes: --read-only and --super-read-only, a
// read-only transaction, a server that was started read-only.
var standby = []uint16{1290, 1792, 1836}

// ended are the errors after which a connection is of no use: the server shuts down, it ended the
// connection, or it left the cluster.
var ended = []uint16{1053, 1079, 1927, 4031, 1047, 1180}

// final are the errors that only an operator can end, with what is wrong. None shows a part of the
// DSN: what the server says may quote the user and the database.
var final = map[uint16]string{
	1045: "the server refuses the user or the password",
	1698: "the server refuses the user or the password",
	1130: "the server refuses connections from this host",
	1251: "the server wants another authentication than the client library has",
	1820: "the password has expired",
	1862: "the password has expired",
	3118: "the account is locked",
	4151: "the account is locked",
	3159: "the server wants TLS: add tls=true",
	1044: "the user has no right to the database",
	1049: "the database does not exist",
}

// forbidden are the errors of a user without a right to a table, a column, a procedure or a
// privileged operation.
var forbidden = []uint16{1142, 1143, 1227, 1370, 1410}

// lacking are the errors of a server or a database that lacks a table, a column, a function, a
// variable or a word of SQL.
var lacking = []uint16{1146, 1054, 1305, 1193, 1064, 1235}

// translate turns errors of the client library and of the server into those of package persist.
func translate(err error) error {
	var server *library.MySQLError
	switch {
	case err == nil, sqlstore.Translated(err):
		return err
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &server):
		return translateServer(server)
	case refusedTLS(err):
		return sqlstore.Refusef("the TLS connection fails: %v", err)
	case errors.Is(err, library.ErrCleartextPassword), errors.Is(err, library.ErrNativePassword), errors.Is(err, library.ErrOldPassword),
		errors.Is(err, library.ErrUnknownPlugin), errors.Is(err, library.ErrOldProtocol):
		return sqlstore.Refusef("the server wants another authentication: %v", err)
	}
	return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
}

// translateServer turns an error that the server returned. Any that is not known may pass.
func translateServer(err *library.MySQLError) error {
	if what, ok := final[err.Number]; ok {
		return sqlstore.Refusef("%s (error %d)", what, err.Number)
	}
	switch {
	case err.Number == errDuplicateKey:
		return persist.ErrExists
	case err.Number == errTooLong, err.Number == errOutOfRange, err.Number == errPacketTooLarge:
		return fmt.Errorf("%w: %w", persist.ErrInvalid, err)
	case slices.Contains(forbidden, err.Number):
		return sqlstore.Refusef("the user lacks a right: %v", err)
	case slices.Contains(lacking, err.Number):
		return sqlstore.Refusef("the server lacks what seqd needs: %v", err)
	case slices.Contains(standby, err.Number):
		return fmt.Errorf("%w: the server takes no writes: %w", persist.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
}

// refusedTLS reports whether no TLS connection can be made until an operator changes something.
func refusedTLS(err error) bool {
	if errors.Is(err, library.ErrNoTLS) {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// uselessAfter reports whether a connection is to be closed after an error: the server behind it
// takes no writes, or has ended it. A new one may lead to another server.
func uselessAfter(err error) bool {
	server, ok := errors.AsType[*library.MySQLError](err)
	return ok && (slices.Contains(standby, server.Number) || slices.Contains(ended, server.Number))
}
