package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/server/ops"
)

// kind is a kind of fault, or of an action of an operator.
type kind struct {
	name   string
	weight int
	// holds are the parts that it uses, as words: "seqd" is the one of its target, "seqd@all" the one of
	// every node, "definition@all" that of every biz type, "redis@" one of the world. Two faults that
	// share a part never overlap.
	holds       string
	targets     []string // one is drawn; nil for none
	ways        []string // likewise
	amounts     []time.Duration
	least, most time.Duration // of its length
	// after is how long its end takes at most.
	after time.Duration
	needs func(Options) bool // nil for every world
	marks record.Fault       // its effects, for the checker
	begin func(w *World, f *fault)
	end   func(w *World, f *fault) // nil if begin has said how
}

// planned is a fault of the plan.
type planned struct {
	kind   *kind
	at     time.Duration // since the journal began
	length time.Duration
	target string
	way    string
	amount time.Duration
}

// String is a line of the plan.
func (p planned) String() string {
	text := fmt.Sprintf("%9.3fs for %7.3fs  %s", p.at.Seconds(), p.length.Seconds(), p.kind.name)
	for _, more := range []string{p.target, p.way} {
		if more != "" {
			text += " " + more
		}
	}
	if p.amount != 0 {
		text += fmt.Sprint(" ", p.amount)
	}
	return text
}

// ends returns when a fault has ended completely.
func (p planned) ends() time.Duration { return p.at + p.length + p.kind.after }

// locks returns the parts that a fault uses.
func (p planned) locks() (all []string) {
	for _, word := range strings.Fields(p.kind.holds) {
		thing, place, given := strings.Cut(word, "@")
		places := []string{place}
		switch {
		case !given:
			places = []string{p.target}
		case place == "all" && thing == "definition":
			places = changeful
		case place == "all":
			places = nodeNames
		}
		for _, place := range places {
			all = append(all, thing+" "+place)
		}
	}
	return all
}

// shares reports whether two faults use the same part.
func (p planned) shares(other planned) bool {
	return slices.ContainsFunc(p.locks(), func(lock string) bool { return slices.Contains(other.locks(), lock) })
}

// pause is the mean time between the begins of two faults.
const pause = 12 * time.Second

// newPlan draws all faults of a world from its seed, before anything happens. So the same seed has the
// same faults at the same times, and a fault can be left out without a change of the others.
func newPlan(o Options) (all []planned) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	dealt := kindsOf(o)
	if len(dealt) == 0 {
		return nil
	}
	for at := quiet; at < quiet+o.Length; at += load.UpTo(r, 2*pause) {
		p := dealt[r.IntN(len(dealt))].draw(r, at)
		collides := func(other planned) bool { return p.at < other.ends() && p.shares(other) }
		if o.Bolt && slices.Contains(nodeNames[1:], p.target) {
			continue // it has no such node
		}
		if p.ends() < quiet+o.Length && !slices.ContainsFunc(all, collides) {
			all = append(all, p)
		}
	}
	if o.Kept == nil {
		return all
	}
	var kept []planned
	for _, i := range o.Kept {
		kept = append(kept, all[i])
	}
	return kept
}

// Plan returns the lines of the plan of a world, a fault each.
func Plan(o Options) (lines []string) {
	for _, p := range newPlan(o) {
		lines = append(lines, p.String())
	}
	return lines
}

// kindsOf returns the kinds of a world, each as often as its weight says.
func kindsOf(o Options) (dealt []*kind) {
	for i := range kinds {
		k := &kinds[i]
		if o.Bolt && !slices.Contains(onBolt, k.name) || k.needs != nil && !k.needs(o) || len(o.Only) > 0 && !slices.Contains(o.Only, k.name) {
			continue
		}
		dealt = append(dealt, slices.Repeat([]*kind{k}, k.weight)...)
	}
	return dealt
}

// draw draws what a kind leaves open.
func (k *kind) draw(r *rand.Rand, at time.Duration) planned {
	p := planned{kind: k, at: at, length: k.least + load.UpTo(r, k.most-k.least+1)}
	if k.targets != nil {
		p.target = load.Pick(r, k.targets)
	}
	if k.ways != nil {
		p.way = load.Pick(r, k.ways)
	}
	if k.amounts != nil {
		p.amount = load.Pick(r, k.amounts)
	}
	return p
}

// fault is a fault that goes on.
type fault struct {
	planned
	record.Fault
	undo    []func()   // what its end does, the last first
	missing []ops.Mark // the counters that a failover has lost, and how far they had come
	backup  backup     // to restore
}

// later adds what the end of the fault does.
func (f *fault) later(undo func()) { f.undo = append(f.undo, undo) }

// undoAll does what later has added.
func (f *fault) undoAll() {
	for _, undo := range slices.Backward(f.undo) {
		undo()
	}
	f.undo = nil
}

// inflict lets the faults of a plan happen, and returns when all have ended. A fault that uses a part
// of an earlier one waits for the end of that, which may be later than planned.
func (w *World) inflict(plan []planned) {
	var under sync.WaitGroup
	ended := make([]chan struct{}, len(plan))
	for i, p := range plan {
		ended[i] = make(chan struct{})
		under.Go(func() {
			defer close(ended[i])
			time.Sleep(time.Until(w.journal.Began.Add(p.at)))
			for j, earlier := range plan[:i] {
				if p.shares(earlier) {
					<-ended[j]
				}
			}
			w.suffer(i+1, p)
		})
	}
	under.Wait()
}

// suffer lets one fault happen.
func (w *World) suffer(id int, p planned) {
	f := &fault{planned: p, Fault: p.kind.marks}
	f.ID, f.Class, f.Target, f.Detail = id, p.kind.name, p.target, p.way
	f.Redis = f.Redis && w.options.Redis
	if f.Unordered == itsTarget {
		f.Unordered = p.target
	}
	if !w.options.Redis { // answers for keys are kept in the store
		f.LosesKeys = f.StoreLost || f.StoreBack
	}
	f.Begin = w.journal.Now()
	if f.Store {
		defer w.trouble(&w.storeOutage)()
	}
	if f.Redis {
		defer w.trouble(&w.redisOutage)()
	}
	w.tell(f) // before it begins: its effects are excused from here on
	w.journal.Say("+ %v", p)
	p.kind.begin(w, f)
	time.Sleep(p.length)
	f.undoAll()
	if p.kind.end != nil {
		p.kind.end(w, f)
	}
	f.End = w.journal.Now()
	w.tell(f)
	w.journal.Say("- %v", p)
}

// tell records a fault as it is now.
func (w *World) tell(f *fault) {
	now := f.Fault
	w.journal.Write(record.Entry{Fault: &now})
}

// outage counts the faults that make a server unavailable. The world's mu guards it.
type outage struct {
	going int   // that go on
	at    int64 // when one began or ended last
}

// trouble notes that a fault makes a server unavailable, until the function that it returns is called.
func (w *World) trouble(o *outage) (over func()) {
	change := func(by int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		o.going += by
		o.at = w.journal.Now()
	}
	change(1)
	return func() { change(-1) }
}

// away reports whether a server is unavailable, or was shortly before.
func (w *World) away(o *outage) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return o.going > 0 || o.at > 0 && w.journal.Now()-o.at < int64(20*time.Second)
}
