package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/terms"
)

// hand is the life of a node that works as a schedule says.
type hand struct{ *life }

// hand returns the present life of a node, when it can take works.
func (w *World) hand(node string) hand {
	n := w.named(node)
	n.turn.Lock()
	h := hand{n.now}
	n.turn.Unlock()
	for ; h.terms.Load() == nil; time.Sleep(time.Millisecond) {
	}
	return h
}

// takes lets a node take a work as soon as it may.
func (h hand) takes(work string) *terms.Work {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		job, err := h.terms.Load().Take(context.Background(), workKind, work)
		if err == nil {
			return job
		}
		if time.Now().After(end) {
			h.node.journal.Find("%s cannot take %s: %v", h.node.name, work, err)
			return job
		}
	}
}

// works lets a node work for a while, as long as it may.
func (h hand) works(job *terms.Work, length time.Duration) {
	stint := h.stint(job)
	for end := time.Now().Add(length); time.Now().Before(end) && h.goesOn(stint); {
		time.Sleep(20 * time.Millisecond)
	}
	h.tell(stint)
}

// writes lets a node write the next number of a work.
func (h hand) writes(job *terms.Work) {
	stint := h.stint(job)
	stint.From = h.node.journal.Now()
	stint.Until = stint.From
	h.write(context.Background(), job, stint)
	if stint.First > 0 {
		h.tell(stint)
	}
}

// holds lets a node hold a permit for a while, if it gets one.
func (h hand) holds(permit string, length time.Duration) {
	own := h.terms.Load()
	session, _, _ := own.Session()
	got, err := own.Acquire(context.Background(), permitKind, permit, "", mostPermits, nil)
	if err != nil {
		return
	}
	stint := &record.Duty{Work: permit, Most: mostPermits, Session: session}
	for end := time.Now().Add(length); time.Now().Before(end) && h.goesOn(stint); {
		time.Sleep(20 * time.Millisecond)
	}
	h.tell(stint)
	if err := got.Free(context.Background()); err != nil {
		h.node.journal.Find("%s cannot free a permit: %v", h.node.name, err)
	}
}

// cutOffStore cuts a node off from the store for a while, and lets something happen meanwhile.
func (w *World) cutOffStore(node string, length time.Duration, meanwhile func()) {
	w.while("cut off", record.Fault{Store: true}, func(*fault) {
		end := time.Now().Add(length)
		w.named(node).setStore(storesim.Hung)
		meanwhile()
		time.Sleep(time.Until(end))
		w.named(node).setStore(storesim.Up)
	})
}

// follows waits until a node says which one leads, other than some, and returns its name.
func (w *World) follows(node string, not ...string) (leader string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var list struct {
			Nodes []struct {
				Node   string
				Leader bool
			}
		}
		resp, err := w.load.HTTP.Get(w.named(node).URL() + "/nodes")
		if err != nil {
			continue
		}
		err = json.NewDecoder(resp.Body).Decode(&list)
		_ = resp.Body.Close()
		for _, of := range list.Nodes {
			for _, n := range w.nodes {
				if err == nil && of.Leader && of.Node == n.host+":8080" && !slices.Contains(not, n.name) {
					return n.name
				}
			}
		}
	}
	w.journal.Find("%s knows of no leader", node)
	return node
}

// coordinated returns the same schedules with a coordinator.
func coordinated(all []schedule) (more []schedule) {
	for _, s := range all {
		s.name += ", with a coordinator"
		s.world.Coordinator = true
		if slices.Contains(s.rules, "term-settled") { // a failover
			s.rules = []string{"term-settled", "term-confirm"}
		}
		more = append(more, s)
	}
	return more
}

// coordinatorTemptations are what a coordinator could do.
var coordinatorTemptations = []schedule{
	{
		name: "a coordinator that is wiped", was: "A node took what another one still did, because its session was not there.",
		rules: []string{"term-here"},
		world: Options{Works: true, Coordinator: true, BizTypes: only("order"), Script: func(w *World) {
			for round := range 8 {
				a, b, c := w.hand("a"), w.hand("b"), w.hand("c")
				work := fmt.Sprint("w", round)
				job := a.takes(work)
				go a.works(job, 5*time.Second)
				time.Sleep(time.Duration(round) * 130 * time.Millisecond)
				w.wipeCoordinator()
				go c.holds("p", 3*time.Second)
				b.works(b.takes(work), time.Second)
				time.Sleep(5 * time.Second)
			}
		}},
	},
	{
		name: "a coordinator that is away", was: "A node went on, and another one took its work.",
		world: Options{Works: true, Coordinator: true, BizTypes: only("order"), Script: func(w *World) {
			a, b := w.hand("a"), w.hand("b")
			for _, state := range []storesim.State{storesim.Away, storesim.Hung, storesim.Mute} {
				work := fmt.Sprint("w", state)
				job := a.takes(work)
				w.coordinator.Set(state)
				a.works(job, 10*time.Second)
				w.coordinator.Set(storesim.Up)
				a.works(a.takes(work), time.Second)
			}
			b.takes("other")
		}},
	},
}

