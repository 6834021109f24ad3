package doctor

import (
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

func judged(named sqlServer, s sqlstore.Server, nodes int) []Finding {
	f := &findings{}
	j := sqlJudge{f, named, s}
	j.server()
	j.schema()
	j.rights()
	j.connections(nodes)
	j.failover()
	return f.all()
}

var somePostgres = sqlServer{"store.postgres", "store.postgres.url", sqlstore.Lossy, 2 * time.Second, 8}

func TestJudgeSQL(t *testing.T) {
	well := sqlstore.Server{
		Product: "PostgreSQL", Version: "15.4", RoundTrip: time.Millisecond, Settings: []string{"fsync on"}, Schema: 1, Known: 1,
		Fence: persist.Fence{Current: "7/1", Confirmed: "7/1"}, User: "seqd", Timeout: 2 * time.Second, Most: 97, Open: 5,
	}
	quiet(t, judged(somePostgres, well, 3))
	for name, test := range map[string]struct {
		change        func(*sqlstore.Server)
		level         Level
		subject, part string
	}{
		"slow":       {func(s *sqlstore.Server) { s.RoundTrip = time.Second }, Warn, "store.postgres.url", "put it nearer"},
		"refused":    {func(s *sqlstore.Server) { s.Refused = sqlstore.Refused("fsync is off") }, Fail, "store.postgres", "fsync is off"},
		"plain":      {func(s *sqlstore.Server) { s.Plain = true }, Info, "store.postgres.url", "not encrypted"},
		"no bound":   {func(s *sqlstore.Server) { s.Timeout = 0 }, Warn, "store.postgres.timeout", "no bound"},
		"empty":      {func(s *sqlstore.Server) { s.Schema = 0 }, Info, "store.postgres", "no tables yet"},
		"older":      {func(s *sqlstore.Server) { s.Known = 2 }, Info, "store.postgres", "upgrades them to 2"},
		"unlogged":   {func(s *sqlstore.Server) { s.Unfit = []string{"seqd_counters is unlogged"} }, Fail, "store.postgres", "unlogged"},
		"bloat":      {func(s *sqlstore.Server) { s.Dead, s.Live = 1_000_000, 10 }, Warn, "store.postgres", "wait to be removed"},
		"superuser":  {func(s *sqlstore.Server) { s.Mighty = true }, Warn, "store.postgres.url", "whole server"},
		"rights":     {func(s *sqlstore.Server) { s.Missing = []string{"delete on seqd_history"} }, Fail, "store.postgres.url", "delete on seqd_history"},
		"too few":    {func(s *sqlstore.Server) { s.Most = 20 }, Warn, "store.postgres.maxConnections", "3 nodes may open 24"},
		"used up":    {func(s *sqlstore.Server) { s.Open = 95 }, Warn, "store.postgres.maxConnections", "95 of 97"},
		"pooler":     {func(s *sqlstore.Server) { s.Most, s.Pooler = 1, true }, OK, "store.postgres.maxConnections", "pgbouncer"},
		"failover":   {func(s *sqlstore.Server) { s.Fence.Current = "7/2" }, Fail, "store.postgres.failover", "seqd failover --confirm"},
		"a standby":  {func(s *sqlstore.Server) { s.Standbys = []string{"s1 is streaming, async"} }, OK, "store.postgres.failover", "s1 is streaming, async"},
		"no standby": {func(*sqlstore.Server) {}, OK, "store.postgres.failover", "no standby is connected"},
	} {
		s := well
		test.change(&s)
		t.Run(name, func(t *testing.T) { want(t, judged(somePostgres, s, 3), test.level, test.subject, test.part) })
	}
}
