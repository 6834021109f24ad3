package mysql

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestCheckDSN(t *testing.T) {
	for dsn, want := range map[string]string{
		"u:secret@tcp(a)/db?tls=true&timeout=1s&tls=false": "sets a parameter twice",
		"seqd@tcp(127.0.0.1:3306)/seqd":                    "",
		"u:secret@tcp(a:3306)/db?tls=true":                 "",
		"u:secret://x@tcp(a:3306)/db":                      "",
		"u:secret@unix(/run/mysqld.sock)/db":               "",
		"u:secret@tcp(a)/db?innodb_lock_wait_timeout=1":    "",
		"":                                      "it is empty",
		"mysql://u:secret@a:3306/db":            "it is a URL",
		"postgres://u:secret@a/db":              "it is a URL",
		"mongodb://u:secret@a/db":               "it is a URL",
		"secret":                                "cannot be read",
		"u:secret@tcp(a/db":                     "cannot be read",
		"u:secret@tcp(a:3306)/db?tls=secret":    "cannot be read",
		"u:secret@tcp(a:3306)/":                 "it names no database",
		"u:secret@tcp(a:3306)/db?autocommit=0":  "sets autocommit",
		"u:secret@tcp(a:3306)/db?sql_log_bin=0": "sets sql_log_bin",
		"u:secret@tcp(a:3306)/db?SQL_MODE=''":   "sets sql_mode",
		"u:secret@tcp(a:3306)/db?innodb_flush_log_at_trx_commit=0":              "sets innodb_flush_log_at_trx_commit",
		"u:secret@tcp(a:3306)/db?wsrep_on=0":                                    "sets wsrep_on",
		"u:secret@tcp(a:3306)/db?secret=1":                                      "a parameter that seqd does not know",
		"u:secret@tcp(a:3306)/db?allowOldPasswords=true":                        "allowOldPasswords",
		"u:secret@tcp(a:3306)/db?strict=true":                                   "a parameter that seqd does not know",
		"u:secret@tcp(a:3306)/db?x=1&strict=secret":                             "a parameter that seqd does not know",
		"u:secret@secret(a:3306)/db":                                            "cannot be read",
		"u:secret@a:3306/db":                                                    "cannot be read",
		"u:secret@tcp(a:3306)/db?allowAllFiles=1":                               "allowAllFiles",
		"u:secret@tcp(a:3306)/db?multiStatements=1":                             "multiStatements",
		"u:secret@tcp(a:3306)/db?rejectReadOnly=1":                              "rejectReadOnly",
		"u:secret@tcp(a:3306)/db?interpolateParams=1&collation=gbk_chinese_ci":  "cannot be read",
		"u:secret@tcp(a:3306)/db?allowCleartextPasswords=1":                     "allowCleartextPasswords",
		"u:secret@tcp(a:3306)/db?allowCleartextPasswords=1&tls=skip-verify":     "allowCleartextPasswords",
		"u:secret@tcp(a:3306)/db?allowCleartextPasswords=1&tls=true&compress=1": "",
	} {
		err := checkDSN(dsn)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", dsn, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want an error with %q", dsn, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the error shows a part of it: %v", dsn, err)
		}
	}
}

// No text makes the check panic, and no error shows a part of the text.
func FuzzCheckDSN(f *testing.F) {
	for _, dsn := range []string{
		"", "seqd@tcp(127.0.0.1:3306)/seqd", "/", "//", "@/", "u:p@tcp([::1]:3306)/db?tls=true&a=b", "u@unix/db?strict=1", "a://b/c", "x(/y)?",
	} {
		f.Add(dsn)
	}
	f.Fuzz(func(t *testing.T, part string) {
		const mark = "\x01hidden"
		for _, dsn := range []string{part, "u:" + mark + part + "@tcp(a)/db", "u:p@tcp(a)/db?" + part + mark} {
			if err := checkDSN(dsn); err != nil && strings.Contains(err.Error(), mark) {
				t.Errorf("%q: the error shows a part of it: %v", dsn, err)
			}
		}
	})
}

// Only user and password may be others if a file is read again.
func TestSameButLogin(t *testing.T) {
	const dsn = "u:p@tcp(db:3306)/seqd"
	for other, same := range map[string]bool{
		"v:q@tcp(db:3306)/seqd": true, "v:a@b@tcp(db:3306)/seqd": true, "u:p@tcp(other:3306)/seqd": false, "u:p@tcp(db:3306)/other": false,
		"u:p@tcp(db:3306)/seqd?tls=true": false, "nothing": false,
	} {
		if got := (&Settings{DSN: dsn}).SameButLogin(&Settings{DSN: other}); got != same {
			t.Errorf("%s is the same: %v", other, got)
		}
	}
}

// A file that names another database, which needs a restart, changes no login.
func TestLoginOfAnotherDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dsn")
	now := present(Options{DSN: "u:first@tcp(a)/db", DSNFile: file})
	for _, tt := range []struct{ dsn, want string }{
		{"v:second@tcp(a)/db", "v:second@tcp(a)/db"},
		{"w:third@tcp(b)/db", "v:second@tcp(a)/db"},
		{"w:third@tcp(a)/other", "v:second@tcp(a)/db"},
		{"x:fourth@tcp(a)/db", "x:fourth@tcp(a)/db"},
	} {
		must.Do(t, os.WriteFile(file, []byte(tt.dsn), 0o600))
		must.Equal(t, now(), tt.want, "after %s", tt.dsn)
	}
}
