package sqlstore

import (
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
)

func TestJudgeSQL(t *testing.T) {
	well := Server{
		Product: "PostgreSQL", Version: "15.4", RoundTrip: time.Millisecond, Settings: []string{"fsync on"}, Schema: 1, Known: 1,
		Fence: persist.Fence{Current: "7/1", Confirmed: "7/1"}, User: "seqd", Timeout: 2 * time.Second, Most: 97, Open: 5,
	}
	some := DefaultSettings()
	judged := func(s Server) persisttest.Findings {
		f := persisttest.Findings{}
		judge{f.Examination("store.postgres", "url"), &some, s}.all(3)
		return f
	}
	quiet := judged(well)
	quiet.Quiet(t)
	for name, test := range map[string]struct {
		change               func(*Server)
		level, subject, part string
	}{
		"slow":       {func(s *Server) { s.RoundTrip = time.Second }, "warn", "store.postgres.url", "put it nearer"},
		"refused":    {func(s *Server) { s.Refused = Refused("fsync is off") }, "FAIL", "store.postgres", "fsync is off"},
		"plain":      {func(s *Server) { s.Plain = true }, "info", "store.postgres.url", "not encrypted"},
		"no bound":   {func(s *Server) { s.Timeout = 0 }, "warn", "store.postgres.timeout", "no bound"},
		"empty":      {func(s *Server) { s.Schema = 0 }, "info", "store.postgres", "no tables yet"},
		"older":      {func(s *Server) { s.Known = 2 }, "info", "store.postgres", "upgrades them to 2"},
		"unlogged":   {func(s *Server) { s.Unfit = []string{"seqd_counters is unlogged"} }, "FAIL", "store.postgres", "unlogged"},
		"bloat":      {func(s *Server) { s.Dead, s.Live = 1_000_000, 10 }, "warn", "store.postgres", "wait to be removed"},
		"superuser":  {func(s *Server) { s.Mighty = true }, "warn", "store.postgres.url", "whole server"},
		"rights":     {func(s *Server) { s.Missing = []string{"delete on seqd_history"} }, "FAIL", "store.postgres.url", "delete on seqd_history"},
		"too few":    {func(s *Server) { s.Most = 20 }, "warn", "store.postgres.maxConnections", "3 nodes may open 24"},
		"used up":    {func(s *Server) { s.Open = 95 }, "warn", "store.postgres.maxConnections", "95 of 97"},
		"pooler":     {func(s *Server) { s.Most, s.Pooler = 1, true }, "ok", "store.postgres.maxConnections", "pgbouncer"},
		"failover":   {func(s *Server) { s.Fence.Current = "7/2" }, "FAIL", "store.postgres.failover", "seqd failover --confirm"},
		"differs":    {func(s *Server) { s.Fence.Confirmed = "lossless 7/1" }, "FAIL", "store.postgres.failover", "rely on lossless"},
		"a standby":  {func(s *Server) { s.Standbys = []string{"s1 is streaming, async"} }, "ok", "store.postgres.failover", "s1 is streaming, async"},
		"no standby": {func(*Server) {}, "ok", "store.postgres.failover", "no standby is connected"},
	} {
		s := well
		test.change(&s)
		t.Run(name, func(t *testing.T) {
			f := judged(s)
			f.Want(t, test.level+" "+test.subject, test.part)
		})
	}
}
