package mongo

import (
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/seqd/seqd/persist"
)

// leastWait is from when on an operation counts as one that waited for a connection: an idle
// connection is there at once. The client library tells only how long it took.
const leastWait = time.Millisecond

// pool counts what the client library tells of its connections, to all servers together. It is safe
// for concurrent use.
type pool struct{ inUse, most, waits, waited atomic.Int64 }

func (p *pool) monitor() *event.PoolMonitor { return &event.PoolMonitor{Event: p.told} }

func (p *pool) told(e *event.PoolEvent) {
	switch e.Type {
	case event.ConnectionCheckedIn:
		p.inUse.Add(-1)
		return
	case event.ConnectionCheckedOut:
		p.inUse.Add(1)
	case event.ConnectionCheckOutFailed:
	default:
		return
	}
	if e.Duration >= leastWait {
		p.waits.Add(1)
		p.waited.Add(int64(e.Duration))
	}
}

var _ persist.Pooled = (*Store)(nil)

// Pool implements [persist.Pooled].
func (s *Store) Pool() persist.Pool {
	p := s.pool
	return persist.Pool{InUse: int(p.inUse.Load()), Most: int(p.most.Load()), Waits: p.waits.Load(), Waited: time.Duration(p.waited.Load())}
}