// slotTemptations are what a coordinator could do that has the registry of machine IDs.
var slotTemptations = []schedule{
	{
		name: "a registry that is put back", was: "A node leased a machine ID that another one had, because the coordinator was put back to before that lease.",
		rules: []string{"lease-doubt"},
		world: Options{Registry: true, Coordinator: true, BizTypes: only("user"), Script: func(w *World) {
			a, b := w.named("a"), w.named("b")
			b.stop()
			a.stop()
			old := w.coordinator.Backup()
			defer w.shareMachineID()()
			b.stop()
			w.issue("a", "user", 1)
			w.named("c").stop() // which would notice
			a.turn.Lock()
			view := a.now.coordination
			a.turn.Unlock()
			view.Set(storesim.Hung)
			w.coordinator.Restore(old, false)
			b.start()
			stop := w.busy(20*time.Millisecond, "user", 500)
			time.Sleep(20 * time.Second)
			stop()
			view.Set(storesim.Up)
			w.named("c").start()
		}},
	},
	{
		name: "two coordinators", was: "Nodes that lease one machine ID, each in a coordinator of its own, issue the same numbers.",
		rules: []string{"registry-named"},
		world: Options{Registry: true, Coordinator: true, BizTypes: only("user"), Script: func(w *World) {
			defer w.shareMachineID()()
			w.issue("a", "user", 1)
			b, other := w.named("b"), storesim.New(storesim.Options{})
			defer other.Close()
			for _, uses := range []*storesim.Cluster{other, nil} {
				b.stop()
				b.astray = uses
				b.start()
				stop := w.busy(50*time.Millisecond, "user", 500)
				time.Sleep(20 * time.Second)
				stop()
			}
		}},
	},
}

// termTemptations are what would happen without the rules of terms.
var termTemptations = []schedule{
	{
		name: "one node leads", was: "Nodes followed different leaders, or none when the leader had gone.",
		world: Options{BizTypes: only("order"), Script: func(w *World) {
			var gone []string
			for _, end := range []func(*node){(*node).stop, func(n *node) { n.kill(false) }} {
				time.Sleep(10 * time.Second)
				rest := slices.DeleteFunc(slices.Clone(nodeNames), func(n string) bool { return slices.Contains(gone, n) })
				leader := w.follows(rest[0], gone...)
				for _, n := range rest {
					if other := w.follows(n, gone...); other != leader {
						w.journal.Find("%s follows %s, and %s %s", rest[0], leader, n, other)
					}
				}
				gone = append(gone, leader)
				end(w.named(leader))
			}
			for _, n := range nodeNames {
				if !slices.Contains(gone, n) && w.follows(n, gone...) != n {
					w.journal.Find("the last node does not lead")
				}
			}
			for _, n := range gone {
				w.named(n).start()
			}
		}},
	},
	{
		name: "an owner that is cut off", was: "It went on while another node took its work.",
		rules: []string{"term-stop"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			a, b := w.hand("a"), w.hand("b")
			job := a.takes("w")
			w.cutOffStore("a", 12*time.Second, func() {
				go a.works(job, 10*time.Second)
				b.works(b.takes("w"), time.Second)
			})
		}},
	},
	{
		name: "a machine that wakes up", was: "It went on by its own clock, which had stood still.",
		rules: []string{"term-stop"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			a, b := w.hand("a"), w.hand("b")
			job := a.takes("w")
			w.begin("suspend", "a", "", 10*time.Second)()
			go b.works(b.takes("w"), time.Second)
			a.works(job, time.Second)
			time.Sleep(5 * time.Second)
		}},
	},
	{
		name: "a work that somebody does", was: "Another node took it.",
		rules: []string{"term-taken"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			a, b := w.hand("a"), w.hand("b")
			job := a.takes("w")
			go a.works(job, 5*time.Second)
			time.Sleep(time.Second)
			if got, err := b.terms.Load().Take(context.Background(), workKind, "w"); err == nil {
				b.works(got, time.Second)
			}
			time.Sleep(5 * time.Second)
		}},
	},
	{
		name: "a session that is slow", was: "It was declared dead while its node worked.",
		rules: []string{"term-dead"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			b := w.hand("b")
			for round := range 8 {
				a, work := w.hand("a"), fmt.Sprint("w", round)
				job := a.takes(work)
				time.Sleep(time.Duration(round) * 130 * time.Millisecond)
				w.cutOffStore("a", 6*time.Second, func() {
					go a.works(job, 5*time.Second)
					b.works(b.takes(work), time.Second)
				})
				time.Sleep(5 * time.Second)
			}
		}},
	},
	{
		name: "a take that a failover lost", was: "A node of the new server took the work at once, while its owner was still at it.",
		rules: []string{"term-settled"},
		world: Options{Works: true, Mode: storesim.Lossy, BizTypes: only("order"), Script: func(w *World) {
			a, b, c := w.hand("a"), w.hand("b"), w.hand("c")
			first := a.takes("w")
			if err := first.Release(context.Background(), json.RawMessage("1"), 0); err != nil {
				w.journal.Find("a cannot release: %v", err)
			}
			w.while("failover", record.Fault{Store: true, StoreLost: true}, func(*fault) {
				w.store.SetLag(mayLack)
				job := b.takes("w")
				w.named("b").setStore(storesim.Hung)
				w.store.Failover(false)
				w.store.SetLag(0)
				go b.works(job, 5*time.Second)
				c.works(c.takes("w"), time.Second)
				time.Sleep(5 * time.Second)
				w.named("b").setStore(storesim.Up)
			})
		}},
	},
	{
		name: "a late write", was: "A session of before wrote over what the next owner had written.",
		rules: []string{"term-fence"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			a, b := w.hand("a"), w.hand("b")
			job := a.takes("w")
			a.writes(job)
			w.cutOffStore("a", 10*time.Second, func() {
				next := b.takes("w")
				for range 3 {
					b.writes(next)
				}
			})
			a.writes(job)
		}},
	},
	{
		name: "more nodes than permits", was: "All of them got one.",
		rules: []string{"permits-bounded"},
		world: Options{Works: true, BizTypes: only("order"), Script: func(w *World) {
			for _, name := range nodeNames {
				w.hand(name).takes("w" + name) // then it can take permits as well
			}
			for _, name := range nodeNames {
				go w.hand(name).holds("p", 3*time.Second)
				time.Sleep(500 * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
		}},
	},
}
