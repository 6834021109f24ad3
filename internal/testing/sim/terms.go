package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

// In a world with Options.Works each life of a node has terms besides those of its server, under
// documents of their own. It takes works at random, as if the manifest of the leader were random, and
// writes the next number into each. It holds permits too.

const (
	works       = 8
	workers     = 2 // of each node
	permits     = 3
	mostPermits = 2 // of each

	workKind, permitKind = "work", "permit"
)

func withWorks(o Options) bool       { return o.Works }
func withCoordinator(o Options) bool { return o.Coordinator }

// inCoordinator reports whether machine IDs are leased in the coordinator.
func (o Options) inCoordinator() bool { return o.Registry && !o.Redis }

// offlineInStore lets biz types with reservations lease machine IDs in the store: a coordinator has none.
func offlineInStore(shapes []load.Shape) {
	for i := range shapes {
		if s := &shapes[i]; s.Setting["offlineStart"] != nil {
			s.Setting["registry"] = "store"
		}
	}
}

var coordinatorStates = map[string]storesim.State{"away": storesim.Away, "hung": storesim.Hung, "mute": storesim.Mute}

// wipeCoordinator removes all that the coordinator has. back puts it back.
func (w *World) wipeCoordinator() (back func()) {
	fresh, old := storesim.New(storesim.Options{}), w.coordinator.Backup()
	defer fresh.Close()
	w.coordinator.Restore(fresh.Backup(), false)
	return func() { w.coordinator.Restore(old, false) }
}

// anotherCoordinator is the way of a coordinator that another one stands in for, meanwhile.
const anotherCoordinator = "another"

// putBackCoordinator lets the coordinator forget what happens meanwhile.
func putBackCoordinator(w *World, f *fault) {
	if f.way == anotherCoordinator {
		f.later(w.wipeCoordinator())
		return
	}
	old := w.coordinator.Backup()
	f.later(func() { w.coordinator.Restore(old, false) })
}

// coordinator opens the coordinator, as the node reaches it in this life.
func (l *life) coordinator() coordination.Coordinator {
	return l.node.openCoordinator(l.coordination, l.patience)
}

func (n *node) openCoordinator(view *storesim.View, patience time.Duration) coordination.Coordinator {
	store, err := view.Open(context.Background(), storesim.Client{Now: n.clock, Timeout: patience, Unreached: true})
	if err != nil {
		n.journal.Find("the coordinator of %s: %v", n.name, err)
	}
	return struct {
		coordination.Documents
		io.Closer
	}{store.Documents(), store}
}

// termKinds are faults of clocks that only terms notice. A time of day that is set back meanwhile is
// not one of them: see ADR 70.
var termKinds = []kind{
	{name: "coordinator-away", weight: 3, needs: withCoordinator, holds: "link@all store@", targets: []string{"all"}, ways: slices.Sorted(maps.Keys(coordinatorStates)), least: blink, most: long,
		begin: func(w *World, f *fault) { w.coordinator.Set(coordinatorStates[f.way]) }, end: func(w *World, f *fault) { w.coordinator.Set(storesim.Up) }},
	{name: "coordinator-wiped", weight: 3, needs: withCoordinator, holds: "coordinator", targets: []string{"all"}, begin: func(w *World, f *fault) { w.wipeCoordinator() }},
	{name: "coordinator-put-back", weight: 3, needs: withCoordinator, holds: "coordinator", targets: []string{"all"}, ways: []string{"", anotherCoordinator}, least: short, most: long, begin: putBackCoordinator},
	{name: "suspend", weight: 4, needs: withWorks, holds: "seqd pause clock", targets: nodeNames, least: short, most: long, marks: record.Fault{Paused: true},
		begin: func(w *World, f *fault) { w.node(f).suspend() }, end: func(w *World, f *fault) { w.node(f).wake() }},
}

