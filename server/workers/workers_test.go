package workers

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
)

// node returns a node on a store, whose clock is off by so much.
func node(store persist.Store, off time.Duration) *Workers {
	return New(Options{
		Documents: store.Documents(), Slots: store.Slots(), Cluster: strings.Repeat("c", 32), Now: func() time.Time { return time.Now().Add(off) },
		Stopping: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
	})
}

// pool makes a pool of 2^bits worker IDs.
func pool(t *testing.T, w *Workers, name string, bits int, ttl time.Duration) {
	t.Helper()
	must.Get(w.SetPool(t.Context(), name, func(p *admin.WorkerPool) error {
		p.BitsMachine, p.TTL = bits, ttl
		return nil
	}))(t)
}

// settled makes a pool, and waits for the floor of its registry.
func settled(t *testing.T, w *Workers, name string, bits int, ttl time.Duration) {
	t.Helper()
	pool(t, w, name, bits, ttl)
	l := must.Get(w.Lease(t.Context(), name, "nobody", 0))(t)
	must.Do(t, w.Release(t.Context(), name, l.Lease, l.After))
	time.Sleep(time.Until(l.After) + time.Millisecond)
}

func wants(t *testing.T, err error, code seqd.Code, parts ...string) {
	t.Helper()
	if seqd.CodeOf(err) != code {
		t.Fatalf("%v; want %s", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
}

// A lease is renewed and released at any node, and the next one begins above what was used.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := node(store, 0), node(store, 0)
		settled(t, a, "shop", 1, 10*time.Second)
		l := must.Get(a.Lease(t.Context(), "shop", "one", 0))(t)
		must.Equal(t, time.Now().Add(10*time.Second).UnixMilli(), l.Until.UnixMilli(), "it ends a ttl later")
		time.Sleep(4 * time.Second)
		renewed := must.Get(b.Renew(t.Context(), "shop", l.Lease))(t)
		must.Equal(t, l.ID, renewed.ID, "the worker ID")
		must.Equal(t, l.After, renewed.After, "it goes on without a break")
		must.Equal(t, time.Now().Add(10*time.Second).UnixMilli(), renewed.Until.UnixMilli(), "it ends later")
		pool(t, b, "shop", 1, 20*time.Second)
		must.Equal(t, 20*time.Second, must.Get(b.Renew(t.Context(), "shop", renewed.Lease))(t).TTL, "it says how far renewals reach")
		pool(t, b, "shop", 1, 10*time.Second)
		holders, _, err := b.Holders(t.Context(), "shop")
		must.Do(t, err)
		if len(holders) != 1 || holders[0].ID != l.ID || holders[0].Instance != "one" {
			t.Errorf("the holders are %+v", holders)
		}
		last := time.Now()
		wants(t, b.Release(t.Context(), "shop", renewed.Lease, last.Add(time.Hour)), seqd.CodeInvalidRequest, "last")
		must.Do(t, b.Release(t.Context(), "shop", renewed.Lease, last))
		wants(t, b.Release(t.Context(), "shop", renewed.Lease, last), seqd.CodeLeaseLost)
		again := must.Get(a.Lease(t.Context(), "shop", "one", 0))(t)
		must.Equal(t, l.ID, again.ID, "an instance gets its worker ID again")
		must.Equal(t, last.UnixMilli(), again.After.UnixMilli(), "it begins above what was used")
		must.Do(t, a.Release(t.Context(), "shop", again.Lease, time.Time{}))
		must.Get(a.Lease(t.Context(), "shop", "two", 0))(t) // it takes the worker ID that can be used at once
		third := must.Get(a.Lease(t.Context(), "shop", "one", 0))(t)
		must.Equal(t, again.Until, third.After, "all of a lease counts as used if nobody says how much was")
	})
}

