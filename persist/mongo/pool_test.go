package mongo

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// A connection is in use until it is returned. Operations that got one at once did not wait; those
// that got none did.
func TestPoolIsCounted(t *testing.T) {
	p := new(pool)
	p.most.Store(64)
	for _, e := range []event.PoolEvent{
		{Type: event.ConnectionPoolCreated}, {Type: event.ConnectionCheckOutStarted},
		{Type: event.ConnectionCheckedOut, Duration: leastWait - 1}, {Type: event.ConnectionCheckedOut, Duration: time.Second},
		{Type: event.ConnectionCheckedIn}, {Type: event.ConnectionClosed},
		{Type: event.ConnectionCheckOutFailed, Duration: time.Second}, {Type: event.ConnectionCheckOutFailed},
	} {
		p.monitor().Event(&e)
	}
	must.Equal(t, (&Store{pool: p}).Pool(), persist.Pool{InUse: 1, Most: 64, Waits: 2, Waited: 2 * time.Second})
}
