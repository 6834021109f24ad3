package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/persist/sqlstore"
)

// sqlStore is a store in an SQL database.
type sqlStore interface {
	persist.Store
	Inspect(context.Context) (sqlstore.Server, error)
}

// sqlServer is how a configuration names one.
type sqlServer struct {
	section        string // of the configuration
	key            string // of the connection string
	failover       string
	timeout        time.Duration
	maxConnections int
}

// sqlServer returns what the configuration says of an SQL server.
func (c storeCheck) sqlServer() sqlServer {
	if c.d.Config.Store.Driver == "mysql" {
		cfg := c.d.Config.Store.Settings["mysql"].(*mysql.Settings)
		return sqlServer{"store.mysql", "store.mysql.dsn", cfg.Failover, cfg.Timeout, cfg.MaxConnections}
	}
	cfg := c.d.Config.Store.Settings["postgres"].(*postgres.Settings)
	return sqlServer{"store.postgres", "store.postgres.url", cfg.Failover, cfg.Timeout, cfg.MaxConnections}
}

func (c storeCheck) openPostgres(ctx context.Context) (sqlStore, error) {
	cfg := c.d.Config.Store.Settings["postgres"].(*postgres.Settings)
	store, err := postgres.Open(ctx, postgres.Options{URL: cfg.URL, Options: c.looking(cfg.Timeout, cfg.Failover)})
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (c storeCheck) openMySQL(ctx context.Context) (sqlStore, error) {
	cfg := c.d.Config.Store.Settings["mysql"].(*mysql.Settings)
	store, err := mysql.Open(ctx, mysql.Options{DSN: cfg.DSN, Options: c.looking(cfg.Timeout, cfg.Failover)})
	if err != nil {
		return nil, err
	}
	return store, nil
}

// looking returns the options of a store that is only looked at.
func (c storeCheck) looking(timeout time.Duration, failover string) sqlstore.Options {
	return sqlstore.Options{
		Timeout: min(timeout, mostTimeout), MaxConnections: 1, Lossless: failover == sqlstore.Lossless, Now: c.d.Now, ReadOnly: true,
	}
}

// sqlDatabase looks at an SQL server and what seqd keeps there.
func (c storeCheck) sqlDatabase(ctx context.Context, f *findings, open func(context.Context) (sqlStore, error)) {
	named := c.sqlServer()
	store, err := open(ctx)
	if err != nil {
		f.add(Fail, named.key, "start the server, or correct the address, the database, the user and the password", "%s", strings.TrimPrefix(err.Error(), named.key+": "))
		return
	}
	defer store.Close()
	server, err := store.Inspect(ctx)
	if err != nil {
		f.add(Fail, named.key, "", "the server cannot be asked about itself: %v", err)
		return
	}
	c.d.clocks.heardStore("the "+server.Product+" server", server.Offset, server.RoundTrip)
	j := sqlJudge{f, named, server}
	j.server()
	j.schema()
	j.rights()
	j.connections(c.nodes(ctx, store))
	j.failover()
	if server.Schema > 0 && !errors.Is(server.Refused, persist.ErrUnavailable) {
		c.contents(ctx, f, store)
	}
}

// nodes returns how many nodes run on a store now, at least 1.
func (c storeCheck) nodes(ctx context.Context, store persist.Store) int {
	docs, err := store.Documents().List(ctx, "node", "", 1000)
	running := 0
	for _, doc := range docs {
		if err == nil && doc.Expires > c.d.Now().UnixMilli() {
			running++
		}
	}
	return max(running, 1)
}

// sqlJudge reports what is wrong with an SQL server.
type sqlJudge struct {
	f     *findings
	named sqlServer
	s     sqlstore.Server
}

// server judges the answers and the settings.
func (j sqlJudge) server() {
	level, change := OK, ""
	if j.s.RoundTrip > slowStore {
		level, change = Warn, "put it nearer: each segment takes one or two answers"
	}
	j.f.add(level, j.named.key, change, "%s %s answers in %s", j.s.Product, j.s.Version, j.s.RoundTrip.Round(10*time.Microsecond))
	if j.s.Refused != nil {
		j.f.add(Fail, j.named.section, "", "seqd does not use it as it is: %v", j.s.Refused)
	} else {
		j.f.ok(j.named.section, "what it acknowledges is kept: %s; whether its disk keeps what it says it keeps cannot be told", strings.Join(j.s.Settings, ", "))
	}
	if j.s.Plain {
		j.f.add(Info, j.named.key, "turn TLS on, unless the network is trusted", "the connection is not encrypted")
	}
	switch {
	case j.s.Timeout == 0:
		j.f.add(Warn, j.named.section+".timeout", "set it for the user, to store's timeout ("+j.named.timeout.String()+")",
			"statements have no bound in the server: one that hangs holds its locks although nobody waits for it")
	default:
		j.f.ok(j.named.section+".timeout", "the server ends statements after %s", j.s.Timeout)
	}
}

// manyDead is how many dead rows a table may have for each live one, beside leastDead.
const (
	manyDead  = 20
	leastDead = 100_000
)

// schema judges the tables.
func (j sqlJudge) schema() {
	switch {
	case j.s.Schema == 0:
		j.f.add(Info, j.named.section, "if numbers were issued before, this is the wrong database", "it has no tables yet: the next seqd that starts creates them")
		return
	case j.s.Schema < j.s.Known:
		j.f.add(Info, j.named.section, "", "the tables have schema version %d; the next seqd that starts upgrades them to %d", j.s.Schema, j.s.Known)
	default:
		j.f.ok(j.named.section, "the tables have schema version %d and take %d MiB", j.s.Schema, j.s.Bytes>>20)
	}
	for _, unfit := range j.s.Unfit {
		j.f.add(Fail, j.named.section, "", "%s", unfit)
	}
	if j.s.Dead > leastDead && j.s.Dead > manyDead*j.s.Live {
		j.f.add(Warn, j.named.section, "look for a transaction that never ends, and at autovacuum",
			"%d rows wait to be removed, and %d are in use: the tables grow and become slow", j.s.Dead, j.s.Live)
	}
}

// rights judges the user.
func (j sqlJudge) rights() {
	if j.s.Mighty {
		j.f.add(Warn, j.named.key, "use one of its own, with rights on its tables only; docs/STORES.md has the statements", "the user %s has rights over the whole server", j.s.User)
	}
	if len(j.s.Missing) > 0 {
		j.f.add(Fail, j.named.key, "grant them; docs/STORES.md has the statements", "the user %s lacks rights: %s", j.s.User, strings.Join(j.s.Missing, ", "))
		return
	}
	j.f.ok(j.named.key, "the user %s has the rights it needs", j.s.User)
}

// connections compares what nodes may open with what is left.
func (j sqlJudge) connections(nodes int) {
	key := j.named.section + ".maxConnections"
	if j.s.Pooler {
		j.f.ok(key, "a pooler such as pgbouncer is between: it decides how many connections there are")
		return
	}
	wanted := int64(nodes * j.named.maxConnections)
	switch {
	case wanted > j.s.Most:
		j.f.add(Warn, key, "lower it, or raise the limit of the user, the database or the server (max_connections)", "%d nodes may open %d connections, and the server allows %d in all", nodes, wanted, j.s.Most)
	case j.s.Open*10 > j.s.Most*9:
		j.f.add(Warn, key, "raise max_connections in the server, or use a pooler", "%d of %d connections are open", j.s.Open, j.s.Most)
	default:
		j.f.ok(key, "%d nodes may open %d of the %d connections that the server allows; %d are open now", nodes, wanted, j.s.Most, j.s.Open)
	}
}

// failover judges what a failover can lose, and whether one is to be confirmed.
func (j sqlJudge) failover() {
	key := j.named.section + ".failover"
	known := strings.Join(append(append([]string(nil), j.s.Standbys...), nonEmpty(j.s.Replication)...), "; ")
	if known == "" {
		known = "no standby is connected"
	}
	switch {
	case j.named.failover == sqlstore.Lossless:
		j.f.ok(key, "lossless: commits wait for a standby. %s", known)
	case j.s.Fence.FailedOver():
		j.f.add(Fail, key, "raise what may be missing, then run seqd failover --confirm; see docs/OPERATIONS.md",
			"the store has failed over and nobody has confirmed that (now %s, confirmed %s): it may have lost counters, and none is created", j.s.Fence.Current, j.s.Fence.Confirmed)
	case j.s.Fence.Current != "":
		j.f.ok(key, "lossy: after a failover counters continue above a gap, and none is created until seqd failover --confirm. The server is %s. %s", j.s.Fence.Current, known)
	default:
		j.f.ok(key, "lossy. %s", known)
	}
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}