// A node measures each pool that it was asked about, as it last saw the registry.
func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := node(store, 0), node(store, 0)
		figures := func(w *Workers) (f Figures) {
			w.Measure(func(pool string, of Figures) {
				must.Equal(t, pool, "shop")
				f = of
			})
			return f
		}
		settled(t, a, "shop", 1, 10*time.Second)
		must.Equal(t, figures(a), Figures{Held: 0, Free: 2, Seen: true, Leased: 1}, "after a release")
		one := must.Get(a.Lease(t.Context(), "shop", "one", 0))(t)
		must.Get(a.Lease(t.Context(), "shop", "two", 0))(t)
		must.Equal(t, must.Get(b.Renew(t.Context(), "shop", one.Lease))(t).ID, one.ID)
		must.Equal(t, figures(b), Figures{Held: 2, Seen: true, Renewed: 1}, "after a renewal at another node")
		wants(t, must.Err(b.Renew(t.Context(), "shop", "none")), seqd.CodeLeaseLost)
		time.Sleep(lookAgain + time.Millisecond)
		wants(t, must.Err(b.Renew(t.Context(), "shop", one.Lease)), seqd.CodeLeaseLost)
		must.Equal(t, figures(b), Figures{Free: 2, Seen: true, Renewed: 1, Lost: 2}, "after the end of all leases")
		must.Equal(t, figures(a), Figures{Held: 2, Seen: true, Leased: 3}, "what this node saw")
		time.Sleep(time.Minute)
		must.Equal(t, figures(a), Figures{Leased: 3}, "that is too old")
		must.Get(b.DeletePool(t.Context(), "shop", true, func(*admin.WorkerPool) error { return nil }))(t)
		must.Equal(t, figures(b), Figures{}, "without the pool")
	})
}

// Renewals that come together share a transaction: all but the first wait for the same instant.
func TestRenewalsShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := node(memory.New(time.Now), 0)
		settled(t, w, "shop", 2, 10*time.Second)
		began := time.Now().Truncate(time.Second).Add(time.Second)
		waits := func(after time.Duration) time.Duration {
			time.Sleep(time.Until(began.Add(after)))
			w.queue("shop").gather(time.Now())
			return time.Since(began)
		}
		must.Equal(t, waits(10*time.Millisecond), 10*time.Millisecond, "the first one")
		must.Equal(t, waits(60*time.Millisecond), 100*time.Millisecond, "one soon after")
		must.Equal(t, waits(130*time.Millisecond), 200*time.Millisecond, "one after that")
		must.Equal(t, waits(time.Second), time.Second, "one that comes alone")
	})
}

// W2: only what a node has written for the pool is a lease.
func TestForgedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := node(memory.New(time.Now), 0), node(memory.New(time.Now), 0)
		for _, n := range []*Workers{w, other} {
			pool(t, n, "shop", 4, 10*time.Second)
			pool(t, n, "mail", 4, 10*time.Second)
		}
		l := must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
		raw := must.Get(base64.RawURLEncoding.DecodeString(l.Lease))(t)
		for i := range raw {
			forged := slices.Clone(raw)
			forged[i] ^= 1
			_, err := w.Renew(t.Context(), "shop", base64.RawURLEncoding.EncodeToString(forged))
			wants(t, err, seqd.CodeLeaseLost)
		}
		for _, text := range []string{"", "x", l.Lease + "A", l.Lease[1:], strings.Repeat("A", len(l.Lease)), l.Lease + "\n"} {
			wants(t, must.Err(w.Renew(t.Context(), "shop", text)), seqd.CodeLeaseLost)
			wants(t, w.Release(t.Context(), "shop", text, time.Time{}), seqd.CodeLeaseLost)
		}
		wants(t, must.Err(w.Renew(t.Context(), "mail", l.Lease)), seqd.CodeLeaseLost)
		wants(t, must.Err(other.Renew(t.Context(), "shop", l.Lease)), seqd.CodeLeaseLost)
		must.Get(w.Renew(t.Context(), "shop", l.Lease))(t)
	})
}

// W3: a lease is lost at its until, even if its worker ID is still free.
func TestLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := node(memory.New(time.Now), 0)
		settled(t, w, "shop", 1, 10*time.Second)
		l := must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
		time.Sleep(10*time.Second + time.Millisecond)
		wants(t, must.Err(w.Renew(t.Context(), "shop", l.Lease)), seqd.CodeLeaseLost)
		wants(t, w.Release(t.Context(), "shop", l.Lease, time.Time{}), seqd.CodeLeaseLost)
		next := must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
		must.Equal(t, l.Until, next.After, "the next lease begins where that one ended")
	})
}

// A new registry has a floor although no other node can reach it: the store may have lost the one
// before, and programs go on.
func TestLostStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := node(memory.New(time.Now), 0), node(memory.New(time.Now), 0)
		settled(t, before, "shop", 1, 10*time.Second)
		l := must.Get(before.Lease(t.Context(), "shop", "one", 0))(t)
		pool(t, after, "shop", 1, 10*time.Second)
		if next := must.Get(after.Lease(t.Context(), "shop", "one", 0))(t); next.After.Before(l.Until) {
			t.Errorf("a lease begins at %v, and one of the lost store ends at %v", next.After, l.Until)
		}
	})
}

