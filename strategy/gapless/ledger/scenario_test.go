package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/scenario"
	"github.com/seqd/seqd/persist"
)

// The steps of scenarios. A node is a machine; what is printed is what it asks of the store, what
// callers are told, and the ledger if it has changed.
//
//	policy max=3 ttl=10s void    changes the policy of all nodes; see tale.policyStep
//	writers 2                    how many writers the document remembers
//	expired 2                    how many reservations are reclaimed at once
//	kept 2 5                     how many records are copied at once, and how many entries do not wait
//	a issue 3 once=k             a caller asks node a, which is new if nobody has named it before. It
//	                             goes on until the caller is told, or until it waits for the store
//	ask a issue 3                the same, but a does nothing yet
//	run a                        a goes on
//	leave a                      the first caller who waits at a gives up
//	next a write lost            what becomes of the next write, read, keep or look-up of a: lost, it
//	                             never comes; unanswered, only its answer is lost; late, it comes with
//	                             the step land, and a gets no answer; slow, its answer comes with the
//	                             step answer; stuck, it never comes, and a learns that with the step
//	                             answer
//	land, answer a
//	crash a                      a process with a new machine takes the place of a
//	pass 10s                     time passes for all
//	backup, restore, gone        the store is copied, put back to the copy, or empty
//	server f2 confirmed          a failover to another server, f2; see tale.serverStep
//	operator raise to=9          an operation is carried out on the document, without a machine
//	document, records, account   shows more; recall order-1 shows what the request was given
//	stats a                      what a knows without the store
type tale struct {
	*world
	t      *testing.T
	policy Policy // of all nodes
	nodes  map[string]*teller
	fence  *persist.Fence // of the present server, nil if a failover loses nothing
	backup map[string]persist.Document
	shown  string // the ledger as it was last shown
	out    strings.Builder
}

// teller is a node.
type teller struct {
	name    string
	m       *Machine
	now     time.Time
	next    map[Action]string // what becomes of the next command of a kind
	slow    []answer          // what is on its way
	waiting []*Request
	fence   *persist.Fence // that it believes in, nil for the present one
	since   map[int64]Since
}

var actions = map[string]Action{"read": Read, "write": Write, "keep": Keep, "look-up": LookUp}

const (
	counter = "invoice/t1@2026"
	start   = 1_700_000_000_000
)

var plain = Policy{Start: 1, TTL: 600_000, Keep: 3_600_000, MaxReserved: 1000}

func id(n int) string { return fmt.Sprintf("%020x", n) }

func TestScenarios(t *testing.T) {
	writers, kept, from, expired := mostWriters, mostKept, keepFrom, mostExpired
	reset := func() { mostWriters, mostKept, keepFrom, mostExpired = writers, kept, from, expired }
	defer reset()
	scenario.Run(t, "testdata", AllRules(), func(without ...Rule) scenario.Play {
		reset()
		w := newWorld(1, Rules(without...))
		w.clock, w.policy = start, plain
		tl := &tale{world: w, nodes: make(map[string]*teller), shown: "no ledger", policy: plain}
		return tl.play
	})
}

// play executes a step.
func (tl *tale) play(t *testing.T, step *scenario.Step) string {
	tl.t = t
	tl.out.Reset()
	words := step.CmdArgs
	switch step.Cmd {
	case "policy":
		tl.policyStep(words)
	case "writers":
		mostWriters = int(number(words[0].Key))
	case "expired":
		mostExpired = int(number(words[0].Key))
	case "kept":
		mostKept, keepFrom = int(number(words[0].Key)), int(number(words[1].Key))
	case "ask":
		tl.ask(tl.node(words[0].Key), words[1:])
	case "run":
		tl.run(tl.node(words[0].Key))
	case "leave":
		tl.leave(tl.node(words[0].Key))
	case "next":
		tl.node(words[0].Key).next[actions[words[1].Key]] = words[2].Key
	case "land":
		tl.land()
	case "answer":
		tl.answer(tl.node(words[0].Key))
	case "crash":
		tl.crash(tl.node(words[0].Key))
	case "pass":
		tl.pass(duration(words[0].Key))
	case "backup":
		tl.backup = maps.Clone(tl.docs)
	case "restore":
		tl.replace(maps.Clone(tl.backup))
	case "gone":
		tl.replace(make(map[string]persist.Document))
	case "server":
		tl.serverStep(words)
	case "operator":
		tl.operator(words)
	case "document":
		d := tl.docs["ledger/"+counter]
		tl.say("%s, due %s", d.Body, moment(d.Expires))
	case "records":
		tl.records()
	case "recall":
		tl.recall(words[0].Key)
	case "account":
		tl.account(words)
	case "stats":
		tl.stats(tl.node(words[0].Key))
	default:
		n := tl.node(step.Cmd)
		tl.ask(n, words)
		tl.run(n)
	}
	tl.show()
	return tl.out.String()
}

