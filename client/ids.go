package client

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// idMark begins the ID of every request that a client sends.
const idMark = "goc-"

// requestIDs draws the IDs of requests: idMark, a random value of the client, and a running number.
//
// The service repeats the ID in its answer. So an answer that carries another ID of this form is
// the answer to another request: a cache that ignores no-store, or a proxy that confuses
// connections. Its numbers were given to somebody else. A proxy may replace the ID by its own, which
// says nothing.
type requestIDs struct {
	prefix string
	last   atomic.Uint64
}

func newRequestIDs() *requestIDs { return &requestIDs{prefix: idMark + randomHex(8) + "-"} }

func (r *requestIDs) next() string {
	var buf [48]byte
	return string(strconv.AppendUint(append(buf[:0], r.prefix...), r.last.Add(1), 36))
}

// foreign reports whether an answer belongs to another request than the one with this ID, or comes
// from a cache.
func foreign(header http.Header, id string) bool {
	for _, got := range header["X-Request-Id"] {
		if got != id && strings.HasPrefix(got, idMark) {
			return true
		}
	}
	return len(header["Age"]) > 0
}

// randomBelow returns a random number from 0 to n-1.
func randomBelow(n int) int { return rand.IntN(n) }

// jitter returns a random share of d, from a half to the whole, so that clients do not come back
// all at once.
func jitter[D ~int64](d D) D { return d/2 + D(rand.Int64N(int64(d)/2+1)) }
