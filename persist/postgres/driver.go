package postgres

import (
	"context"
	"net/url"
	"regexp"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/sqlstore"
)

func init() {
	driver.Register(driver.Driver{Name: "postgres", Key: "url", Shared: true, Settings: func() driver.Settings {
		return &Settings{URL: "postgres://seqd@127.0.0.1:5432/seqd", Settings: sqlstore.DefaultSettings()}
	}})
}

// Settings are those of a store in a PostgreSQL database that nodes share.
type Settings struct {
	// URL is the connection string, as a URL or as keywords and values, with credentials and TLS if
	// needed. It may not weaken durability. It is never logged.
	URL string `config:"url" secret:"true"`
	// URLFile is a file with the connection string instead. Each new connection takes user and password
	// from it; what else changes needs a restart.
	URLFile string `config:"urlFile" applies:"contents"`
	sqlstore.Settings
}

// Validate implements [seqd.Validator].
func (s *Settings) Validate() []seqd.Problem { return s.Check("url", CheckURL(s.URL)) }

var _ driver.Login = (*Settings)(nil)

// SameButLogin implements [driver.Login].
func (s *Settings) SameButLogin(other driver.Settings) bool {
	o, same := other.(*Settings)
	return same && withoutLogin(s.URL) == withoutLogin(o.URL)
}

// login is a user or a password among keywords and values.
var login = regexp.MustCompile(`(^|\s)(user|password)\s*=\s*('(\\.|[^'\\])*'|\S*)`)

// withoutLogin returns a connection string without user and password.
func withoutLogin(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return login.ReplaceAllString(text, "")
	}
	u.User = nil
	query := u.Query()
	query.Del("user")
	query.Del("password")
	u.RawQuery = query.Encode()
	return u.String()
}

// Place implements [driver.Settings].
func (s *Settings) Place() string {
	addrs, database := serverOf(s.URL)
	return "the database " + database + " at " + addrs
}

// Open implements [driver.Settings].
func (s *Settings) Open(ctx context.Context, how driver.How) (persist.Store, error) {
	return driver.OrNil(Open(ctx, Options{URL: s.URL, URLFile: s.URLFile, Options: s.Options(how, "postgresql")}))
}
