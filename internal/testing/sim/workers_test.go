package sim

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// fleet is the pool of worker IDs of a schedule. It has two of them.
type fleet struct {
	*World
	name string
	all  []*leaser
}

// newFleet makes a pool, and waits until the floor of its registry has passed.
func (w *World) newFleet(ttl time.Duration) *fleet {
	fl := &fleet{World: w, name: "fleet"}
	fl.make(ttl)
	p := fl.leases("a", 1)[0]
	fl.release("a", p)
	fl.all = nil
	time.Sleep(time.Until(time.UnixMilli(p.of.After + 1)))
	return fl
}

func (fl *fleet) make(ttl time.Duration) {
	fl.setPool(byHand(), fl.name, http.MethodPut, "", fmt.Sprintf(`{"bitsMachine":1,"ttl":%q}`, ttl))
}

func (fl *fleet) change(ttl time.Duration) {
	fl.setPool(byHand(), fl.name, http.MethodPatch, "", fmt.Sprintf(`{"ttl":%q}`, ttl))
}

func (fl *fleet) remove() {
	fl.setPool(byHand(), fl.name, http.MethodDelete, "?force=true", "")
}

// leaser is a program of a schedule. Its clock runs ahead, so that it uses all of its lease at once.
type leaser struct {
	*load.Program
	fleet *fleet
	of    *load.Lease // what it had last
}

// leases lets so many new programs lease worker IDs at a node, and use them.
func (fl *fleet) leases(node string, count int) (all []*leaser) {
	for range count {
		p := &leaser{fl.load.Program(fl.name, fmt.Sprint("program ", len(fl.all)+1)), fl, nil}
		p.Offset = 1000 * time.Hour
		fl.all = append(fl.all, p)
		fl.again(node, p)
		all = append(all, p)
	}
	return all
}

// again lets a program lease a worker ID, and use all of it.
func (fl *fleet) again(node string, p *leaser) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		code := p.Lease(context.Background(), fl.named(node), 10*time.Second)
		if code == "" {
			break
		}
		if time.Now().After(end) {
			fl.journal.Find("%s gets no worker ID: %s", p.Name, code)
			p.Held = &load.Lease{Texts: []string{"none"}}
			break
		}
	}
	p.of = p.Held
	p.Use()
}

// end lets the programs whose leases are above a floor use them, each just before it ends.
func (fl *fleet) end() {
	time.Sleep(time.Second) // a key of before a failover may be used for so long
	slices.SortStableFunc(fl.all, func(a, b *leaser) int { return cmp.Compare(a.of.Until, b.of.Until) })
	for _, p := range fl.all {
		if begin := time.UnixMilli(p.of.Until); p.Held == p.of && p.of.After == p.of.Until && begin.After(time.Now()) {
			time.Sleep(time.Until(begin) - 500*time.Millisecond)
			p.Renew(context.Background(), fl.nodes[0], p.of, p.newest())
			p.Use()
		}
	}
}

// text returns the first text of what a program had last.
func (p *leaser) text() string { return p.of.Texts[0] }

func (p *leaser) newest() string { return p.of.Texts[len(p.of.Texts)-1] }

// renews lets a program renew its lease by a text, and use all of that, and reports a finding unless
// the node answers with a code, "" for a lease.
func (p *leaser) renews(node, text, code string) {
	var got string
	for range 20 { // an older copy may just have been noticed
		if got = p.Renew(context.Background(), p.fleet.named(node), p.of, text); got != "store_unavailable" || code == got {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got != code {
		p.fleet.journal.Find("%s renews, and gets %q instead of %q", p.Name, got, code)
	}
	if got == "" {
		p.Held = p.of
		p.Use()
	}
}

// release releases the leases of programs at a node.
func (fl *fleet) release(node string, programs ...*leaser) {
	for _, p := range programs {
		if code := p.Release(context.Background(), fl.named(node), p.of, p.newest(), true); code != "" {
			fl.journal.Find("%s releases, and gets %s", p.Name, code)
		}
	}
}

// over waits until a lease of so long has ended.
func over(ttl time.Duration) { time.Sleep(ttl + 3*time.Second) }

// losing lets a failover lose what somebody does.
func (fl *fleet) losing(do func()) {
	fl.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) {
		fl.store.SetLag(mayLack)
		do()
		fl.store.Failover(false)
		fl.store.SetLag(0)
	})
}

// putBack puts the store back to a copy of before what somebody does, while nodes run.
func (fl *fleet) putBack(do func()) {
	fl.while("put back", record.Fault{Store: true, StoreBack: true}, func(*fault) {
		older := fl.store.Backup()
		do()
		fl.store.Restore(older, false)
	})
}

// putBackPast puts the store back to before one program renewed its lease, and another one leased a
// worker ID. It returns both.
func (fl *fleet) putBackPast() (renewed, lost *leaser) {
	renewed = fl.leases("b", 1)[0]
	fl.putBack(func() {
		time.Sleep(time.Second)
		renewed.renews("a", renewed.text(), "")
		lost = fl.leases("a", 1)[0]
	})
	return renewed, lost
}