// In a store that can lose writes the floor covers leases of the usual ttl, whatever the pool says,
// because it may have said something else.
func TestFloorOfLossyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := storesim.New(storesim.Options{Mode: storesim.Lossy})
		defer c.Close()
		w := node(must.Get(c.View(nil).Open(t.Context(), storesim.Client{Now: time.Now, Timeout: time.Second}))(t), 0)
		pool(t, w, "shop", 1, time.Second)
		l := must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
		must.Equal(t, usualTTL+2*maxSkew, l.After.Sub(time.Now().Truncate(time.Millisecond)), "it begins so much later")
	})
}

// A backup was restored, with seqd restored, on a server whose clock is behind: a lease that is just
// about to end by that clock may have ended before the restore, and its worker ID be held by another
// program.
func TestRestoredBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		w := node(store, 0)
		settled(t, w, "shop", 1, 10*time.Second)
		paused := must.Get(w.Lease(t.Context(), "shop", "paused", 0))(t)
		must.Get(w.Lease(t.Context(), "shop", "other", 0))(t)
		backup := store.Copy(func() time.Time { return time.Now().Add(-maxSkew) })
		time.Sleep(10*time.Second + time.Millisecond)
		must.Equal(t, paused.ID, must.Get(w.Lease(t.Context(), "shop", "paused", 0))(t).ID, "an instance gets its worker ID again")
		must.Do(t, Restored(t.Context(), backup, strings.Repeat("c", 32), func(string, string) {}))
		wants(t, must.Err(node(backup, 0).Renew(t.Context(), "shop", paused.Lease)), seqd.CodeLeaseLost)
	})
}

// While all worker IDs are held, a request stands by as long as it says, and others behind it.
func TestStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := node(memory.New(time.Now), 0)
		pool(t, w, "shop", 1, 10*time.Second)
		held := []admin.WorkerLease{must.Get(w.Lease(t.Context(), "shop", "a", 0))(t), must.Get(w.Lease(t.Context(), "shop", "b", 0))(t)}
		wants(t, must.Err(w.Lease(t.Context(), "shop", "c", 0)), seqd.CodeNoMachineID, "held", "wait=20s")
		began := time.Now()
		wants(t, must.Err(w.Lease(t.Context(), "shop", "c", 3*time.Second)), seqd.CodeNoMachineID)
		must.Equal(t, 3*time.Second, time.Since(began), "it waited")

		type result struct {
			err   error
			after time.Duration
		}
		results := make(chan result)
		stand := func(ctx context.Context, wait time.Duration) {
			began := time.Now()
			_, err := w.Lease(ctx, "shop", "c", wait)
			results <- result{err, time.Since(began)}
		}
		ctx, leave := context.WithCancel(t.Context())
		go stand(ctx, time.Minute)
		synctest.Wait()
		go stand(t.Context(), time.Minute)
		synctest.Wait()
		began = time.Now()
		wants(t, must.Err(w.Lease(t.Context(), "shop", "d", 0)), seqd.CodeNoMachineID)
		must.Equal(t, 0, time.Since(began), "who does not stand by is refused at once")
		_, standingBy, err := w.Holders(t.Context(), "shop")
		must.Do(t, err)
		must.Equal(t, 2, standingBy, "stand by")
		leave()
		if r := <-results; !errors.Is(r.err, context.Canceled) {
			t.Errorf("who left got %v", r.err)
		}
		must.Do(t, w.Release(t.Context(), "shop", held[0].Lease, time.Now()))
		if r := <-results; r.err != nil || r.after > 2*pollPause {
			t.Errorf("who stood by got %v after %s", r.err, r.after)
		}

		ctx, leave = context.WithCancel(t.Context())
		go stand(ctx, time.Minute)
		synctest.Wait()
		began = time.Now()
		wants(t, must.Err(w.Lease(t.Context(), "shop", "d", 3*time.Second)), seqd.CodeNoMachineID)
		must.Equal(t, 3*time.Second, time.Since(began), "who stands by behind others waits no longer than it said")
		leave()
		<-results

		w.opts.Stopping = func() bool { return true }
		go stand(t.Context(), time.Minute)
		wants(t, (<-results).err, seqd.CodeStopping)
	})
}