// suspension is the monotonic clock of a machine.
type suspension struct {
	mu    sync.Mutex // guards what follows
	stood time.Duration
	since time.Time // zero while it runs
}

// suspend pauses the node, and its monotonic clock stands still.
func (n *node) suspend() {
	n.pause()
	n.suspended.mu.Lock()
	defer n.suspended.mu.Unlock()
	n.suspended.since = time.Now()
}

func (n *node) wake() {
	n.suspended.mu.Lock()
	n.suspended.stood += time.Since(n.suspended.since)
	n.suspended.since = time.Time{}
	n.suspended.mu.Unlock()
	n.resume()
}

// instant reads the clocks of the node.
func (n *node) instant() instant.Instant {
	n.suspended.mu.Lock()
	defer n.suspended.mu.Unlock()
	mono := time.Since(begins) - n.suspended.stood
	if !n.suspended.since.IsZero() {
		mono -= time.Since(n.suspended.since)
	}
	return instant.Instant{Mono: mono, Wall: time.Duration(n.clock().UnixNano())}
}

// apart are the documents of terms whose kinds are not those of the server's.
type apart struct {
	coordination.Documents
	fenced persist.Fenced
}

const apartPrefix = "x"

func (a apart) move(d persist.Document) persist.Document {
	d.Kind = apartPrefix + d.Kind
	return d
}

func (a apart) Create(ctx context.Context, d persist.Document) error {
	return a.Documents.Create(ctx, a.move(d))
}

func (a apart) Update(ctx context.Context, d persist.Document) error {
	return a.Documents.Update(ctx, a.move(d))
}

func (a apart) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	d, err := a.Documents.Read(ctx, apartPrefix+kind, key)
	d.Kind = kind
	return d, err
}

func (a apart) Delete(ctx context.Context, kind, key string, revision int64) error {
	return a.Documents.Delete(ctx, apartPrefix+kind, key, revision)
}

func (a apart) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	list, err := a.Documents.List(ctx, apartPrefix+kind, after, limit)
	for i := range list {
		list[i].Kind = kind
	}
	return list, err
}

// apartFenced is the same of a store with fences.
type apartFenced struct{ apart }

func (a apartFenced) Fence(ctx context.Context) (persist.Fence, error) { return a.fenced.Fence(ctx) }

func (a apartFenced) ConfirmFence(ctx context.Context, current string) error {
	return a.fenced.ConfirmFence(ctx, current)
}

func (a apartFenced) CreateLost(ctx context.Context, c persist.Counter) error {
	return a.fenced.CreateLost(ctx, c)
}

func (a apartFenced) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	return a.fenced.CreateFenced(ctx, a.move(d), fence)
}

func (a apartFenced) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	return a.fenced.UpdateFenced(ctx, a.move(d), fence)
}

// work lets a life have terms until ctx ends, and do works unless a script does.
func (l *life) work(ctx context.Context) {
	n := l.node
	store, err := l.view.Open(ctx, storesim.Client{Now: n.clock, Timeout: l.patience, Unreached: true})
	if err != nil {
		n.journal.Find("the store of the works of %s: %v", n.name, err)
		return
	}
	documents := apart{Documents: store.Documents()}
	options := terms.Options{Documents: documents, Shared: true, Node: fmt.Sprint(n.name, l.number), Now: n.clock, Log: l.log, Clock: n.instant}
	if fenced, ok := store.(persist.Fenced); ok {
		documents.fenced = fenced
		options.Fenced = apartFenced{documents}
	}
	if l.coordination != nil {
		options.Coordinator = apart{Documents: l.coordinator()}
	}
	own := terms.New(options)
	l.terms.Store(own)
	var running sync.WaitGroup
	running.Go(func() { own.Run(ctx) })
	if !n.options.quiet() {
		for loop := range workers { // two of one node never do the same work
			running.Go(func() {
				l.atRandom(ctx, n.dice("works", n.name, l.number, loop), func(ctx context.Context, d *worlds.Dice) {
					l.doWork(ctx, d, fmt.Sprint("w", workers*d.Below(works/workers)+loop))
				})
			})
		}
		running.Go(func() { l.atRandom(ctx, n.dice("permits", n.name, l.number), l.holdPermit) })
	}
	running.Wait()
	_ = store.Close() // it has no error
}