func (tl *tale) say(format string, args ...any) { fmt.Fprintf(&tl.out, format+"\n", args...) }

// node returns a node, which is new if nobody has named it before.
func (tl *tale) node(name string) *teller {
	n := tl.nodes[name]
	if n == nil {
		n = &teller{name: name, now: time.Unix(0, 0), next: make(map[Action]string), since: make(map[int64]Since)}
		tl.names++
		writer := name + strconv.Itoa(tl.names)
		n.m = New(Config{Counter: counter, Writer: writer, Without: tl.without}, tl.policy)
		tl.nodes[name] = n
	}
	return n
}

func (tl *tale) crash(n *teller) {
	delete(tl.nodes, n.name)
	tl.node(n.name).now = n.now
}

func (tl *tale) policyStep(words []datadriven.CmdArg) {
	p := &tl.policy
	for _, w := range words {
		switch w.Key {
		case "void":
			p.Void = true
		case "reuse":
			p.Void = false
		case "events":
			p.Told = w.Vals == nil
		case "start":
			p.Start = number(w.Vals[0])
		case "floor":
			p.Floor = number(w.Vals[0])
		case "limit":
			p.Limit = number(w.Vals[0])
		case "max":
			p.MaxReserved = number(w.Vals[0])
		case "share":
			p.MaxReservedPerCaller = number(w.Vals[0])
		case "ttl":
			p.TTL = duration(w.Vals[0])
		case "ends":
			p.Ends = start + duration(w.Vals[0])
		case "forward":
			p.Forward = duration(w.Vals[0])
		case "awake":
			p.Awake = start + duration(w.Vals[0])
		default:
			tl.t.Fatalf("there is no policy %s", w.Key)
		}
	}
	tl.world.policy = *p
	tl.world.policy.Floor = 0 // what was issued before may be below
	for _, n := range tl.nodes {
		n.m.SetPolicy(*p)
	}
}

// serverStep lets another server take over. "confirmed" says that an operator has confirmed the
// failover, and a=f1 that node a still believes in the server f1.
func (tl *tale) serverStep(words []datadriven.CmdArg) {
	was := tl.fence
	tl.fence = &persist.Fence{Current: words[0].Key}
	if was != nil {
		tl.fence.Confirmed = was.Confirmed
	}
	for _, w := range words[1:] {
		if w.Key == "confirmed" {
			tl.fence.Confirmed = tl.fence.Current
			continue
		}
		tl.node(w.Key).fence = &persist.Fence{Current: w.Vals[0], Confirmed: w.Vals[0]}
	}
}

// replace replaces what is in the store. What the world has seen before counts no more.
func (tl *tale) replace(docs map[string]persist.Document) {
	tl.docs, tl.class, tl.state = docs, make(map[int64]byte), nil
}

// op reads an operation.
func (tl *tale) op(words []datadriven.CmdArg) Op {
	op := Op{Caller: "c"}
	kinds := map[string]Kind{
		"issue": Issue, "reserve": Reserve, "find": Find, "confirm": Confirm, "release": Release, "void": Void,
		"return": Return, "reclaim": Reclaim, "raise": Raise,
	}
	kind, known := kinds[words[0].Key]
	if !known {
		tl.t.Fatalf("there is no operation %s", words[0].Key)
	}
	op.Kind = kind
	for _, w := range words[1:] {
		switch w.Key {
		case "once":
			op.Once = w.Vals[0]
		case "recall":
			op.Recall = true
		case "close":
			op.Recall, op.Close = true, true
		case "by":
			op.Caller = w.Vals[0]
		case "admin":
			op.Admin = true
		case "ttl":
			op.TTL = duration(w.Vals[0])
		case "reason":
			op.Reason = w.Vals[0]
		case "to":
			op.To = number(w.Vals[0])
		case "fence":
			op.Fence = w.Vals[0]
		default:
			tl.object(&op, w.Key)
		}
	}
	return op
}

// object reads what an operation is about: a reservation such as r1, a number, or a run.
func (tl *tale) object(op *Op, word string) {
	from, to, isRun := strings.Cut(word, "-")
	switch {
	case word[0] == 'r':
		if n, err := strconv.Atoi(word[1:]); err == nil {
			word = id(n)
		}
		op.ID = word
	case op.Kind == Void:
		op.Number = number(word)
	case op.Kind == Return && isRun:
		op.Runs = append(op.Runs, Run{number(from), number(to)})
	case op.Kind == Return:
		op.Runs = append(op.Runs, Run{number(word), number(word)})
	default:
		op.Count = number(word)
	}
}

