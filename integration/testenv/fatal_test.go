package testenv_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
)

// observed is a test that is allowed to fail fatally.
type observed struct {
	testing.TB
	said string
}

func (o *observed) Fatalf(format string, args ...any) {
	o.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatal returns the message of a fatal failure, "" if there was none.
func fatal(t *testing.T, run func(t testing.TB)) string {
	t.Helper()
	o := &observed{TB: t}
	done := make(chan struct{})
	go func() { defer close(done); run(o) }()
	<-done
	return o.said
}

func TestMissingServerSaysHowToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	testenv.HideServers(t)
	for debianPackage, start := range map[string]func(testing.TB){
		"redis-server":   func(t testing.TB) { testenv.StartRedis(t) },
		"postgresql":     func(t testing.TB) { testenv.StartPostgres(t) },
		"pgbouncer":      func(t testing.TB) { testenv.StartPgbouncer(t, "127.0.0.1:1") },
		"mariadb-server": func(t testing.TB) { testenv.StartMariaDB(t) },
	} {
		if said := fatal(t, start); !strings.Contains(said, "apt-get install -y "+debianPackage) {
			t.Errorf("%s: it says %q", debianPackage, said)
		}
	}
}

func TestRedisThatEndsShowsItsLog(t *testing.T) {
	t.Parallel()
	said := fatal(t, func(t testing.TB) { testenv.StartRedis(t, "no-such-setting yes") })
	if !strings.Contains(said, "has ended") || !strings.Contains(said, "no-such-setting") {
		t.Errorf("it says %q", said)
	}
}

func TestForeignMongoIsNotKilled(t *testing.T) {
	theirs := testenv.StartMongo(t)
	t.Setenv(testenv.MongoEnv, theirs.URI())
	for name, run := range map[string]func(*testenv.Mongo){
		"Addr":    func(m *testenv.Mongo) { m.Addr() },
		"Kill":    func(m *testenv.Mongo) { m.Kill() },
		"Pause":   func(m *testenv.Mongo) { m.Pause() },
		"Resume":  func(m *testenv.Mongo) { m.Resume() },
		"Restart": func(m *testenv.Mongo) { m.Restart() },
	} {
		if said := fatal(t, func(t testing.TB) { run(testenv.StartMongo(t)) }); !strings.HasPrefix(said, name+" needs a server of the test's own") {
			t.Errorf("%s: it says %q", name, said)
		}
	}
}

// The database of a test on a server of others is dropped at its end.
func TestForeignMongo(t *testing.T) {
	theirs := testenv.StartMongo(t)
	t.Setenv(testenv.MongoEnv, theirs.URI())
	var database string
	t.Run("use", func(t *testing.T) {
		m := testenv.StartMongo(t)
		database = m.Database()
		if m.URI() != theirs.URI() || database == theirs.Database() {
			t.Errorf("%s, %s", m.URI(), database)
		}
		must.Get(m.Client().Database(database).Collection("counters").InsertOne(t.Context(), bson.M{}))(t)
	})
	names, err := theirs.Client().ListDatabaseNames(t.Context(), bson.M{})
	if err != nil || slices.Contains(names, database) {
		t.Errorf("left behind: %v, %v", names, err)
	}
}
