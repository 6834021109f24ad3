package gate

import (
	"log/slog"
	"sync/atomic"
)

// Connections limits how many connections are open at once, of all protocols together. It is safe
// for concurrent use.
//
// If too many are open, a new one is closed without an answer. An answer would require to read what
// the client sends, because closing would otherwise reset the connection, and that would hold the
// descriptor that is to be freed.
type Connections struct {
	// Refused are the connections that were closed at once. Callers of Enter count them.
	Refused *Episodes
	most    int64
	open    atomic.Int64
}

func newConnections(most int, log *slog.Logger) *Connections {
	return &Connections{
		most:    orNone(int64(most)),
		Refused: NewEpisodes("connections were closed at once: server.maxConnections are open", log),
	}
}

// Enter counts a new connection, and reports whether it may stay. If not, the caller closes it.
func (c *Connections) Enter() bool {
	if c.open.Add(1) <= c.most {
		return true
	}
	c.open.Add(-1)
	return false
}

// Leave notes that a connection that may stay was closed.
func (c *Connections) Leave() { c.open.Add(-1) }

// Open returns how many connections are open.
func (c *Connections) Open() int64 { return c.open.Load() }

// Crowded reports whether more than seven eighths of the connections are open.
func (c *Connections) Crowded() bool { return c.open.Load() > c.most-c.most/8 }
