package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
)

// Script is what happens in a world, step by step, instead of a drawn plan and random load. It runs
// once all nodes are ready, and must wait for every fault that it begins. Unless the world is loaded,
// callers call only as it says. What they get is checked as in every world.
type Script func(*World)

// begin lets a fault begin, of the kind with a name, on a target and in a way, if the kind has
// those. It lasts for a while, and then ends as the kind says. The returned function waits for its
// end.
func (w *World) begin(name, target, way string, length time.Duration, amount ...time.Duration) (wait func()) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name && (k.needs == nil || k.needs(w.options)) })
	if i < 0 {
		panic("no kind for this world is called " + name)
	}
	p := planned{kind: &kinds[i], at: time.Duration(w.journal.Now()), length: length, target: target, way: way}
	if amount != nil {
		p.amount = amount[0]
	}
	w.begun++
	id, ended := w.begun, make(chan struct{})
	go func() {
		defer close(ended)
		w.suffer(id, p)
	}()
	return func() { <-ended }
}

// while does something between the begin and the end of a fault that is no kind.
func (w *World) while(name string, marks record.Fault, do func(f *fault)) {
	w.begun++
	w.suffer(w.begun, planned{kind: &kind{name: name, marks: marks, begin: func(_ *World, f *fault) { do(f) }}, at: time.Duration(w.journal.Now())})
}

// byHand is the fault of what a script lets an operator do at any time.
func byHand() *fault { return &fault{planned: planned{kind: &kind{name: "scripted"}}} }

// meet lets the next operations in the store that a node begins and that are called so meet some fates,
// one each. What an operation is called is what it does and what it is about, or how these begin, without
// the word fenced: see [storesim.Call].
func (w *World) meet(node, operation string, fates ...storesim.Fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range fates {
		w.meetings = append(w.meetings, meeting{node, operation, f})
	}
}

// met waits until a node has begun all operations that will meet a fate.
func (w *World) met(node string) {
	under := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.ContainsFunc(w.meetings, func(m meeting) bool { return m.node == node })
	}
	for end := time.Now().Add(patience); under(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.journal.Find("%s does not come to what the script waits for", node)
			return
		}
	}
}

// allMet reports a finding for each operation that no node has begun: then the script shows nothing.
func (w *World) allMet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.meetings {
		w.journal.Find("%s does not come to %q", m.node, m.operation)
	}
}

// meeting is that an operation of a node will meet a fate.
type meeting struct {
	node, operation string
	fate            storesim.Fate
}

// meets returns the fate that a script has for an operation.
func (w *World) meets(node string, c storesim.Call) (f storesim.Fate, found bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.meetings) == 0 { // as in every world without a script, which has very many operations
		return f, false
	}
	name := strings.Replace(c.Op, " fenced", "", 1) + " " + c.ID
	i := slices.IndexFunc(w.meetings, func(m meeting) bool {
		return m.node == node && strings.HasPrefix(name, m.operation)
	})
	if i < 0 {
		return f, false
	}
	f = w.meetings[i].fate
	w.meetings = slices.Delete(w.meetings, i, i+1)
	return f, true
}

// cutOff cuts a node off from Redis.
func (w *World) cutOff(n *node) (mend func()) {
	f := new(fault)
	w.cutOffRedis(f, n)
	return f.undoAll
}

// slow makes what a host sends to another one from now on take longer, until end is called.
func (w *World) slow(from, to string, by time.Duration) (end func()) {
	set := func(by time.Duration) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.slower[[2]string{from, to}] = by
	}
	set(by)
	return func() { set(0) }
}

// at waits until a time of the world.
func (w *World) at(t time.Duration) { time.Sleep(time.Until(w.journal.Began.Add(t))) }

// until repeats a call until it is answered and not refused, and reports a finding if that takes too
// long.
func (w *World) until(try func() *record.Call) *record.Call {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		c := try()
		switch {
		case c.Status >= 200 && c.Status < 300:
			return c
		case time.Now().After(end):
			w.journal.Find("no answer to %s of %s at %s: %d %s", c.Kind, c.BizType, c.Node, c.Status, c.Code)
			return c
		}
	}
}

// ask asks a node for numbers, once.
func (w *World) ask(node string, q load.Question) *record.Call {
	return w.load.Ask(context.Background(), w.named(node), q)
}

// leave asks a node for numbers, and gives up before the answer can come.
func (w *World) leave(node string, q load.Question) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	w.load.Ask(ctx, w.named(node), q)
}

// issue asks a node for numbers until they come.
func (w *World) issue(node, bizType string, count int) *record.Call {
	return w.until(func() *record.Call { return w.ask(node, load.Question{BizType: bizType, Count: count}) })
}

// issueOf asks a node for numbers of a key of a keyed biz type until they come.
func (w *World) issueOf(node, bizType, key string, count int) *record.Call {
	return w.until(func() *record.Call {
		return w.ask(node, load.Question{BizType: bizType, Of: key, Count: count})
	})
}

// once asks a node for a number under an Idempotency-Key until it comes.
func (w *World) once(node, bizType, key string) *record.Call {
	return w.until(func() *record.Call { return w.ask(node, load.Question{BizType: bizType, Key: key}) })
}

// reserve reserves a number at a node.
func (w *World) reserve(node, bizType, ttl string) *record.Call {
	return w.until(func() *record.Call {
		return w.load.Reserve(context.Background(), w.named(node), load.Question{BizType: bizType}, ttl)
	})
}

// settle confirms, releases or finds a reservation at a node, once.
func (w *World) settle(node string, got *record.Call, kind string) *record.Call {
	return w.load.Settle(context.Background(), w.named(node), got, kind)
}

// try asks a node to change a definition, once, and reports whether it has.
func (w *World) try(node, bizType, method, path, body string) bool {
	return w.load.Change(context.Background(), w.named(node), bizType, method, path, body)
}

// accounts returns the pages of accounts that were read so far.
func (w *World) accounts() (all []record.Account) {
	w.entries.mu.Lock()
	defer w.entries.mu.Unlock()
	for _, e := range w.entries.all {
		if e.Account != nil {
			all = append(all, *e.Account)
		}
	}
	return all
}

// busy asks each node in turn for numbers, at a distance, until it is stopped.
func (w *World) busy(distance time.Duration, bizType string, count int) (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		load.Every(ctx, distance, func() {
			w.each(func(n string) { w.ask(n, load.Question{BizType: bizType, Count: count}) })
		})
	}()
	return func() { end(); <-ended }
}

// each does something for each node, one after the other.
func (w *World) each(do func(node string)) {
	for _, name := range nodeNames {
		do(name)
	}
}
