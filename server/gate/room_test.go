package gate

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// newKnown returns a room that knows the size of an ID of order.
func newKnown(most, size int64) *Room {
	r := newRoom(most, slog.New(slog.DiscardHandler))
	l, _ := r.Borrow("order", 1, Numbers)
	l.Settle(int(size), 0)
	l.End()
	return r
}

func (r *Room) taken() int64 { return r.large.now.Load() + r.small.now.Load() }

func TestRoomIsBounded(t *testing.T) {
	r := newKnown(8<<20, 50)
	var held []Loan
	for {
		l, ok := r.Borrow("order", 10_000, Numbers)
		if !ok {
			break
		}
		held = append(held, l)
	}
	if len(held) != 7 || r.taken() != 7_000_000 { // a million each, of seven eighths of the room
		t.Errorf("%d answers found room for %d bytes", len(held), r.taken())
	}
	for i := range held {
		held[i].Settle(500_000, 500_000)
	}
	must.Equal(t, r.taken(), 7*500_000, "the bytes taken once they are made")
	if _, ok := r.Borrow("order", 100, Numbers); !ok {
		t.Error("a small answer finds no room beside large ones")
	}
	if _, ok := r.Borrow("order", 1_000_000, Numbers); ok {
		t.Error("an answer larger than the room finds room beside others")
	}
	for i := range held {
		held[i].End()
		held[i].End() // this changes nothing
	}
	if _, ok := r.Borrow("order", 1_000_000, Numbers); !ok {
		t.Error("an answer larger than the room is never given")
	}
	if _, ok := r.Borrow("order", 10_000, Numbers); ok {
		t.Error("a large answer finds room beside one that takes all of it")
	}
}

func TestNoRoomIsNeededWithoutABound(t *testing.T) {
	r := newRoom(0, slog.New(slog.DiscardHandler))
	for range 1000 {
		if _, ok := r.Borrow("order", 1_000_000, Numbers); !ok {
			t.Fatal("there is no room without a bound")
		}
	}
}

// TestExpectedSize checks that the expected size follows larger sizes at once, smaller ones slowly,
// and never pages that may not have been full.
func TestExpectedSize(t *testing.T) {
	r := newKnown(1<<30, 20)
	expect := func(what string, of Unit, want int64) {
		t.Helper()
		l, _ := r.Borrow(what, 1000, of)
		defer l.End()
		must.Equal(t, l.bytes, 2*1000*want, "the bytes borrowed")
	}
	learn := func(what string, of Unit, size int) {
		l, _ := r.Borrow(what, 1000, of)
		l.Settle(1000*size, 0)
		l.End()
	}
	expect("order", Numbers, 20)
	learn("order", Numbers, 340)
	expect("order", Numbers, 340)
	learn("order", Numbers, 20)
	expect("order", Numbers, 320)
	for range 200 {
		learn("order", Numbers, 20)
	}
	expect("order", Numbers, 20)
	learn("/tokens", Items, 1)
	expect("/tokens", Items, 256)
	learn("/tokens", Items, 700)
	for range 200 {
		learn("/tokens", Items, 1)
	}
	expect("/tokens", Items, 700)
}

// Whoever reads large items of lists, at paths that nobody bounds, does not make answers with IDs
// borrow more, whatever their paths collide with.
func TestItemsAreNoNumbers(t *testing.T) {
	r := newKnown(1<<20, 20)
	for i := range 20_000 {
		l, _ := r.Borrow(fmt.Sprint("/seq/invoice/reservations/", i), 1, Items)
		l.Settle(10_000, 0)
		l.End()
	}
	l, _ := r.Borrow("order", 1000, Numbers)
	defer l.End()
	must.Equal(t, l.bytes, 2*1000*20, "the bytes borrowed")
}

// An answer whose IDs take more than the room begins with no more than it has borrowed.
func TestNoMoreThanBorrowed(t *testing.T) {
	r := newKnown(1<<20, 5000)
	l, _ := r.Borrow("order", 10_000, Numbers)
	defer l.End()
	must.Equal(t, l.Expected(), r.large.most.Load(), "the bytes expected, as many as were borrowed,")
}

// TestFirstAnswerOfAKind checks that requests before the first answer of a kind wait for it, but
// not for long.
func TestFirstAnswerOfAKind(t *testing.T) {
	for name, tt := range map[string]struct {
		ends time.Duration // when the first answer is made
		size int           // of its IDs; 0 if it fails
		wait time.Duration
		want int64 // the expected size of the next answer
	}{
		"made":     {100 * time.Millisecond, 70, 100 * time.Millisecond, 70},
		"failed":   {100 * time.Millisecond, 0, 100 * time.Millisecond, 192},
		"too late": {time.Minute, 70, time.Second, 192},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRoom(1<<30, slog.New(slog.DiscardHandler))
				first, _ := r.Borrow("order", 1000, Numbers)
				must.Equal(t, first.bytes, 2*1000*24, "the bytes that the first borrows")
				time.AfterFunc(tt.ends, func() {
					if tt.size > 0 {
						first.Settle(1000*tt.size, 1000*tt.size)
					}
					first.End()
				})
				var next sync.WaitGroup
				for range 5 {
					next.Go(func() {
						began := time.Now()
						l, _ := r.Borrow("order", 1000, Numbers)
						if took := time.Since(began); took != tt.wait || l.bytes != 2*1000*tt.want {
							t.Errorf("after %s the next borrows %d bytes, want %s and 2000 times %d", took, l.bytes, tt.wait, tt.want)
						}
						l.End()
					})
				}
				next.Wait()
				time.Sleep(2 * time.Minute)
				must.Equal(t, r.taken(), 0, "the bytes still taken at the end")
			})
		})
	}
}

// TestRoomUnderConcurrency checks that every loan is returned, and that answers of the expected
// size never take more than the room.
func TestRoomUnderConcurrency(t *testing.T) {
	const most = 1 << 20
	r := newKnown(most, 24)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 2000 {
				count := 1 + rand.IntN(30_000)
				l, ok := r.Borrow("order", count, Numbers)
				if taken := r.taken(); taken > most {
					t.Errorf("%d bytes are taken", taken)
				}
				if ok && count%3 > 0 {
					l.Settle(24*count, 24*count/2)
				}
				l.End()
			}
		})
	}
	all.Wait()
	must.Equal(t, r.taken(), 0, "the bytes still taken at the end")
}
