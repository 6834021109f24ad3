package mongo

import (
	"context"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

func init() {
	driver.Register(driver.Driver{Name: "mongo", Key: "uri", Shared: true, Settings: func() driver.Settings {
		return &Settings{URI: "mongodb://127.0.0.1:27017", Database: "seqd", Timeout: 2 * time.Second}
	}})
}

// Settings are those of a store in a MongoDB database that nodes share.
type Settings struct {
	// URI is the connection string, with credentials and TLS if needed. It may not set a weaker
	// write concern than majority and journal, nor read from secondaries. It is never logged.
	URI string `config:"uri" secret:"true"`
	// URIFile is a file with the connection string instead. It is read at the start.
	URIFile string `config:"uriFile"`
	// Database is the name of the database.
	Database string `config:"database" range:"1 to 63 characters"`
	// Timeout is the bound of every operation.
	Timeout time.Duration `config:"timeout" range:"100ms to 10s"`
}

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	problems.Add("uri", CheckURI(s.URI))
	problems.Check(s.Database != "" && !strings.ContainsAny(s.Database, "/\\. \"$\x00") && len(s.Database) < 64, "database", "%q cannot be the name of a database", s.Database)
	problems.Add("timeout", literal.Within(s.Timeout, 100*time.Millisecond, 10*time.Second))
	return problems
}

// Place implements [driver.Settings].
func (s *Settings) Place() string { return "the database " + s.Database + " at " + serverOf(s.URI) }

// Open implements [driver.Settings].
func (s *Settings) Open(ctx context.Context, how driver.How) (persist.Store, error) {
	return driver.OrNil(Open(ctx, Options{
		URI: s.URI, Database: s.Database, Timeout: how.Patience(s.Timeout), Now: how.Now,
		Unreached: how.Unreached, ReadOnly: how.ReadOnly, PastShut: how.PastShut, Admit: how.Admit, Monitor: monitor(how.Trace),
	}))
}
