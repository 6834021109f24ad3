package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/persist/sqlstore"
	"github.com/seqd/seqd/server/config"
)

// A connection string that would weaken what uniqueness rests on, or is that of another kind of
// server, is refused, and no message shows a password. The drivers test every form.
func TestWrongSQLAddresses(t *testing.T) {
	for key, values := range map[string]map[string]string{
		"store.postgres.url": {
			"postgres://u:secret@a/db?synchronous_commit=off": "synchronous_commit",
			"mongodb://u:secret@a:1/db":                       "must begin with postgres://",
			"u:secret@tcp(a:3306)/db":                         "must begin with postgres://",
			"postgres://u:se%zzcret@a/db":                     "connection string",
			"":                                                "empty",
		},
		"store.mysql.dsn": {
			"u:secret@tcp(a)/db?autocommit=0": "autocommit",
			"mongodb://u:secret@a:1/db":       "it is a URL",
			"postgres://u:secret@a/db":        "it is a URL",
			"u:secret@tcp(a":                  "data source name",
			"u:secret@tcp(a)/":                "names no database",
			"":                                "empty",
		},
	} {
		for value, want := range values {
			_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{key: value}})
			wantError(t, err, key+": ", want)
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "cret@") {
				t.Errorf("%s: the error shows the password: %v", key, err)
			}
		}
	}
}

func TestWrongSQLSettings(t *testing.T) {
	for key, values := range map[string][]string{
		"timeout": {"99ms", "10001ms"}, "maxConnections": {"0", "1001", "-1"}, "failover": {"maybe", "Lossless", `""`},
	} {
		for _, section := range []string{"store.postgres.", "store.mysql."} {
			for _, value := range values {
				_, err := config.LoadYAML([]byte(someBizType+nested(section+key, value)), config.Sources{})
				wantError(t, err, section+key+": ")
			}
		}
	}
}

func TestSQLSettings(t *testing.T) {
	c := mustLoad(t, `
store:
  driver: postgres
  postgres: {url: "postgres://u:secret@a,b/db?sslmode=verify-full", timeout: 3s, maxConnections: 4, failover: lossless}
  mysql: {dsn: "u:secret@tcp(a:3306)/db?tls=true", timeout: 4s, maxConnections: 5, failover: lossless}
segment: {ordering: per-node}
`+someBizType, config.Sources{})
	if p := c.Store.Settings["postgres"].(*postgres.Settings); p.Timeout != 3*time.Second || p.MaxConnections != 4 || p.Failover != sqlstore.Lossless {
		t.Errorf("%+v", p)
	}
	if m := c.Store.Settings["mysql"].(*mysql.Settings); m.Timeout != 4*time.Second || m.MaxConnections != 5 || m.Failover != sqlstore.Lossless {
		t.Errorf("%+v", m)
	}
}

// The place of a store names it, and shows no credentials.
func TestPlace(t *testing.T) {
	for _, tt := range []struct{ driver, key, value, want string }{
		{"bolt", "store.bolt.path", "/data/seqd.db", "/data/seqd.db"},
		{"memory", "store.driver", "memory", "this process"},
		{"postgres", "store.postgres.url", "postgres://u:secret@a:1,b:2/db?sslmode=disable", "the database db at a:1, b:2"},
		{"postgres", "store.postgres.url", "host=a port=1 user=u password=secret dbname=db sslmode=disable", "the database db at a:1"},
		{"mysql", "store.mysql.dsn", "u:secret@tcp(a:3306)/db", "the database db at a:3306"},
		{"mongo", "store.mongo.uri", "mongodb://u:s%40ecret@a:1,b:2/?replicaSet=r", "the database seqd at a:1,b:2"},
		{"mongo", "store.mongo.uri", "mongodb+srv://u:secret@a.example/db", "the database seqd at a.example"},
	} {
		cfg := mustLoad(t, someBizType, config.Sources{Flags: map[string]string{"store.driver": tt.driver, tt.key: tt.value}})
		must.Equal(t, cfg.Store.Place(), tt.want, "%s", tt.value)
	}
	_, err := config.LoadYAML([]byte(someBizType), config.Sources{Flags: map[string]string{"store.driver": "memory", "store.mustExist": "true"}})
	wantError(t, err, "store.mustExist: ", "new at every start")
}
