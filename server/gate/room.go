package gate

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// Room limits the bytes of large answers that are being made or written. A caller that does not
// read its answer keeps it in memory until writeTimeout, so the number of requests alone limits
// nothing. There is no queue, as in [Places]. It is safe for concurrent use.
//
// An answer borrows before it is made, because numbers that were taken must not be refused. It
// borrows twice its expected size, because making it takes more memory than the answer. Once it is
// made, it keeps a loan of its actual size.
type Room struct {
	// Refused are the answers that found no room. Callers of Borrow count them.
	Refused      *Episodes
	refusal      atomic.Pointer[seqd.Error]
	large, small account
	// numbers and items are the recent sizes of one unit of an answer (an ID, an item of a list), by
	// a hash of what was requested. A collision costs accuracy and nothing else. An item can be a
	// thousand times as large as an ID, so they never collide.
	numbers, items [1024]unitSize
	seed           maphash.Seed
}

// account is a part of a room.
type account struct{ most, now atomic.Int64 }

// take takes bytes from the account, or all of the account if bytes is more than that. taken is 0
// if it does not have enough.
func (a *account) take(bytes int64) (taken int64) {
	most := a.most.Load()
	bytes = min(bytes, most)
	for {
		now := a.now.Load()
		if now > most-bytes {
			return 0
		}
		if a.now.CompareAndSwap(now, now+bytes) {
			return bytes
		}
	}
}

const (
	// smallShare is the part of a room reserved for small answers, so that large ones do not keep
	// them out. smallest is the part of that part that a small answer may have.
	smallShare = 8
	smallest   = 64
	// cautious is the factor on the expected size of the next answers if the first is not made
	// within firstWait.
	cautious  = 8
	firstWait = time.Second
)

func newRoom(most int64, log *slog.Logger) *Room {
	r := &Room{Refused: NewEpisodes("requests were refused: answers take server.maxInFlightBytes", log), seed: maphash.MakeSeed()}
	r.Limit(most)
	return r
}

// Limit sets the limit; 0 means none. Answers that have borrowed keep it.
func (r *Room) Limit(most int64) {
	r.refusal.Store(overloaded(fmt.Sprintf("answers already take the %d bytes of memory that they may have; try again later, or request fewer at a time", most)))
	small := orNone(most) / smallShare
	r.small.most.Store(small)
	r.large.most.Store(orNone(most) - small)
}

// unbounded reports whether there is no limit.
func (r *Room) unbounded() bool { return r.small.most.Load() == orNone(0)/smallShare }

// Refusal returns why an answer without room is refused. Its detail needs no escaping in JSON.
func (r *Room) Refusal() *seqd.Error { return r.refusal.Load() }

// Few is how many numbers an answer may have without borrowing: such an answer takes less memory
// than its connection.
const Few = 16

// Unit is what an answer consists of.
type Unit struct {
	usual int64 // the expected size of the first answer's units, in bytes
	exact bool  // an answer has as many units as requested, not fewer
}

// Numbers and Items are the units of answers: issued numbers as they are shown, and items of lists.
var (
	Numbers = Unit{usual: 24, exact: true}
	Items   = Unit{usual: 256}
)

// Loan is what one answer borrows of a room.
type Loan struct {
	from  *account
	unit  Unit
	size  *unitSize
	first bool // the size was unknown, and others wait for this one
	units int64
	bytes int64
}

// Borrow returns a loan for an answer of that many units. ok is false if there is no room. An
// answer larger than the room gets all of it if no other large answer has a loan.
func (r *Room) Borrow(what string, units int, of Unit) (l Loan, ok bool) {
	sizes := &r.items
	if of.exact {
		sizes = &r.numbers
	}
	size := &sizes[maphash.String(r.seed, what)%uint64(len(sizes))]
	l = Loan{from: &r.small, unit: of, size: size, units: int64(max(units, 1))}
	if r.unbounded() {
		return l, true
	}
	each, first := size.expected(of.usual)
	l.first = first
	bytes := 2 * each * l.units
	if bytes > r.small.most.Load()/smallest {
		l.from = &r.large
	}
	l.bytes = l.from.take(bytes)
	if l.bytes == 0 {
		l.End()
		return l, false
	}
	return l, true
}

// unitSize is the size of a unit of an answer, as far as known.
type unitSize struct {
	bytes atomic.Int64 // 0 if unknown
	mu    sync.Mutex   // guards what follows
	// closed when the first answer is made or has failed; nil if none is in progress
	made chan struct{}
}

// expected returns the expected size. If it is unknown, first is true for one caller, who must call
// known, and the others wait for that. Otherwise many requests would borrow the usual size before
// the first answer is made.
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

// begin returns a channel to wait for, or nil to the first caller, or the size if it has become
// known.
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

// Expected returns the expected size of the answer in bytes, which is no more than was borrowed.
func (l *Loan) Expected() int64 {
	expected := l.unit.usual * l.units
	if size := l.size.bytes.Load(); size > 0 {
		expected = size*l.units + 64 // for what surrounds the IDs
	}
	if l.bytes > 0 { // there is a bound
		return min(expected, l.bytes)
	}
	return expected
}

// Settle records that the answer is made. It has size bytes, and keeps held bytes of memory until
// it is written.
func (l *Loan) Settle(size, held int) {
	l.from.now.Add(int64(held) - l.bytes)
	l.bytes = int64(held)
	l.learn((int64(size) + l.units - 1) / l.units)
}

// learn updates the size of a unit. It follows larger sizes at once and smaller ones slowly, so
// that it rather expects too much. If an answer may have had fewer units than requested, its size
// is ignored unless it is larger: a few empty pages would let many full ones in.
func (l *Loan) learn(size int64) {
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

func (l *Loan) noLongerFirst() {
	if l.first {
		l.first = false
		l.size.known()
	}
}

// Made sets how many units the answer has, if that is not the number that was borrowed for. Call
// it before Settle.
func (l *Loan) Made(units int) { l.units = int64(units) }

// End returns the rest of the loan. A second call changes nothing.
func (l *Loan) End() {
	l.from.now.Add(-l.bytes)
	l.bytes = 0
	l.noLongerFirst()
}
