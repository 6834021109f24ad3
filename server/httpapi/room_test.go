package httpapi

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newKnown returns a room that knows the size of an ID of order.
func newKnown(most, size int64) *room {
	r := newRoom(most, slog.New(slog.DiscardHandler))
	l, _ := r.borrow("order", 1, ids)
	l.settle(int(size), 0)
	l.end()
	return r
}

func (r *room) taken() int64 { return r.large.now.Load() + r.small.now.Load() }

func TestRoomIsBounded(t *testing.T) {
	r := newKnown(8<<20, 50)
	var held []loan
	for {
		l, ok := r.borrow("order", 10_000, ids)
		if !ok {
			break
		}
		held = append(held, l)
	}
	if len(held) != 7 || r.taken() != 7_000_000 { // a million each, of seven eighths of the room
		t.Errorf("%d answers found room for %d bytes", len(held), r.taken())
	}
	for i := range held {
		held[i].settle(500_000, 500_000)
	}
	if r.taken() != 7*500_000 {
		t.Errorf("once they are made they take %d bytes", r.taken())
	}
	if _, ok := r.borrow("order", 100, ids); !ok {
		t.Error("a small answer finds no room beside large ones")
	}
	if _, ok := r.borrow("order", 1_000_000, ids); ok {
		t.Error("an answer larger than the room finds room beside others")
	}
	for i := range held {
		held[i].end()
		held[i].end() // this changes nothing
	}
	if _, ok := r.borrow("order", 1_000_000, ids); !ok {
		t.Error("an answer larger than the room is never given")
	}
	if _, ok := r.borrow("order", 10_000, ids); ok {
		t.Error("a large answer finds room beside one that takes all of it")
	}
}

func TestNoRoomIsNeededWithoutABound(t *testing.T) {
	r := newRoom(0, slog.New(slog.DiscardHandler))
	for range 1000 {
		if _, ok := r.borrow("order", 1_000_000, ids); !ok {
			t.Fatal("there is no room without a bound")
		}
	}
}

// TestExpectedSize checks that the expected size follows larger sizes at once, smaller ones slowly,
// and never pages that may not have been full.
func TestExpectedSize(t *testing.T) {
	r := newKnown(1<<30, 20)
	expect := func(what string, of unit, want int64) {
		t.Helper()
		l, _ := r.borrow(what, 1000, of)
		defer l.end()
		if l.bytes != 2*1000*want {
			t.Errorf("%d bytes are borrowed, want 2000 times %d", l.bytes, want)
		}
	}
	learn := func(what string, of unit, size int) {
		l, _ := r.borrow(what, 1000, of)
		l.settle(1000*size, 0)
		l.end()
	}
	expect("order", ids, 20)
	learn("order", ids, 340)
	expect("order", ids, 340)
	learn("order", ids, 20)
	expect("order", ids, 320)
	for range 200 {
		learn("order", ids, 20)
	}
	expect("order", ids, 20)
	learn("/tokens", items, 1)
	expect("/tokens", items, 256)
	learn("/tokens", items, 700)
	for range 200 {
		learn("/tokens", items, 1)
	}
	expect("/tokens", items, 700)
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
				first, _ := r.borrow("order", 1000, ids)
				if first.bytes != 2*1000*24 {
					t.Errorf("the first borrows %d bytes", first.bytes)
				}
				time.AfterFunc(tt.ends, func() {
					if tt.size > 0 {
						first.settle(1000*tt.size, 1000*tt.size)
					}
					first.end()
				})
				var next sync.WaitGroup
				for range 5 {
					next.Go(func() {
						began := time.Now()
						l, _ := r.borrow("order", 1000, ids)
						if took := time.Since(began); took != tt.wait || l.bytes != 2*1000*tt.want {
							t.Errorf("after %s the next borrows %d bytes, want %s and 2000 times %d", took, l.bytes, tt.wait, tt.want)
						}
						l.end()
					})
				}
				next.Wait()
				time.Sleep(2 * time.Minute)
				if r.taken() != 0 {
					t.Errorf("%d bytes are still taken at the end", r.taken())
				}
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
				l, ok := r.borrow("order", count, ids)
				if taken := r.taken(); taken > most {
					t.Errorf("%d bytes are taken", taken)
				}
				if ok && count%3 > 0 {
					l.settle(24*count, 24*count/2)
				}
				l.end()
			}
		})
	}
	all.Wait()
	if r.taken() != 0 {
		t.Errorf("%d bytes are still taken at the end", r.taken())
	}
}
