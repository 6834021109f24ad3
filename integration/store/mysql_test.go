package store

import (
	"database/sql"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/persisttest"
)

// newMySQL creates an empty database and returns the options of a store in it. Tests of one server
// share it.
func newMySQL(t testing.TB, server *testenv.MariaDB) mysql.Options {
	t.Helper()
	return mysql.Options{DSN: server.NewDSN(), Options: sqlOptions()}
}

func openMySQL(t *testing.T, o mysql.Options) *mysql.Store {
	t.Helper()
	if o.Timeout < patient {
		prepare(t, o, mysql.Open, func(o *mysql.Options) { o.Timeout = patient })
	}
	s := must.Get(mysql.Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connectMySQL opens a database beside a store, for the preparations and checks of a test.
func connectMySQL(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := must.Get(sql.Open("mysql", dsn))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestMySQLConformance(t *testing.T) {
	t.Parallel()
	server := testenv.StartMySQL(t)
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		o := newMySQL(t, server)
		o.Now = now
		return openMySQL(t, o)
	})
}
