package mongo

import (
	"context"
	"strings"

	"github.com/seqd/seqd/persist/driver"
)

// Examine implements [driver.Settings].
func (s *Settings) Examine(ctx context.Context, e driver.Examination) (readable bool) {
	if e.Err != nil {
		e.Add(driver.Fail, e.Key, "start the server, or correct the address, user and password", "%s", strings.TrimPrefix(e.Err.Error(), e.Key+": "))
		return false
	}
	server, err := e.Store.(*Store).Inspect(ctx)
	if err != nil {
		e.Add(driver.Fail, e.Key, "", "the server cannot be asked about itself: %v", err)
		return false
	}
	server.judge(e)
	return true
}

// judge reports what is wrong with a server.
func (s Server) judge(e driver.Examination) {
	e.Answers("MongoDB", s.Version, s.Offset, s.RoundTrip)
	switch {
	case s.Router:
		e.OK(e.Key, "it is a router of a sharded cluster")
	case s.ReplicaSet == "":
		e.Add(driver.Warn, e.Key, "use a replica set of three", "it is a server of its own: majority means this one, and when it is lost so is what it knew")
	case s.Members < 3:
		e.Add(driver.Warn, e.Key, "use three", "the replica set %s names %d servers with data: it cannot lose one and take writes", s.ReplicaSet, s.Members)
	default:
		e.OK(e.Key, "the replica set %s names %d servers", s.ReplicaSet, s.Members)
	}
	if !s.Primary {
		e.Add(driver.Fail, e.Key, "see that there is a primary", "no server that takes writes answers")
	}
	e.OK(e.Key, "every write asks for majority and journal; a server without a journal refuses the first one, which was not tried")
	switch {
	case s.User == "":
		e.Add(driver.Warn, e.Key, "turn authorization on", "the server does not authenticate clients: anyone who reaches it can change counters")
	case len(s.Missing) > 0:
		e.Add(driver.Fail, e.Key, "give it the role readWrite on the database", "the user %s may not %s", s.User, strings.Join(s.Missing, ", "))
	default:
		e.OK(e.Key, "the user %s has the rights it needs", s.User)
	}
}
