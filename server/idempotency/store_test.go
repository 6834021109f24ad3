package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/idempotency/idempotencytest"
)

// purger is a backend that needs purging.
type purger interface {
	idempotency.Backend
	Purge(context.Context) (int, error)
}

func purge(t *testing.T, b purger) int {
	t.Helper()
	n, err := b.Purge(t.Context())
	must.Report(t, err)
	return n
}

func TestStore(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *clock) (one, two purger){
		"documents": func(_ *testing.T, c *clock) (one, two purger) {
			documents := memory.New(c.now).Documents()
			node := func() purger {
				return idempotency.NewStore(documents, storeclock.New(&storeClock{now: c.now}, c.now, c.elapsed))
			}
			return node(), node()
		},
		"bolt": func(t *testing.T, c *clock) (one, two purger) {
			s := must.Get(bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: c.now, Elapsed: c.elapsed}))(t)
			t.Cleanup(func() { _ = s.Close() })
			return idempotency.NewKept(s.Answers()), idempotency.NewKept(s.Answers())
		},
	} {
		t.Run(name, func(t *testing.T) {
			idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
				c := newClock()
				a, b := open(t, c)
				return a, b, func(d time.Duration) { c.pass(d); purge(t, a) }
			})
		})
	}
}

// fleet is nodes and a store, each with its own clock.
type fleet struct {
	*testing.T
	real      *clock
	documents persist.Documents
	store     time.Duration // how far the store's clock is ahead
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{T: t, real: newClock()}
	f.documents = memory.New(f.real.now).Documents()
	return f
}

// node returns a node whose clock is ahead by that much.
func (f *fleet) node(ahead *time.Duration) *idempotency.Store {
	clock := &storeClock{now: off(f.real.now, &f.store)}
	return idempotency.NewStore(f.documents, storeclock.New(clock, off(f.real.now, ahead), f.real.elapsed))
}

const (
	pending  = "1 p someone 1"
	finished = "1 d someone 1 n7:1:1"
	another  = "1 p another 1"
	day      = 24 * time.Hour
)

func (f *fleet) answers(n *idempotency.Store, id string) {
	f.Helper()
	f.claims(n, id, pending, "")
	must.Equal(f, must.Get(n.Swap(f.Context(), id, pending, finished, day))(f), "", "a swap found")
}

func (f *fleet) claims(n idempotency.Backend, id, text, want string) {
	f.Helper()
	must.Equal(f, must.Get(n.Claim(f.Context(), id, text, idempotency.Lease))(f), want, "a claim of %s found", id)
}

// TestWrongClocksLoseNoAnswers checks that one wrong clock, of a node or of the store, never loses
// an answer.
func TestWrongClocksLoseNoAnswers(t *testing.T) {
	for _, wrong := range []time.Duration{25 * time.Hour, -25 * time.Hour, 1000 * day, 10 * time.Minute} {
		for name, test := range map[string]func(*fleet, *idempotency.Store, *idempotency.Store, *time.Duration){
			"a node that answers": func(f *fleet, _, b *idempotency.Store, off *time.Duration) { *off = wrong; f.answers(b, "k") },
			"a node that looks":   func(f *fleet, a, _ *idempotency.Store, off *time.Duration) { f.answers(a, "k"); *off = wrong },
			"the store, early": func(f *fleet, a, _ *idempotency.Store, _ *time.Duration) {
				f.store = wrong
				f.answers(a, "k")
				f.store = 0
			},
			"the store, late": func(f *fleet, a, _ *idempotency.Store, _ *time.Duration) { f.answers(a, "k"); f.store = wrong },
		} {
			t.Run(fmt.Sprintf("%s, %s off", name, wrong), func(t *testing.T) {
				f := newFleet(t)
				var right, off time.Duration
				a, b := f.node(&right), f.node(&off)
				test(f, a, b, &off)
				for range 23 {
					f.real.pass(time.Hour)
					for _, n := range []*idempotency.Store{a, b, f.node(&off)} {
						if purged := purge(t, n); purged != 0 {
							t.Fatal("an answer was removed")
						}
						f.claims(n, "k", another, finished)
					}
				}
			})
		}
	}
}

// TestAnswerIsNeverTakenOver checks that an answer is returned until Purge removes it.
func TestAnswerIsNeverTakenOver(t *testing.T) {
	f := newFleet(t)
	var none time.Duration
	n := f.node(&none)
	f.answers(n, "k")
	f.real.pass(2 * day)
	f.claims(n, "k", another, finished)
	must.Equal(t, purge(t, n), 1, "how many were removed")
	f.claims(n, "k", another, "")
}

