package mongo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Server describes a MongoDB server.
type Server struct {
	// Version is the version of the server.
	Version string
	// ReplicaSet is the name of the replica set, "" for a stand-alone server or a router of a
	// sharded cluster.
	ReplicaSet string
	// Router is true for a router of a sharded cluster.
	Router bool
	// Members is how many servers with data the replica set names.
	Members int
	// Primary is true if the server takes writes.
	Primary bool
	// Offset is how far its clock is ahead of this machine's, accurate to half of RoundTrip.
	Offset, RoundTrip time.Duration
	// User is the user of the connection, "" if the server has no authorization.
	User string
	// Missing are the rights that the user lacks, such as "update on seqd.counters". They are known
	// only if User is set.
	Missing []string
}

// looks is how often the server is asked for its clock. The fastest answer is the most accurate.
const looks = 5

// Inspect asks the server about itself. It writes nothing. Each command is bounded by the time-out
// of the store.
func (s *Store) Inspect(ctx context.Context) (found Server, err error) {
	var heard []clockReading
	for range looks {
		a, err := s.hello(ctx, &found)
		if err != nil {
			return found, err
		}
		heard = append(heard, a)
	}
	found.Offset, found.RoundTrip = clockOf(heard)
	var build struct {
		Version string `bson:"version"`
	}
	if err := s.ask(ctx, bson.D{{Key: "buildInfo", Value: 1}}, &build); err != nil {
		return found, err
	}
	found.Version = build.Version
	var status connectionStatus
	if err := s.ask(ctx, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}, &status); err != nil {
		return found, err
	}
	if users := status.AuthInfo.Users; len(users) > 0 {
		found.User = users[0].User
		found.Missing = status.missing(s.counters.collection.Database().Name())
	}
	return found, nil
}

// clockReading is what one answer tells about the clock.
type clockReading struct{ offset, trip time.Duration }

// clockOf returns how far the clock is ahead of this machine's, by the fastest answer, and how long
// an answer usually takes.
func clockOf(heard []clockReading) (offset, roundTrip time.Duration) {
	slices.SortFunc(heard, func(a, b clockReading) int { return cmp.Compare(a.trip, b.trip) })
	return heard[0].offset, heard[len(heard)/2].trip
}

// hello asks for the role and the clock.
func (s *Store) hello(ctx context.Context, found *Server) (clockReading, error) {
	var said struct {
		SetName  string    `bson:"setName"`
		Msg      string    `bson:"msg"`
		Hosts    []string  `bson:"hosts"`
		Writable bool      `bson:"isWritablePrimary"`
		Local    time.Time `bson:"localTime"`
	}
	sent := time.Now()
	if err := s.ask(ctx, bson.D{{Key: "hello", Value: 1}}, &said); err != nil {
		return clockReading{}, err
	}
	trip := time.Since(sent)
	found.ReplicaSet, found.Router, found.Members, found.Primary = said.SetName, said.Msg == "isdbgrid", len(said.Hosts), said.Writable
	return clockReading{said.Local.Sub(sent.Add(trip / 2)), trip}, nil
}

func (s *Store) ask(ctx context.Context, command bson.D, answer any) error {
	ctx, cancel, err := s.clock.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return translate(s.clock.admin.RunCommand(ctx, command).Decode(answer))
}

// connectionStatus is the user of a connection and its rights.
type connectionStatus struct {
	AuthInfo struct {
		Users []struct {
			User string `bson:"user"`
		} `bson:"authenticatedUsers"`
		Privileges []privilege `bson:"authenticatedUserPrivileges"`
	} `bson:"authInfo"`
}

type privilege struct {
	Resource struct {
		DB         *string `bson:"db"`
		Collection *string `bson:"collection"`
		Any        bool    `bson:"anyResource"`
	} `bson:"resource"`
	Actions []string `bson:"actions"`
}

// covers reports whether a privilege applies to a collection. An empty name stands for all.
func (p privilege) covers(database, collection string) bool {
	is := func(said *string, name string) bool { return said != nil && (*said == "" || *said == name) }
	return p.Resource.Any || is(p.Resource.DB, database) && is(p.Resource.Collection, collection)
}

// needed are the actions that seqd uses on each collection.
var needed = map[string][]string{
	"counters": {"find", "insert", "update", "remove"}, "shapes": {"find"}, "clusters": {"find"},
	"slots": {"find", "insert", "update"}, "documents": {"find", "insert", "update", "remove", "createIndex"},
	"history": {"find", "insert", "remove"},
}

// missing returns the needed actions that no privilege allows, sorted.
func (c connectionStatus) missing(database string) (list []string) {
	for collection, actions := range needed {
		for _, action := range actions {
			allowed := slices.ContainsFunc(c.AuthInfo.Privileges, func(p privilege) bool {
				return p.covers(database, collection) && (slices.Contains(p.Actions, action) || slices.Contains(p.Actions, "anyAction"))
			})
			if !allowed {
				list = append(list, action+" on "+database+"."+collection)
			}
		}
	}
	slices.Sort(list)
	return list
}