// both are the worlds of a schedule over a store that loses nothing, and over one that can.
func both(name, was string, script Script) []schedule {
	return []schedule{
		{name: name, was: was, world: Options{BizTypes: only("order"), Script: script}},
		{name: name + ", lossy", was: was, world: Options{Mode: storesim.Lossy, BizTypes: only("order"), Script: script}},
	}
}

// ifLossy returns a code in the second of both worlds, where a lease goes on below a floor only if it
// lasts for another minute.
func (w *World) ifLossy(code string) string {
	if w.options.Mode == storesim.Lossy {
		return code
	}
	return ""
}

const ttl = 10 * time.Second

// workerTemptations are those of worker IDs that programs lease.
var workerTemptations = slices.Concat([]schedule{
	{
		name: "a worker ID that ended", was: "The next holder of a worker ID has times of the last one.",
		rules: []string{"lease-begin"},
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			fl.leases("a", 2)
			over(ttl)
			next := fl.leases("b", 2)
			next[0].renews("c", next[0].text(), "")
			fl.release("a", next...)
			fl.leases("a", 2)
		}},
	},
	{
		name: "a forged lease", was: "A program says that its lease began earlier, and that it used nothing: the next holder has times of the one before.",
		rules: []string{"lease-sealed"},
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			fl.leases("a", 2)
			over(ttl)
			for _, p := range fl.leases("a", 2) {
				p.Held = nil
				forged := forge(p.newest(), p.of.After-ttl.Milliseconds())
				_ = p.Release(context.Background(), w.named("b"), &load.Lease{Worker: p.of.Worker}, forged, true)
			}
			over(ttl)
			fl.leases("a", 2)
		}},
	},
	{
		name: "a failover loses leases", was: "Programs lease what the store has forgotten that it had leased.",
		rules: []string{"lease-floor"},
		world: Options{Mode: storesim.Lossy, BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			var lost []*leaser
			fl.losing(func() { lost = fl.leases("a", 2) })
			fl.leases("b", 2)
			for _, p := range lost {
				p.renews("a", p.text(), "lease_lost")
			}
		}},
	},
	{
		name: "a failover loses a longer ttl", was: "The ttl was raised, a lease was granted for it, and a failover lost both: the floor was that of the former ttl.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			fl.losing(func() {
				fl.change(time.Hour)
				fl.leases("a", 2)
			})
			fl.leases("b", 2)
			fl.change(time.Hour)
			over(3 * time.Minute) // nothing can lose it any more
			fl.release("a", fl.leases("a", 2)...)
			if p := fl.leases("a", 1)[0]; time.Duration(p.of.Until-time.Now().UnixMilli())*time.Millisecond < 59*time.Minute {
				w.journal.Find("a lease of an hour ends at %v", time.UnixMilli(p.of.Until).UTC())
			}
		}},
	},
	{
		name: "a failover loses a pool", was: "A pool was made again with a shorter ttl, and programs leased what others still held.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("order"), Script: func(w *World) {
			fl := &fleet{World: w, name: "fleet"}
			defer fl.end()
			fl.losing(func() {
				fl.make(30 * time.Second)
				fl.leases("a", 2)
				fl.end()
			})
			fl.make(time.Second)
			fl.leases("b", 2)
		}},
	},
	{
		name: "a failover loses the key of leases", was: "Nodes had different keys for ever, and each lease was lost at the next node.",
		world: Options{Mode: storesim.Lossy, BizTypes: only("order"), Script: func(w *World) {
			fl := &fleet{World: w, name: "fleet"}
			defer fl.end()
			fl.losing(func() { // the first lease draws the key
				fl.make(ttl)
				fl.leases("a", 1)
			})
			fl.make(ttl)
			fl.leases("b", 1)
			over(time.Minute + ttl) // the floor
			p := fl.leases("b", 1)[0]
			for _, node := range []string{"a", "b", "c", "a"} {
				p.renews(node, p.newest(), "")
			}
		}},
	},
	{
		name: "two nodes draw the key of leases", was: "Each of two nodes drew a key, and the leases of one are lost at the other.",
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			fl := &fleet{World: w, name: "fleet"}
			defer fl.end()
			fl.make(ttl)
			for _, node := range []string{"a", "b"} {
				w.meet(node, "read document leasekey/workers", storesim.Fate{Reply: time.Second})
			}
			var all [2]*leaser
			var leasing sync.WaitGroup
			for i, node := range []string{"a", "b"} {
				all[i] = &leaser{w.load.Program(fl.name, node), fl, nil}
				all[i].Offset = time.Hour
				leasing.Go(func() { fl.again(node, all[i]) })
			}
			leasing.Wait()
			for _, p := range all {
				w.each(func(node string) { p.renews(node, p.newest(), "") })
			}
		}},
	},
	{
		name: "a renewal after the release", was: "A renewal that was under way came after the release, and the program after next had times of both.",
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			for _, p := range fl.leases("a", 2) {
				p.Held = nil // its clock is not ahead any more: it has used nothing
				w.meet("a", "swap slot workers fleet", storesim.Fate{Send: 3 * time.Second, Left: true})
				ctx, leave := context.WithTimeout(context.Background(), time.Second)
				p.Renew(ctx, w.named("a"), p.of, p.newest())
				leave()
				fl.release("b", p)
			}
			fl.leases("c", 2)
			time.Sleep(4 * time.Second)
			over(ttl)
			fl.leases("b", 2)
		}},
	},
	{
		name: "the file of bolt is lost", was: "A node with a new file leased again what programs held.",
		world: Options{Bolt: true, BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			fl.leases("a", 2)
			n := w.named("a")
			n.stop()
			if err := os.Remove(n.file()); err != nil {
				w.journal.Find("the file of a: %v", err)
			}
			n.start()
			w.awaitReady("with a new file")
			fl.make(ttl)
			fl.leases("a", 2)
		}},
	},
	{
		name: "put back to a shorter ttl", was: "A lease showed that the store was put back, and the floor was that of the shorter ttl that the copy had.",
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			fl := w.newFleet(ttl)
			defer fl.end()
			var lost []*leaser
			fl.putBack(func() {
				fl.change(time.Hour)
				lost = fl.leases("a", 2)
			})
			lost[0].renews("b", lost[0].newest(), "lease_lost")
			next := fl.leases("c", 1)[0]
			for range 4 {
				time.Sleep(ttl / 2)
				next.renews("c", next.newest(), "")
			}
		}},
	},
}, both("a pool made again", "Programs of a new pool leased what programs of the former one held.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	former := fl.leases("a", 2)
	fl.remove()
	time.Sleep(3 * time.Second) // all nodes know
	former[0].renews("b", former[0].text(), "unknown_pool")
	fl.make(time.Second)
	former[0].renews("c", former[0].text(), w.ifLossy("lease_lost"))
	fl.leases("b", 2)
	former[1].renews("a", former[1].newest(), "lease_lost")
}), both("put back, and restored", "Programs leased again what the older copy did not know.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	_, lost := fl.putBackPast()
	w.sayRestored(byHand())
	fl.leases("c", 1)
	lost.renews("a", lost.text(), "lease_lost")
	if code := lost.Release(context.Background(), w.named("b"), lost.of, lost.text(), true); code != "lease_lost" {
		w.journal.Find("a lease that the copy lacks is released: %q", code)
	}
	over(2 * ttl)
	fl.leases("c", 2)
}), both("put back, and noticed by a renewal", "A renewal that showed that the store was put back changed nothing, and programs leased what others held.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	stays, _ := fl.putBackPast()
	stays.renews("c", stays.newest(), w.ifLossy("lease_lost"))
	fl.leases("c", 1)
}), both("put back, and noticed by a lost lease", "A lease that the older copy did not know changed nothing.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	var lost []*leaser
	fl.putBack(func() { lost = fl.leases("a", 2) })
	lost[0].renews("c", lost[0].newest(), "lease_lost")
	fl.leases("b", 2)
}), both("put back, and noticed by a release", "A program released what it had used since the backup, and the next one leased it.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	released, _ := fl.putBackPast()
	fl.release("c", released)
	fl.leases("c", 2)
}), both("put back to before the pool was made again", "The registry of a pool that was deleted when the backup was made got no floor.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	fl.leases("a", 2)
	fl.remove()
	over(ttl)
	fl.putBack(func() {
		fl.make(ttl)
		fl.leases("a", 2)
	})
	w.sayRestored(byHand())
	fl.make(ttl)
	fl.leases("b", 2)
}), both("put back to before there was a pool", "A pool that was made again had no floor.", func(w *World) {
	fl := &fleet{World: w, name: "fleet"}
	defer fl.end()
	fl.putBack(func() {
		fl.make(ttl)
		fl.leases("a", 2)
	})
	w.sayRestored(byHand())
	fl.make(ttl)
	fl.leases("b", 2)
}), both("restored while programs run", "A floor took times from programs, or gave them to others.", func(w *World) {
	fl := w.newFleet(ttl)
	defer fl.end()
	stays, stale := fl.leases("a", 1)[0], fl.leases("b", 1)[0]
	time.Sleep(ttl / 2)
	stays.renews("a", stays.text(), "")
	stale.renews("a", stale.text(), "")
	w.sayRestored(byHand())
	time.Sleep(ttl * 3 / 4)
	stays.renews("b", stays.newest(), w.ifLossy("lease_lost"))
	stale.renews("c", stale.text(), "lease_lost") // that text has ended, and others may hold what came between
	over(ttl)
	fl.leases("c", 2)
}))

// forge returns the text of a lease with another begin.
func forge(text string, after int64) string {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		panic(err) // a node has written it
	}
	for i := range 8 {
		raw[3+i] = byte(after >> (56 - 8*i))
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}
