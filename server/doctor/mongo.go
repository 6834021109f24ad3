package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/seqd/seqd/persist/mongo"
)

func (c storeCheck) openMongo(ctx context.Context) (*mongo.Store, error) {
	cfg := c.d.Config.Store.Settings["mongo"].(*mongo.Settings)
	return mongo.Open(ctx, mongo.Options{URI: cfg.URI, Database: cfg.Database, Timeout: min(cfg.Timeout, mostTimeout), Now: c.d.Now, ReadOnly: true})
}

const mongoKey = "store.mongo.uri"

// A server that is slower than slowStore is reported, and asked for at most mostTimeout.
const (
	slowStore   = 50 * time.Millisecond
	mostTimeout = 4 * time.Second
)

func (c storeCheck) mongoServer(ctx context.Context, f *findings) {
	store, err := c.openMongo(ctx)
	if err != nil {
		f.add(Fail, mongoKey, "start the server, or correct the address, user and password", "%s", strings.TrimPrefix(err.Error(), mongoKey+": "))
		return
	}
	defer store.Close()
	server, err := store.Inspect(ctx)
	if err != nil {
		f.add(Fail, mongoKey, "", "the server cannot be asked about itself: %v", err)
		return
	}
	c.d.clocks.heardStore("the MongoDB server", server.Offset, server.RoundTrip)
	judge(f, server)
	c.contents(ctx, f, store)
}

// judge reports what is wrong with a server.
func judge(f *findings, s mongo.Server) {
	level, change := OK, ""
	if s.RoundTrip > slowStore {
		level, change = Warn, "put it nearer: each segment takes one or two answers"
	}
	f.add(level, mongoKey, change, "MongoDB %s answers in %s", s.Version, s.RoundTrip.Round(10*time.Microsecond))
	switch {
	case s.Router:
		f.ok(mongoKey, "it is a router of a sharded cluster")
	case s.ReplicaSet == "":
		f.add(Warn, mongoKey, "use a replica set of three", "it is a server of its own: majority means this one, and when it is lost so is what it knew")
	case s.Members < 3:
		f.add(Warn, mongoKey, "use three", "the replica set %s names %d servers with data: it cannot lose one and take writes", s.ReplicaSet, s.Members)
	default:
		f.ok(mongoKey, "the replica set %s names %d servers", s.ReplicaSet, s.Members)
	}
	if !s.Primary {
		f.add(Fail, mongoKey, "see that there is a primary", "no server that takes writes answers")
	}
	f.ok(mongoKey, "every write asks for majority and journal; a server without a journal refuses the first one, which was not tried")
	switch {
	case s.User == "":
		f.add(Warn, mongoKey, "turn authorization on", "the server does not authenticate clients: anyone who reaches it can change counters")
	case len(s.Missing) > 0:
		f.add(Fail, mongoKey, "give it the role readWrite on the database", "the user %s may not %s", s.User, strings.Join(s.Missing, ", "))
	default:
		f.ok(mongoKey, "the user %s has the rights it needs", s.User)
	}
}
