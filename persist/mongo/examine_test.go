package mongo

import (
	"testing"
	"time"

	"github.com/seqd/seqd/persist/persisttest"
)

func TestJudge(t *testing.T) {
	well := Server{Version: "8.0.1", ReplicaSet: "rs0", Members: 3, Primary: true, User: "seqd", RoundTrip: time.Millisecond}
	for name, test := range map[string]struct {
		change      func(*Server)
		level, part string
	}{
		"well":     {func(*Server) {}, "ok", "names 3 servers"},
		"router":   {func(s *Server) { s.Router, s.ReplicaSet = true, "" }, "ok", "router"},
		"alone":    {func(s *Server) { s.ReplicaSet = "" }, "warn", "majority means this one"},
		"two":      {func(s *Server) { s.Members = 2 }, "warn", "cannot lose one"},
		"no heads": {func(s *Server) { s.Primary = false }, "FAIL", "a primary"},
		"slow":     {func(s *Server) { s.RoundTrip = time.Second }, "warn", "nearer"},
		"open":     {func(s *Server) { s.User = "" }, "warn", "authorization"},
		"rights":   {func(s *Server) { s.Missing = []string{"update on seqd.counters"} }, "FAIL", "may not update on seqd.counters"},
	} {
		t.Run(name, func(t *testing.T) {
			s, f := well, persisttest.Findings{}
			test.change(&s)
			s.judge(f.Examination("store.mongo", "uri"))
			f.Want(t, test.level+" store.mongo.uri", test.part)
			if test.level == "ok" {
				f.Quiet(t)
			}
		})
	}
}