// No lease reaches beyond the times that fit into a number, because later ones repeat earlier numbers.
func TestTimesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := node(memory.New(time.Now), 0)
		end := time.Now().Add(20 * time.Second)
		set := func(name string, end time.Time) error {
			return must.Err(w.SetPool(t.Context(), name, func(p *admin.WorkerPool) error {
				p.BitsMachine, p.BitsSequence, p.TTL, p.Epoch = 16, 15, 10*time.Second, end.Add(time.Millisecond-1<<32*time.Millisecond)
				return nil
			}))
		}
		must.Do(t, set("shop", end))
		l := must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
		for range 5 {
			time.Sleep(4 * time.Second)
			l = must.Get(w.Renew(t.Context(), "shop", l.Lease))(t)
			if l.Until.After(end) {
				t.Errorf("a lease ends at %v, and the numbers at %v", l.Until, end)
			}
		}
		must.Equal(t, end.UnixMilli(), l.Until.UnixMilli(), "it uses all of the times")
		wants(t, must.Err(w.Lease(t.Context(), "shop", "two", 0)), seqd.CodeExhausted, "later epoch")
		wants(t, set("late", time.Now()), seqd.CodeInvalidRequest, "32 bits", "later epoch")
	})
}

// The definition of a pool changes, but not what numbers its worker IDs were leased for.
func TestPools(t *testing.T) {
	w := node(memory.New(time.Now), 0)
	wants(t, must.Err(w.Lease(t.Context(), "shop", "one", 0)), seqd.CodeUnknownPool, "shop")
	wants(t, must.Err(w.Pool(t.Context(), "no name")), seqd.CodeInvalidRequest)
	pool(t, w, "shop", 3, time.Minute)
	must.Get(w.Lease(t.Context(), "shop", "one", 0))(t)
	set := func(edit func(*admin.WorkerPool)) error {
		return must.Err(w.SetPool(t.Context(), "shop", func(p *admin.WorkerPool) error { edit(p); return nil }))
	}
	must.Do(t, set(func(p *admin.WorkerPool) { p.TTL = time.Hour }))
	wants(t, set(func(p *admin.WorkerPool) { p.BitsMachine = 4 }), seqd.CodeConflict, "another name")
	for want, edit := range map[string]func(*admin.WorkerPool){
		"bitsMachine":  func(p *admin.WorkerPool) { p.BitsMachine = 17 },
		"bitsSequence": func(p *admin.WorkerPool) { p.BitsSequence = 29 },
		"ttl":          func(p *admin.WorkerPool) { p.TTL = time.Millisecond },
		"1970 and now": func(p *admin.WorkerPool) { p.Epoch = time.Now().Add(time.Hour) },
		"whole":        func(p *admin.WorkerPool) { p.Epoch = p.Epoch.Add(time.Microsecond) },
	} {
		wants(t, set(edit), seqd.CodeInvalidRequest, want)
	}
	list, more, err := w.Pools(t.Context(), "", 1)
	must.Do(t, err)
	if len(list) != 1 || more || list[0].TTL != time.Hour || list[0].Revision != 2 {
		t.Errorf("the pools are %+v", list)
	}
	may := func(*admin.WorkerPool) error { return nil }
	wants(t, must.Err(w.DeletePool(t.Context(), "shop", false, may)), seqd.CodeConflict, "one")
	must.Get(w.DeletePool(t.Context(), "shop", true, may))(t)
	wants(t, must.Err(w.Pool(t.Context(), "shop")), seqd.CodeUnknownPool)
	wants(t, set(func(p *admin.WorkerPool) { p.BitsMachine = 4 }), seqd.CodeConflict)

	newer := persist.Document{Kind: Kind, Key: "newer", Revision: 1, Body: `{"format":2}`}
	must.Do(t, w.opts.Documents.Create(t.Context(), newer))
	wants(t, must.Err(w.Pool(t.Context(), "newer")), seqd.CodeConflict, "format 2")
}

// W1: whatever the clocks of nodes and programs, pauses and lost answers, no two programs may use the
// same time of the same worker ID.
func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { randomPrograms(t, seed) }) })
	}
}

