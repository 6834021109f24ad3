package gate

import (
	"log/slog"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// Places limits how many requests are answered at once. There is no queue: a request without a
// place is refused at once and can go to another node, and the others are answered as fast as ever.
// It is safe for concurrent use.
type Places struct {
	// Refused are the requests that found no place. Callers of Enter count them.
	Refused *Episodes
	limit   atomic.Pointer[limit]
	now     atomic.Int64
	entered atomic.Int64
}

// limit is how many places there are, and the refusal if all are taken.
type limit struct {
	most    int64
	refusal *seqd.Error
}

// retryAfter is how long a client should wait after a refusal.
const retryAfter = time.Second

// NewPlaces returns a limit; 0 means none. bound is what the limit is called in the log.
func NewPlaces(most int, bound string, log *slog.Logger) *Places {
	p := &Places{Refused: NewEpisodes("requests were refused: "+bound+" are being answered", log)}
	p.Limit(most)
	return p
}

// Limit sets the limit; 0 means none. Requests that have a place keep it.
func (p *Places) Limit(most int) {
	p.limit.Store(&limit{orNone(int64(most)), overloaded(strconv.Itoa(most) + " requests are being answered already")})
}

// overloaded returns a refusal for lack of places or room.
func overloaded(detail string) *seqd.Error {
	return &seqd.Error{Code: seqd.CodeOverloaded, Detail: detail, RetryAfter: retryAfter}
}

// orNone converts 0 to no limit.
func orNone(most int64) int64 {
	if most == 0 {
		return math.MaxInt64
	}
	return most
}

// Refusal returns why a request without a place is refused. Its detail needs no escaping in JSON.
func (p *Places) Refusal() *seqd.Error { return p.limit.Load().refusal }

// Enter takes a place, and reports whether there was one. If not, it writes nothing to memory, so
// that refused requests do not slow down the others.
func (p *Places) Enter() bool {
	most := p.limit.Load().most
	for {
		n := p.now.Load()
		if n >= most {
			return false
		}
		if p.now.CompareAndSwap(n, n+1) {
			p.entered.Add(1)
			return true
		}
	}
}

// Leave frees the place.
func (p *Places) Leave() { p.now.Add(-1) }

// Entered returns how many requests have taken a place so far.
func (p *Places) Entered() int64 { return p.entered.Load() }

// Taken returns how many places are taken.
func (p *Places) Taken() int64 { return p.now.Load() }
