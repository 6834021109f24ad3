package httpapi

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
)

// room bounds the bytes of answers that are being made or written. A caller that does not read its
// answer keeps it in memory until writeTimeout, so the number of requests alone bounds nothing.
// There is no queue, as with [inFlight]. It is safe for concurrent use.
//
// An answer borrows before it is made, for numbers that were taken must not be refused: twice the
// bytes that it is expected to have, because making it takes more than the answer. Once it is made
// it holds its own size.
type room struct {
	refusal
	large, small account
	unbounded    bool
	// sizes are the bytes of one unit of an answer (an ID, an item of a list) that were seen
	// lately, by a hash of what was asked for. Two that share a place cost precision, nothing else.
	sizes [1024]unitSize
	seed  maphash.Seed
}

// account is a part of a room.
type account struct {
	most int64
	now  atomic.Int64
}

// take takes bytes, or all of the account if that is less; taken is 0 if it does not have so many.
func (a *account) take(bytes int64) (taken int64) {
	bytes = min(bytes, a.most)
	for {
		now := a.now.Load()
		if now > a.most-bytes {
			return 0
		}
		if a.now.CompareAndSwap(now, now+bytes) {
			return bytes
		}
	}
}

const (
	// smallShare is the part of a room that is for small answers alone, so that large ones do not
	// keep them out, and smallest what part of that part a small answer may have.
	smallShare = 8
	smallest   = 64
	// few is how many IDs an answer may have without borrowing: it takes less than its connection
	// does.
	few = 16
	// cautious is how many times as much is expected of the next ones, if the first is not made
	// after firstWait.
	cautious  = 8
	firstWait = time.Second
)

func newRoom(most int64, log *slog.Logger) *room {
	detail := fmt.Sprintf("answers take the %d bytes of memory that there are for them; ask again, or for fewer at a time", most)
	r := &room{
		refusal: newRefusal(detail, "requests were refused: answers take server.maxInFlightBytes", log),
		seed:    maphash.MakeSeed(), unbounded: most == 0,
	}
	r.small.most = orNone(most) / smallShare
	r.large.most = orNone(most) - r.small.most
	return r
}

// unit is what answers consist of.
type unit struct {
	usual int64 // bytes that are expected of the first answer
	exact bool  // an answer has as many of them as were asked for, not fewer
}

var (
	ids   = unit{usual: 24, exact: true}
	items = unit{usual: 256}
)

// loan is what one answer borrows of a room.
type loan struct {
	from  *account
	unit  unit
	size  *unitSize
	first bool // nobody knew the size, and others wait until this one does
	units int64
	bytes int64
}

// borrow returns a loan for an answer of so many units; ok is false if there is no room. An answer
// that is larger than the room gets it if no other large one has any of it.
func (r *room) borrow(what string, units int, of unit) (l loan, ok bool) {
	size := &r.sizes[maphash.String(r.seed, what)%uint64(len(r.sizes))]
	l = loan{from: &r.small, unit: of, size: size, units: int64(max(units, 1))}
	if r.unbounded {
		return l, true
	}
	each, first := size.expected(of.usual)
	l.first = first
	bytes := 2 * each * l.units
	if bytes > r.small.most/smallest {
		l.from = &r.large
	}
	l.bytes = l.from.take(bytes)
	if l.bytes == 0 {
		l.end()
		return l, false
	}
	return l, true
}

// unitSize is how many bytes a unit of an answer has, as far as was seen.
type unitSize struct {
	bytes atomic.Int64 // 0 for never
	mu    sync.Mutex   // guards what follows
	// closed when the first answer is made, or will not be; nil while none is on its way
	made chan struct{}
}

// expected returns the size that is expected. If none was seen yet, first is true for one caller,
// who must call known; the others wait for that. Otherwise a whole crowd would be taken for usual
// before the first answer is made.
func (s *unitSize) expected(usual int64) (size int64, first bool) {
	if size := s.bytes.Load(); size > 0 {
		return size, false
	}
	made, size := s.begin()
	switch {
	case size > 0:
		return size, false
	case made == nil:
		return usual, true
	}
	late := time.NewTimer(firstWait)
	defer late.Stop()
	select {
	case <-made:
	case <-late.C:
	}
	if size := s.bytes.Load(); size > 0 {
		return size, false
	}
	return cautious * usual, false
}

// begin returns what to wait for, or nil to whoever is the first, or the size that was seen
// meanwhile.
func (s *unitSize) begin() (made chan struct{}, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	made, size = s.made, s.bytes.Load()
	if made == nil && size == 0 {
		s.made = make(chan struct{})
	}
	return made, size
}

// known ends the wait for the first answer.
func (s *unitSize) known() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.made)
	s.made = nil
}

// expected is how many bytes the answer will have, as far as one can tell.
func (l *loan) expected() int64 {
	if size := l.size.bytes.Load(); size > 0 {
		return size*l.units + 64 // for what stands around the IDs
	}
	return l.unit.usual * l.units
}

// settle says that the answer is made: it has size bytes, and keeps held bytes of memory until it
// is written.
func (l *loan) settle(size, held int) {
	l.from.now.Add(int64(held) - l.bytes)
	l.bytes = int64(held)
	l.learn((int64(size) + l.units - 1) / l.units)
}

// learn notes the size of a unit. It follows larger ones at once and smaller ones slowly, to expect
// too much rather than too little. If an answer may have had fewer units nothing smaller is learnt
// from it: a few empty pages would open the way for many full ones.
func (l *loan) learn(size int64) {
	before := l.size.bytes.Load()
	switch {
	case !l.unit.exact:
		size = max(size, before, l.unit.usual)
	case size < before:
		size = before - (before-size+15)/16
	}
	if size != before {
		l.size.bytes.Store(size)
	}
	l.noLongerFirst()
}

func (l *loan) noLongerFirst() {
	if l.first {
		l.first = false
		l.size.known()
	}
}

// end gives back what is still borrowed.
func (l *loan) end() {
	l.from.now.Add(-l.bytes)
	l.bytes = 0
	l.noLongerFirst()
}

// loanKey is where [write] finds the loan of a request.
const loanKey = "loan"

// lent wraps the handler of a route whose answers can be large. No numbers are taken there, so it
// need not be fast.
func (a *API) lent(handler gin.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		l, ok := a.room.borrow(c.Request.URL.Path, itemsOf(c), items)
		if !ok {
			a.refuse(c, &a.room.refusal)
			return
		}
		defer l.end()
		c.Set(loanKey, &l)
		handler(c)
	}
}

// itemsOf is how many items an answer can have: what limit says, or the usual page.
func itemsOf(c *gin.Context) int {
	limit, err := strconv.Atoi(c.Query("limit"))
	if err != nil || limit < 1 {
		return usualPage
	}
	return min(limit, largestPage)
}

// settle tells the loan of a request, if it has one, what its answer has come to.
func settle(c *gin.Context, body []byte) {
	if len(c.Keys) == 0 { // as of each request for numbers
		return
	}
	if l, lent := c.Get(loanKey); lent {
		l.(*loan).settle(len(body), cap(body))
	}
}

// refuse answers a request that there is no room for.
func (a *API) refuse(c *gin.Context, why *refusal) {
	c.Abort()
	a.traceCode(c, seqd.CodeOverloaded)
	why.answer(c)
}