// TestClaimsGoByTheStoresClock checks that a claim ends by the store's clock, and that a claim
// written by a clock far ahead blocks nobody.
func TestClaimsGoByTheStoresClock(t *testing.T) {
	f := newFleet(t)
	ahead, behind := day, -day
	a, b := f.node(&ahead), f.node(&behind)
	f.claims(a, "k", pending, "")
	f.claims(b, "k", another, pending)
	f.real.pass(idempotency.Lease - time.Millisecond)
	must.Equal(t, must.Get(a.Swap(t.Context(), "k", pending, pending, idempotency.Lease))(t), "", "the renewal found")
	f.real.pass(idempotency.Lease - time.Millisecond)
	f.claims(b, "k", another, pending)
	f.real.pass(time.Millisecond)
	f.claims(b, "k", another, "")
	f.claims(a, "k", pending, another)
	// as an older version writes it on a node with such a clock
	must.Do(t, f.documents.Create(t.Context(), persist.Document{
		Kind: "answer", Key: "former", Revision: 1, Body: pending,
		Timestamp: f.real.now().Add(day).UnixMilli(), Expires: f.real.now().Add(day + idempotency.Lease).UnixMilli(),
	}))
	f.claims(b, "former", another, "")
	// one that begins exactly a minute ahead holds; one that begins a millisecond later has ended
	for id, early := range map[string]time.Duration{"early": time.Minute, "too early": time.Minute + time.Millisecond} {
		begins := f.real.now().Add(early)
		must.Do(t, f.documents.Create(t.Context(), persist.Document{
			Kind: "answer", Key: id, Revision: 1, Body: pending, Timestamp: begins.UnixMilli(), Expires: begins.Add(idempotency.Lease).UnixMilli(),
		}))
	}
	f.claims(b, "early", another, pending)
	f.claims(b, "too early", another, "")
}

// TestNoClock checks that operations fail until the store's clock has been read once.
func TestNoClock(t *testing.T) {
	c := newClock()
	clock := &storeClock{now: c.now, err: persist.ErrUnavailable}
	b := idempotency.NewStore(memory.New(c.now).Documents(), storeclock.New(clock, c.now, c.elapsed))
	must.Code(t, must.Err(b.Claim(t.Context(), "k", pending, time.Second)), seqd.CodeStoreUnavailable, "claimed")
	must.Code(t, must.Err(b.Swap(t.Context(), "k", pending, finished, day)), seqd.CodeStoreUnavailable, "swapped")
	if n, err := b.Purge(t.Context()); n != 0 || !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("purged %d, %v", n, err)
	}
	must.Is(t, b.Skew(t.Context()), persist.ErrUnavailable, "the skew is known")
	clock.err = nil
	must.Equal(t, must.Get(b.Claim(t.Context(), "k", pending, time.Second))(t), "", "claimed")
	clock.err = persist.ErrUnavailable
	must.Equal(t, must.Get(b.Claim(t.Context(), "k", another, time.Second))(t), pending, "claimed")
	if n, err := b.Purge(t.Context()); n != 0 || !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("purged %d by a clock that was read before, %v", n, err)
	}
}

func TestSkew(t *testing.T) {
	for ahead, want := range map[time.Duration]string{
		0: "", time.Hour: "", -time.Hour: "", 25 * time.Hour: "25h0m0s ahead", -2 * time.Hour: "2h0m0s behind",
		time.Hour + time.Millisecond: "1h0m0s ahead",
	} {
		c := newClock()
		err := idempotency.NewStore(nil, storeclock.New(&storeClock{now: c.now}, off(c.now, &ahead), c.elapsed)).Skew(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", ahead, err)
		}
	}
}

// TestPurge checks that records are removed a minute after their end, and no others.
func TestPurge(t *testing.T) {
	f := newFleet(t)
	var none time.Duration
	b := f.node(&none)
	const ending, staying = 1234, 3
	for i := range ending + staying {
		keep := time.Second
		if i >= ending {
			keep = time.Hour
		}
		if held, err := b.Claim(t.Context(), fmt.Sprint(i), pending, keep); held != "" || err != nil {
			t.Fatal(held, err)
		}
	}
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{time.Minute, 0}, {2 * time.Second, ending}, {0, 0}, {time.Hour, staying}} {
		f.real.pass(step.pass)
		must.Equal(t, purge(t, b), step.want, "how many were removed after %v more", step.pass)
	}
}
