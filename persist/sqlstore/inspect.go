package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

// Server describes the server of a store to people.
type Server struct {
	// Product and Version are what runs, such as PostgreSQL and 15.4.
	Product, Version string
	// Offset is how far its clock is ahead of this machine's, accurate to half of RoundTrip.
	Offset, RoundTrip time.Duration
	// Refused is why the server cannot be used now, or as it is set up; nil if it can. Settings are
	// those that were checked, as name value.
	Refused  error
	Settings []string
	// Schema is the version of the tables, 0 if there are none. Known is the newest one that this
	// build knows.
	Schema, Known int
	// Unfit are tables that lose what was acknowledged, and why.
	Unfit []string
	// Fence is known if Schema is not 0 and the server takes writes.
	Fence persist.Fence
	// Standbys are the servers that follow this one, a line for each. Replication is what else is
	// known of them, "" for nothing.
	Standbys    []string
	Replication string
	// User is the user of the connection, and Missing the rights that it lacks. Mighty is true if
	// it has rights over the whole server.
	User    string
	Missing []string
	Mighty  bool
	// Plain is true if the connection leaves the machine unencrypted.
	Plain bool
	// Timeout is the bound of a statement in the server, 0 for none.
	Timeout time.Duration
	// Most is how many connections the user may have, with those of others, and Open how many there
	// are now.
	Most, Open int64
	// Pooler is true if a pooler such as pgbouncer is between.
	Pooler bool
	// Bytes is the size of the tables. Dead are rows that wait to be removed, Live the others; 0 if
	// the server does not say.
	Bytes, Dead, Live int64
}

// looks is how often the server is asked for its clock. The fastest answer is the most accurate.
const looks = 5

// Pool implements [persist.Pooled].
func (s *Store) Pool() persist.Pool { return s.db.Pool() }

var _ persist.Pooled = (*Store)(nil)

// Bounded calls f with the deadline of an operation.
func (s *Store) Bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	return f(ctx)
}

// Ask sends one query about the server, with the deadline of an operation.
func (s *Store) Ask(ctx context.Context, name, query string, row func(Scan) error) error {
	return s.Bounded(ctx, func(ctx context.Context) error { return s.db.Query(ctx, name, query, row) })
}

// Lines returns the rows of a query about the server, of one text each.
func (s *Store) Lines(ctx context.Context, name, query string) (list []string, err error) {
	err = s.Ask(ctx, name, query, func(scan Scan) error {
		var line string
		err := scan(&line)
		list = append(list, line)
		return err
	})
	return list, err
}

// InspectClock finds out how far the server's clock is ahead, and how long an answer takes.
func (s *Store) InspectClock(ctx context.Context, found *Server) error {
	type reading struct{ offset, trip time.Duration }
	var heard []reading
	for range looks + 1 {
		var ms int64
		sent := time.Now()
		err := s.Ask(ctx, "read clock", "SELECT "+s.dialect.Clock, func(scan Scan) error { return scan(&ms) })
		if err != nil {
			return err
		}
		trip := time.Since(sent)
		heard = append(heard, reading{time.UnixMilli(ms).Sub(sent.Add(trip / 2)), trip})
	}
	heard = heard[1:] // the first one may have made the connection
	slices.SortFunc(heard, func(a, b reading) int { return cmp.Compare(a.trip, b.trip) })
	found.Offset, found.RoundTrip = heard[0].offset, heard[len(heard)/2].trip
	return nil
}

// InspectSchema reads the version of the tables, and the fence if the server takes writes.
func (s *Store) InspectSchema(ctx context.Context, found *Server) error {
	found.Known = len(s.dialect.Steps)
	err := s.Bounded(ctx, func(ctx context.Context) (err error) {
		found.Schema, err = s.version(ctx, s.db)
		return err
	})
	if err != nil || found.Schema == 0 || found.Refused != nil {
		return err
	}
	found.Fence, err = s.Fence(ctx)
	return err
}
