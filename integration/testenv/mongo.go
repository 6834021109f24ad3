package testenv

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/internal/testing/await"
)

// MongoEnv is the environment variable with the URI of a MongoDB server to use instead of the
// stand-in.
const MongoEnv = "SEQD_TEST_MONGO_URI"

// Mongo is the stand-in for a MongoDB server (see cmd/mongostandin), or a database on the server in
// MongoEnv.
type Mongo struct {
	*output
	t        testing.TB
	uri      string
	database string
	foreign  bool // the server in MongoEnv
	data     string
	port     int
	process  *process
	client   *mongo.Client
}

// StartMongo starts the stand-in and waits until it answers. If MongoEnv is set, it uses that
// server and drops its database at the end; methods that need their own process then fail.
func StartMongo(t testing.TB) *Mongo {
	t.Helper()
	m := &Mongo{output: &output{}, t: t, database: Unique(), uri: os.Getenv(MongoEnv)}
	m.foreign = m.uri != ""
	if !m.foreign {
		m.data = filepath.Join(t.TempDir(), "data")
		must(t, m, "make the data folder", os.Mkdir(m.data, 0o700))
		m.port = reservePort(t)
		m.uri = "mongodb://" + m.Addr()
		showOnFailure(t, m.uri, m)
		m.start()
	}
	m.connect()
	return m
}

func (m *Mongo) connect() {
	m.t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(m.uri).SetServerSelectionTimeout(await.Patience))
	must(m.t, m, "connect", err)
	m.client = client
	m.t.Cleanup(func() {
		ctx, cancel := within()
		defer cancel()
		if m.foreign {
			if err := client.Database(m.database).Drop(ctx); err != nil {
				m.t.Errorf("drop the database %s: %v", m.database, err)
			}
		}
		// The server may be dead by now, and the client would search for it to end its sessions.
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	ctx, cancel := within()
	defer cancel()
	must(m.t, m, "ping MongoDB", client.Ping(ctx, nil))
}

func (m *Mongo) start() {
	m.t.Helper()
	m.process = startProcess(m.t, m.output, standIn(m.t), "-listen", m.Addr(), "-dir", m.data)
	// The port opens once everything behind it is ready.
	eventually(m.t, "start the MongoDB stand-in", func(ctx context.Context) error {
		if err := m.process.ended(); err != nil {
			m.t.Fatalf("start the MongoDB stand-in: %v\n%s", err, lastOf(m.Log()))
		}
		return dial(ctx, m.Addr())
	})
}

// URI returns the connection string. That of the stand-in stays the same over restarts.
func (m *Mongo) URI() string { return m.uri }

// Addr returns the host and port of the stand-in, for a Link. (With a replica set behind a Link the
// driver would bypass it.)
func (m *Mongo) Addr() string {
	m.own("Addr")
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.port))
}

// Database returns the name of the test's database.
func (m *Mongo) Database() string { return m.database }

// Client returns a client for the preparations and checks of a test. It retries, so code under test
// needs another client.
func (m *Mongo) Client() *mongo.Client { return m.client }

// own fails the test if the server is that in MongoEnv.
func (m *Mongo) own(what string) {
	m.t.Helper()
	if m.foreign {
		m.t.Fatalf("%s needs a server of the test's own, and %s names another one; unset it to use the stand-in", what, MongoEnv)
	}
}

// Kill ends the server as kill -9 does.
func (m *Mongo) Kill() {
	m.t.Helper()
	m.own("Kill")
	m.process.kill()
}

// Pause suspends the server (SIGSTOP). Connections stay open and new ones are accepted, but nothing
// is answered.
func (m *Mongo) Pause() {
	m.t.Helper()
	m.own("Pause")
	must(m.t, m, "pause MongoDB", m.process.pause())
}

// Resume continues a paused server (SIGCONT). It then serves what was sent meanwhile.
func (m *Mongo) Resume() {
	m.t.Helper()
	m.own("Resume")
	must(m.t, m, "resume MongoDB", m.process.resume())
}

// Restart kills the server if it runs, and starts it with the same folder and port.
func (m *Mongo) Restart() {
	m.t.Helper()
	m.own("Restart")
	m.process.kill()
	m.start()
}