// atRandom does something now and then until ctx ends.
func (l *life) atRandom(ctx context.Context, d worlds.Dice, do func(context.Context, *worlds.Dice)) {
	for ctx.Err() == nil && !l.over.Load() {
		do(ctx, &d)
		l.rest(ctx, &d, 600)
	}
}

// rest waits for less than so many milliseconds.
func (l *life) rest(ctx context.Context, d *worlds.Dice, most int) {
	select {
	case <-time.After(time.Duration(d.Below(most)) * time.Millisecond):
	case <-ctx.Done():
	}
}

// doWork takes a work, works on it and writes numbers for a while, and releases it or not. If it has to
// stop, it writes once more nevertheless, as a process that was paused before a write would.
func (l *life) doWork(ctx context.Context, d *worlds.Dice, work string) {
	job, err := l.terms.Load().Take(ctx, workKind, work)
	if err != nil {
		return
	}
	stint := l.stint(job)
	defer l.tell(stint)
	for writes := d.OneIn(2); d.Below(20) > 0; { // a write that hangs would end most of what a node does while it is cut off
		switch {
		case !l.goesOn(stint):
			l.rest(ctx, d, 10_000)
			l.write(ctx, job, stint)
			return
		case writes && d.OneIn(3) && !l.write(ctx, job, stint):
			return
		}
		l.rest(ctx, d, 800)
	}
	if l.goesOn(stint) && d.OneIn(2) {
		_ = job.Release(ctx, job.State, 0) // if it fails, nobody else can take it yet
	}
}

// holdPermit gets a permit, holds it for a while, and frees it or not.
func (l *life) holdPermit(ctx context.Context, d *worlds.Dice) {
	own, name := l.terms.Load(), fmt.Sprint("p", d.Below(permits))
	session, _, _ := own.Session()
	permit, err := own.Acquire(ctx, permitKind, name, "", mostPermits, nil)
	if err != nil {
		return
	}
	stint := &record.Duty{Work: name, Most: mostPermits, Session: session}
	defer l.tell(stint)
	for range 1 + d.Below(8) {
		if !l.goesOn(stint) {
			return
		}
		l.rest(ctx, d, 400)
	}
	if l.goesOn(stint) && !d.OneIn(4) {
		_ = permit.Free(ctx) // likewise
	}
}

// stint begins to record what is done on a work.
func (l *life) stint(job *terms.Work) *record.Duty {
	return &record.Duty{Work: job.Key(), Most: 1, Session: job.Session, Term: job.Term}
}

// goesOn reports whether the session may work now, and notes that it does.
func (l *life) goesOn(stint *record.Duty) bool {
	session, _, ok := l.terms.Load().Session()
	if !ok || session != stint.Session || l.over.Load() {
		return false
	}
	stint.Until = l.node.journal.Now()
	if stint.From == 0 {
		stint.From = stint.Until
	}
	return true
}

// write writes the next number of a work, and reports whether it has.
func (l *life) write(ctx context.Context, job *terms.Work, stint *record.Duty) bool {
	var number int64
	_ = json.Unmarshal(job.State, &number) // nil before the first
	number++
	if job.Write(ctx, json.RawMessage(fmt.Sprint(number)), 0) != nil {
		return false
	}
	if stint.First == 0 {
		stint.First = number
	}
	stint.Last = number
	return true
}

// tell records what was done.
func (l *life) tell(stint *record.Duty) {
	if stint.From > 0 {
		l.node.journal.Write(record.Entry{Duty: stint})
	}
}
