package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// What waiting mends is ErrUnavailable; what an operator has to mend is not.
func TestTranslate(t *testing.T) {
	server := func(code, message string) error {
		return fmt.Errorf("op: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: message, Detail: "secret"})
	}
	for _, test := range []struct {
		err, want error // nil for one that an operator has to mend
		text      string
	}{
		{context.Canceled, context.Canceled, ""},
		{context.DeadlineExceeded, persist.ErrUnavailable, "deadline"},
		{errors.New("EOF"), persist.ErrUnavailable, "EOF"},
		{server("53300", "sorry, too many clients already"), persist.ErrUnavailable, "no connection left"},
		{server("57P01", "terminating connection"), persist.ErrUnavailable, "terminating"},
		{server("57P03", "the database system is starting up"), persist.ErrUnavailable, "starting up"},
		{server("25006", "cannot execute UPDATE in a read-only transaction"), persist.ErrUnavailable, "standby or read only"},
		{server("55000", "recovery is in progress"), persist.ErrUnavailable, "standby"},
		{server("53100", "could not extend file"), persist.ErrUnavailable, "disk of the server is full"},
		{server("55P03", "canceling statement due to lock timeout"), persist.ErrUnavailable, "lock"},
		{server("57014", "canceling statement due to statement timeout"), persist.ErrUnavailable, "too long"},
		{server("40P01", "deadlock detected"), persist.ErrUnavailable, "deadlock"},
		{server("40001", "could not serialize"), persist.ErrUnavailable, "serialize"},
		{server("XX001", "invalid page"), persist.ErrUnavailable, "invalid page"},
		{server("08P01", "server_login_retry"), persist.ErrUnavailable, ""},
		{server("23505", "duplicate key"), persist.ErrExists, ""},
		{server("28P01", "password authentication failed"), nil, "password is wrong"},
		{server("28000", "no pg_hba.conf entry"), nil, "pg_hba.conf"},
		{server("3D000", `database "x" does not exist`), nil, "no such database"},
		{server("42501", "permission denied for schema public"), nil, "lacks a right: permission denied for schema public"},
		{server("08P01", "unsupported startup parameter: search_path"), nil, "search_path"},
		{server("08P01", "no such database: x"), nil, "no such database"},
		{server("08P01", "SASL authentication failed"), nil, "authentication failed"},
		{errors.New("server refused TLS connection"), nil, "sslmode"},
		{errors.New("tls: failed to verify certificate: x509: unknown authority"), nil, "TLS"},
		{persist.ErrNewer, persist.ErrNewer, ""},
	} {
		got := translate(test.err)
		refused, final := errors.AsType[sqlstore.Refused](got)
		switch {
		case test.want != nil && !errors.Is(got, test.want), test.want == nil && (!final || refused == ""):
			t.Errorf("%v became %v, want %v", test.err, got, test.want)
		case final && errors.Is(got, persist.ErrUnavailable):
			t.Errorf("%v would be waited for", got)
		case !strings.Contains(got.Error(), test.text) || strings.Contains(got.Error(), "secret"):
			t.Errorf("%v became %v, want %q", test.err, got, test.text)
		}
	}
	if translate(nil) != nil || !movedOn(translate(server("57P01", ""))) || !movedOn(translate(server("25006", ""))) ||
		movedOn(translate(server("53300", ""))) || movedOn(nil) {
		t.Error("the wrong errors show that a server takes no writes any more")
	}
}

// A server that cannot be reached is an error that passes and shows nothing of the URL, and no
// error of the name service or the network contains the password.
func TestUnreachable(t *testing.T) {
	opts := Options{URL: "postgres://user:secret@127.0.0.1:1/name?sslmode=disable"}
	opts.Timeout, opts.MaxConnections, opts.Now = time.Second, 1, time.Now
	_, err := Open(t.Context(), opts)
	if !errors.Is(err, persist.ErrUnavailable) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "user") {
		t.Error(err)
	}
	opts.Unreached = true
	s := must.Get(Open(t.Context(), opts))(t)
	must.Is(t, must.Err(s.Counters().Read(t.Context(), "order")), persist.ErrUnavailable)
	must.Report(t, s.Close())
	must.Is(t, must.Err(s.Counters().Read(t.Context(), "order")), persist.ErrClosed)
}

func TestNumbered(t *testing.T) {
	for statement, want := range map[string]string{"SELECT 1": "SELECT 1", "?": "$1", "(?,?) + ?": "($1,$2) + $3"} {
		must.Equal(t, numbered(statement), want, "%s became", statement)
	}
}

// The names of tables get the schema, and no other word that looks like one.
func TestNamed(t *testing.T) {
	d := &db{}
	const statement = "SELECT 'seqd_schema' FROM seqd_counters c, seqd_documents_expiry WHERE EXISTS (SELECT 1 FROM seqd_schema)"
	must.Equal(t, d.named(statement), statement, "without a schema it became")
	d.home.Store(&home{`"a $1"`, true})
	const want = `SELECT 'seqd_schema' FROM "a $1".seqd_counters c, seqd_documents_expiry WHERE EXISTS (SELECT 1 FROM "a $1".seqd_schema)`
	must.Equal(t, d.named(statement), want, "it became")
}

// FuzzCheckURL checks that no error shows a part of the string: there are only these errors.
func FuzzCheckURL(f *testing.F) {
	for _, url := range []string{
		"postgres://user:secret@127.0.0.1:5432/seqd?sslmode=disable", "host=a password=secret options='-c fsync=off'", "postgres://a,b/?target_session_attrs=read-write",
		"postgres://u:p/ss@a/b", "service=x passfile=/etc/passwd", "postgres://[::1]:5/x?synchronous_commit=off", "=", "sslkey=/dev/null sslcert=/dev/null",
	} {
		f.Add(url)
	}
	known := []error{errParse, errScheme, errEmpty, errOther, errPool}
	for _, name := range weakening {
		known = append(known, errWeakens(name))
	}
	f.Fuzz(func(t *testing.T, url string) {
		if strings.Contains(url, "ssl") || strings.Contains(url, "file") {
			t.Skip("it names files")
		}
		err := CheckURL(url)
		if err != nil && !slices.ContainsFunc(known, func(k error) bool { return k.Error() == err.Error() }) {
			t.Errorf("%q: %v", url, err)
		}
	})
}

// Bytes are read whichever bytea_output the session has.
func TestUnescape(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", `a\\b`: `a\b`, `\000\377x`: "\x00\xffx", `\\\\`: `\\`} {
		must.Equal(t, string(must.Get(unescape([]byte(text)))(t)), want, "%s became", text)
	}
	for _, text := range []string{`\`, `\01`, `\999`, `a\777`} {
		if got, err := unescape([]byte(text)); err == nil {
			t.Errorf("%s became %q", text, got)
		}
	}
}
