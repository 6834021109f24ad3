package gate

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/connections"
)

// Closed counts connections that the service has closed for the sake of others.
type Closed struct {
	// Refused were closed at once, without an answer. An answer would require to read what the
	// client sends, because closing would otherwise reset the connection, and that would hold the
	// descriptor that is to be freed.
	Refused *Episodes
	// Displaced had gone longest without an answered request when all places were taken.
	Displaced *Episodes
	// Silent had no answered request for too long. That is no trouble by itself, so it is not
	// logged.
	Silent *Count
}

// Count counts. It is safe for concurrent use.
type Count struct{ n atomic.Int64 }

// Count counts one.
func (c *Count) Count() { c.n.Add(1) }

// All returns how often it happened.
func (c *Count) All() int64 { return c.n.Load() }

// newConnections returns the table of open connections, and what counts those that it closes.
func newConnections(most int, patience time.Duration, log *slog.Logger) (*connections.Table, Closed) {
	closed := Closed{
		Refused:   NewEpisodes("connections were closed at once: server.maxConnections are open, and a request is being answered on each", log),
		Displaced: NewEpisodes("connections were closed to make room for others: server.maxConnections are open", log),
		Silent:    new(Count),
	}
	return connections.New(connections.Options{
		Most: most, Patience: patience, Refused: closed.Refused, Displaced: closed.Displaced, Silent: closed.Silent,
	}), closed
}

// errNoPlace refuses requests on connections in spare places.
var errNoPlace = overloaded("so many connections are open that only probes are answered on this one")

// NoPlace returns why a request is refused on a connection for which only a spare place was left.
// Its detail needs no escaping in JSON.
func NoPlace() *seqd.Error { return errNoPlace }

var errEnded = overloaded("the connection was silent for too long, or had to make room for others, and is being closed")

// Ended returns why a request is refused that arrived just after its connection was ended.
func Ended() *seqd.Error { return errEnded }