func (tl *tale) ask(n *teller, words []datadriven.CmdArg) {
	op := tl.op(words)
	if op.Kind == Return {
		op.Since = n.since[op.Runs[0].From]
	}
	r := &Request{Op: op, Tag: words[0].Key}
	n.waiting = append(n.waiting, r)
	n.m.Submit(r)
}

func (tl *tale) leave(n *teller) {
	if len(n.waiting) == 0 {
		tl.say("nobody waits")
		return
	}
	tl.say("%s would say: %v", n.name, n.m.Late())
	if r := n.waiting[0]; n.m.Abandon(r) {
		n.waiting = n.waiting[1:]
		tl.say("%s: nothing was done for it", n.name)
	}
	tl.run(n)
}

// run lets a node go on until it waits for the store, or for nothing.
func (tl *tale) run(n *teller) {
	for range 100 {
		list, wake := n.m.Next(n.now, tl.clock)
		for _, c := range slices.Clone(list) {
			tl.command(n, c)
		}
		tl.tell(n)
		switch {
		case len(list) > 0:
		case wake.IsZero() || len(n.waiting) == 0 || len(n.slow) > 0:
			return
		default:
			tl.say("%s waits %s", n.name, wake.Sub(n.now))
			n.now = wake
		}
	}
	tl.say("%s: it does not come to an end", n.name)
}

// command executes a command, or what becomes of it instead.
func (tl *tale) command(n *teller, c Command) {
	execute := func() Outcome {
		var fenced persist.Fenced
		if tl.fence != nil {
			fenced = &believer{fencedWorld{tl.world, tl.fence}, cmp.Or(n.fence, tl.fence)}
			if c.Anew {
				fenced = &fencedWorld{tl.world, tl.fence}
			}
		}
		return c.Execute(context.Background(), tl.world, fenced)
	}
	fate := n.next[c.Action]
	delete(n.next, c.Action)
	out := Outcome{Err: errLost}
	switch fate {
	case "lost", "stuck":
	case "unanswered":
		execute()
	case "late":
		tl.late = append(tl.late, func() { tl.describe(n, &c, execute(), "comes late") })
	default:
		out = execute()
	}
	tl.describe(n, &c, out, fate)
	if fate == "slow" || fate == "stuck" {
		n.slow = append(n.slow, answer{c, out})
		return
	}
	n.m.Done(n.now, tl.clock, &c, out)
}

// fencedWorld compares the fence of what is written.
type fencedWorld struct {
	*world
	fence *persist.Fence
}

func (w *fencedWorld) Fence(context.Context) (persist.Fence, error)      { return *w.fence, nil }
func (w *fencedWorld) ConfirmFence(context.Context, string) error        { return nil }
func (w *fencedWorld) CreateLost(context.Context, persist.Counter) error { return nil }
func (w *fencedWorld) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != w.fence.Current {
		return persist.ErrFailedOver
	}
	return w.Create(ctx, d)
}

func (w *fencedWorld) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != w.fence.Current {
		return persist.ErrFailedOver
	}
	return w.Update(ctx, d)
}

// believer is a node that has not noticed a failover.
type believer struct {
	fencedWorld
	believes *persist.Fence
}

func (b *believer) Fence(context.Context) (persist.Fence, error) { return *b.believes, nil }

// land lets come what is late.
func (tl *tale) land() {
	late := tl.late
	tl.late = nil
	for _, f := range late {
		f()
	}
}

// answer lets slow answers come.
func (tl *tale) answer(n *teller) {
	slow := n.slow
	n.slow = nil
	for _, a := range slow {
		n.m.Done(n.now, tl.clock, &a.c, a.out)
	}
	tl.run(n)
}

func (tl *tale) pass(d int64) {
	tl.clock += d
	for _, name := range slices.Sorted(maps.Keys(tl.nodes)) {
		n := tl.nodes[name]
		n.now = n.now.Add(time.Duration(d) * time.Millisecond)
		tl.run(n)
	}
}

// operator carries out an operation on the document.
func (tl *tale) operator(words []datadriven.CmdArg) {
	s := Fresh(&tl.policy, "operator", "")
	if d, err := tl.Read(context.Background(), persist.LedgerKind, counter); err == nil {
		if s, err = Decode(&d); err != nil {
			tl.t.Fatal(err)
		}
	}
	s.rules = tl.without
	op := tl.op(words)
	res, err := s.Apply(tl.clock, &tl.policy, &op, &Looked{Since: Since{s.Era, s.Revision}})
	tl.told("operator", &Request{Op: op, Result: res, Err: err, Tag: words[0].Key})
	if !res.Changed {
		return
	}
	d := must.Get(s.Document(counter, tl.clock))(tl.t)
	if op.Kind == Raise { // what the world has seen before counts no more
		tl.replace(tl.docs)
	}
	tl.world.land(d)
}