func randomPrograms(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	store := memory.New(time.Now)
	var nodes []*Workers
	for range 3 {
		nodes = append(nodes, node(store, time.Duration(random.IntN(3800)-1900)*time.Millisecond))
	}
	pool(t, nodes[0], "shop", 2, 10*time.Second)
	var mu sync.Mutex
	used := make(map[[2]int64]string)
	var programs sync.WaitGroup
	for i := range 6 {
		random := rand.New(rand.NewPCG(seed, uint64(i)+2))
		off := time.Duration(random.IntN(20000)-10000) * time.Millisecond // of its clock
		programs.Go(func() {
			var l admin.WorkerLease
			var last int64 // the highest time it used
			for range 30 {
				w := nodes[random.IntN(len(nodes))]
				var err error
				if l.Lease == "" {
					l, err = w.Lease(t.Context(), "shop", fmt.Sprint("program ", i), time.Duration(random.IntN(3))*time.Second)
				} else if next, e := w.Renew(t.Context(), "shop", l.Lease); e == nil {
					if random.IntN(4) > 0 { // otherwise the answer is lost
						next.After = l.After
						l = next
					}
				} else {
					err = e
				}
				if seqd.CodeOf(err) == seqd.CodeLeaseLost {
					l = admin.WorkerLease{}
				}
				if l.Lease != "" {
					for range 20 {
						now := time.Now().Add(off).UnixMilli()
						if now > l.After.UnixMilli() && now <= l.Until.UnixMilli() {
							mu.Lock()
							who := fmt.Sprint("program ", i)
							if other, taken := used[[2]int64{l.ID, now}]; taken && other != who {
								t.Errorf("time %d of worker ID %d was used by %s and %s", now, l.ID, other, who)
							}
							used[[2]int64{l.ID, now}] = who
							mu.Unlock()
							last = max(last, now)
						}
						time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
					}
				}
				switch random.IntN(6) {
				case 0: // it is paused
					time.Sleep(time.Duration(random.IntN(20)) * time.Second)
				case 1: // it ends
					if l.Lease != "" && random.IntN(2) == 0 {
						if w.Release(t.Context(), "shop", l.Lease, time.UnixMilli(max(last, l.After.UnixMilli()))) == nil {
							l = admin.WorkerLease{}
						}
					} else {
						l = admin.WorkerLease{} // without telling
					}
				case 2: // its clock jumps
					off = time.Duration(random.IntN(20000)-10000) * time.Millisecond
				}
			}
		})
	}
	programs.Wait()
	if len(used) < 100 {
		t.Errorf("only %d times were used: this tests nothing", len(used))
	}
}

// A failover loses leases under a long ttl, which nothing had used before, and then the ttl is lowered
// before anybody leases. The floor covers what was lost all the same: the registry knows of a ttl
// before the definition has it, also if the node that changes the definition was suspended meanwhile.
func TestLostReach(t *testing.T) {
	for _, suspended := range []bool{false, true} {
		t.Run(fmt.Sprint("suspended ", suspended), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := storesim.New(storesim.Options{Mode: storesim.Lossy})
				defer c.Close()
				w := node(must.Get(c.View(nil).Open(t.Context(), storesim.Client{Now: time.Now, Timeout: time.Second}))(t), 0)
				settled(t, w, "shop", 1, 10*time.Second)
				slots := w.opts.Slots
				later := func() { // no failover loses what was before
					time.Sleep(3 * time.Minute)
					c.SetLag(100)
				}
				if suspended {
					w.opts.Slots = pausing{slots, later}
				}
				pool(t, w, "shop", 1, time.Hour)
				w.opts.Slots = slots
				if !suspended {
					later()
				}
				lost := []admin.WorkerLease{must.Get(w.Lease(t.Context(), "shop", "a", 0))(t), must.Get(w.Lease(t.Context(), "shop", "b", 0))(t)}
				c.Failover(false)
				c.SetLag(0)
				time.Sleep(time.Second)
				pool(t, w, "shop", 1, time.Second)
				for _, l := range lost {
					if next := must.Get(w.Lease(t.Context(), "shop", "next", 0))(t); next.After.Before(l.Until) {
						t.Errorf("a lease of worker ID %d begins at %v, and one that was lost ends at %v", next.ID, next.After, l.Until)
					}
				}
			})
		})
	}
}

// pausing is a store of slots whose node is suspended before each change.
type pausing struct {
	persist.SlotStore
	pause func()
}

func (p pausing) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	p.pause()
	return p.SlotStore.Swap(ctx, registry, swap)
}
