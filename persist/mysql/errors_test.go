package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// errFinal stands for an error that needs an operator.
var errFinal = errors.New("none of those that have a meaning")

func TestTranslate(t *testing.T) {
	for _, test := range []struct {
		err  error
		want error
	}{
		{nil, nil},
		{context.Canceled, context.Canceled},
		{library.ErrInvalidConn, persist.ErrUnavailable},
		{library.ErrPktSync, persist.ErrUnavailable},
		{io.EOF, persist.ErrUnavailable},
		{context.DeadlineExceeded, persist.ErrUnavailable},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, persist.ErrUnavailable},
		{&net.DNSError{Err: "no such host"}, persist.ErrUnavailable},
		{library.ErrNoTLS, errFinal},
		{library.ErrCleartextPassword, errFinal},
		{library.ErrUnknownPlugin, errFinal},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, errFinal},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}, errFinal},
	} {
		wantError(t, fmt.Sprint(test.err), translate(test.err), test.want)
		if test.err != nil {
			wantError(t, "wrapped "+test.err.Error(), translate(fmt.Errorf("x: %w", test.err)), test.want)
		}
	}
}

func TestTranslateServer(t *testing.T) {
	for number, want := range map[uint16]error{
		1062: persist.ErrExists, 1406: persist.ErrInvalid, 1264: persist.ErrInvalid, 1153: persist.ErrInvalid,
		1040: persist.ErrUnavailable, 1203: persist.ErrUnavailable, 1053: persist.ErrUnavailable, 1290: persist.ErrUnavailable,
		1836: persist.ErrUnavailable, 1792: persist.ErrUnavailable, 1114: persist.ErrUnavailable, 1021: persist.ErrUnavailable,
		3: persist.ErrUnavailable, 1026: persist.ErrUnavailable, 1205: persist.ErrUnavailable, 1213: persist.ErrUnavailable,
		3024: persist.ErrUnavailable, 1969: persist.ErrUnavailable, 1317: persist.ErrUnavailable, 1927: persist.ErrUnavailable,
		1047: persist.ErrUnavailable, 9999: persist.ErrUnavailable,
		1045: errFinal, 1698: errFinal, 1130: errFinal, 1251: errFinal, 1820: errFinal, 3118: errFinal, 3159: errFinal, 1044: errFinal,
		1049: errFinal, 1142: errFinal, 1227: errFinal, 1146: errFinal, 1054: errFinal, 1064: errFinal,
	} {
		err := translate(fmt.Errorf("x: %w", &library.MySQLError{Number: number, Message: "hidden"}))
		wantError(t, fmt.Sprint("error ", number), err, want)
		if _, own := final[number]; own && strings.Contains(err.Error(), "hidden") {
			t.Errorf("error %d shows what the server said, which can quote the DSN: %v", number, err)
		}
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if errors.Is(want, errFinal) {
		for _, meaning := range []error{nil, persist.ErrUnavailable, persist.ErrExists, persist.ErrInvalid, persist.ErrNotFound, context.Canceled} {
			if errors.Is(got, meaning) {
				t.Errorf("%s became %v, want an error that needs an operator", what, got)
			}
		}
		return
	}
	must.Is(t, got, want, "%s became", what)
}

// failing is a connection of the library whose statements fail.
type failing struct {
	libraryConn
	err error
}

func (f failing) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return nil, f.err
}

func (f failing) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, f.err
}

func (f failing) IsValid() bool { return true }

// database/sql repeats a statement after driver.ErrBadConn, and prepares it after driver.ErrSkip.
func TestStatementsAreNeverRepeated(t *testing.T) {
	for _, test := range []struct {
		err    error
		closed bool
	}{
		{driver.ErrBadConn, true},
		{fmt.Errorf("x: %w", driver.ErrBadConn), true},
		{driver.ErrSkip, false},
		{&library.MySQLError{Number: 1290}, true},
		{&library.MySQLError{Number: 1836}, true},
		{&library.MySQLError{Number: 1053}, true},
		{&library.MySQLError{Number: 1062}, false},
	} {
		c := &conn{libraryConn: failing{err: test.err}}
		_, exec := c.ExecContext(t.Context(), "UPDATE x", nil)
		_, query := c.QueryContext(t.Context(), "SELECT 1", nil)
		for what, err := range map[string]error{"exec": exec, "query": query} {
			if err == nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, driver.ErrSkip) {
				t.Errorf("%s: %v became %v", what, test.err, err)
			}
		}
		if c.IsValid() == test.closed {
			t.Errorf("after %v the connection is used again: %v", test.err, c.IsValid())
		}
	}
}
