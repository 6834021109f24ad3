package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/sqlstore"
)

func TestCheckURL(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://seqd@127.0.0.1:5432/seqd":                          "",
		"postgresql://u:secret@a,b/db?sslmode=verify-full":             "",
		"host=a user=u password=secret dbname=db":                      "",
		"host=a password='mongodb://secret' dbname=db":                 "",
		"postgres://u:secret@a/db?application_name=x&search_path=s":    "",
		"postgres://u:secret@a/db?options=endpoint%3Dx":                "",
		"postgres://u:secret@a/db?statement_timeout=1000":              "",
		"postgres://u:secret@a/db?sslmode=verify-full&sslmode=disable": "sets a parameter twice",
		"":                                       "it is empty",
		"  ":                                     "it is empty",
		"abc":                                    "it must begin with postgres://",
		"mongodb://u:secret@a:1/?w=1":            "it must begin with postgres://",
		"mysql://u:secret@a/db":                  "it must begin with postgres://",
		"http://u:secret@a":                      "it must begin with postgres://",
		"u:secret@tcp(a:3306)/db":                "it must begin with postgres://",
		"postgres://u:se%zzcret@a/db":            "cannot be read",
		"postgres://u:secret@a:99999/db":         "cannot be read",
		"postgres://u:secret@a/db?sslmode=maybe": "cannot be read",
		"postgres://u:secret@a/db?synchronous_commit=off":                  "sets synchronous_commit",
		"postgres://u:secret@a/db?Synchronous_Commit=local":                "sets synchronous_commit",
		"postgres://u:secret@a/db?options=-c%20synchronous_commit%3Doff":   "sets synchronous_commit",
		"postgres://u:secret@a/db?options=--synchronous-commit%3Doff":      "sets synchronous_commit",
		`postgres://u:secret@a/db?options=-c%20synch\ronous_commit%3Doff`:  "sets synchronous_commit",
		"postgres://u:1/secret@a/db":                                       "escape special characters",
		"postgres://u:secret@a/db?fsync=off":                               "sets fsync",
		"postgres://u:secret@a/db?default_transaction_isolation=x":         "sets default_transaction_isolation",
		"postgres://u:secret@a/db?session_replication_role=replica":        "sets session_replication_role",
		"postgres://u:secret@a/db?pool_max_conns=5":                        "store.postgres.maxConnections",
		"postgres://u:secret@a/db?secret=1":                                "a parameter that seqd does not know",
		"host=a password=secret dbname=db synchronous_commit=remote_write": "sets synchronous_commit",
	} {
		err := CheckURL(url)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q is refused: %v", url, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want an error with %q", url, err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%q: the error shows a part of it: %v", url, err)
		}
	}
}

// Of several servers the one that takes writes is used. A single one is asked by settingsCheck,
// which says more.
func TestSeveralHosts(t *testing.T) {
	for url, want := range map[string]bool{
		"postgres://u@a/db": false, "postgres://u@a/db?sslmode=prefer": false, "postgres://u@a/db?target_session_attrs=standby": false,
		"postgres://u@a,b/db": true, "postgres://u@a:1,a:2/db?target_session_attrs=any": true,
	} {
		cfg := must.Get(parseURL(url))(t)
		must.Equal(t, cfg.ConnConfig.ValidateConnect != nil, want, "%s: a connection is validated", url)
	}
}

// Passwords and certificates in files are read for each connection.
func TestFilesOfURLAreReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pass")
	put := func(password string) { must.Do(t, os.WriteFile(file, []byte("*:*:*:*:"+password+"\n"), 0o600)) }
	put("first")
	url := "postgres://u@a,b/db?passfile=" + file
	c := must.Get(pgx.ParseConfig(url))(t)
	put("second")
	if readAgain(c, url); c.Password != "second" || len(c.Fallbacks) == 0 {
		t.Errorf("the password is %s, with %d more servers", c.Password, len(c.Fallbacks))
	}
}

// A file that names another database, which needs a restart, changes no login.
func TestLoginOfAnotherDatabase(t *testing.T) {
	file := filepath.Join(t.TempDir(), "url")
	d, _, err := connect(Options{URL: "postgres://u:first@a/db", URLFile: file, Options: sqlstore.Options{MaxConnections: 1, Timeout: time.Second}})
	must.Do(t, err)
	defer d.pool.Close()
	for _, tt := range []struct{ url, want string }{
		{"postgres://v:second@a/db", "v second"},
		{"postgres://w:third@b/db", "v second"},
		{"postgres://w:third@a/other", "v second"},
		{"postgres://x:fourth@a/db", "x fourth"},
	} {
		must.Do(t, os.WriteFile(file, []byte(tt.url), 0o600))
		cfg := d.pool.Config()
		must.Do(t, cfg.BeforeConnect(t.Context(), cfg.ConnConfig))
		must.Equal(t, cfg.ConnConfig.User+" "+cfg.ConnConfig.Password, tt.want, "after %s", tt.url)
	}
}

// Only user and password may be others if a file is read again.
func TestSameButLogin(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"postgres://u:p@db/seqd?sslmode=disable", "postgres://v:q%40@db/seqd?sslmode=disable", true},
		{"postgres://u@db/seqd?password=a", "postgres://db/seqd?user=b&password=c", true},
		{"postgres://u:p@db/seqd", "postgres://u:p@other/seqd", false},
		{"postgres://u:p@db/seqd?sslmode=disable", "postgres://u:p@db/seqd", false},
		{"host=db user=u password='a \\' b' dbname=seqd", "host=db user = v password=c dbname=seqd", true},
		{"host=db user=u dbname=seqd", "host=db user=u dbname=other", false},
		{"host=db user=u", "postgres://u@db/", false},
		{"\x00", "\x01", false},
	} {
		a, b := &Settings{URL: tt.a}, &Settings{URL: tt.b}
		if a.SameButLogin(b) != tt.same || b.SameButLogin(a) != tt.same || !a.SameButLogin(a) {
			t.Errorf("%s and %s are the same: %v", tt.a, tt.b, !tt.same)
		}
	}
}
