package mysql

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/sqlstore"
)

func init() {
	driver.Register(driver.Driver{Name: "mysql", Key: "dsn", Shared: true, Settings: func() driver.Settings {
		return &Settings{DSN: "seqd@tcp(127.0.0.1:3306)/seqd", Settings: sqlstore.DefaultSettings()}
	}})
}

// Settings are those of a store in a MySQL or MariaDB database that nodes share.
type Settings struct {
	// DSN is the data source name, such as `user:password@tcp(host:3306)/database?tls=true`. It may
	// not weaken durability. It is never logged.
	DSN string `config:"dsn" secret:"true"`
	// DSNFile is a file with the data source name instead. Each new connection takes user and password
	// from it; what else changes needs a restart.
	DSNFile string `config:"dsnFile" applies:"contents"`
	sqlstore.Settings
}

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem { return s.Check("dsn", checkDSN(s.DSN)) }

var _ driver.Login = (*Settings)(nil)

// SameButLogin implements [driver.Login].
func (s *Settings) SameButLogin(other driver.Settings) bool {
	o, same := other.(*Settings)
	return same && withoutLogin(s.DSN) == withoutLogin(o.DSN)
}

// withoutLogin returns a data source name without user and password.
func withoutLogin(dsn string) string {
	cfg, err := parseDSN(dsn)
	if err != nil {
		return dsn
	}
	cfg.User, cfg.Passwd = "", ""
	return cfg.FormatDSN()
}

// Place implements [driver.Settings].
func (s *Settings) Place() string {
	addrs, database := serverOf(s.DSN)
	return "the database " + database + " at " + addrs
}

// Open implements [driver.Settings].
func (s *Settings) Open(ctx context.Context, how driver.How) (persist.Store, error) {
	return driver.OrNil(Open(ctx, Options{DSN: s.DSN, DSNFile: s.DSNFile, Options: s.Options(how, "mysql")}))
}
