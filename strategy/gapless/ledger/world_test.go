package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

var (
	errLost     = errors.New("connection reset")
	errDeadline = errors.New("deadline")
)

// world is a store whose answers get lost and whose writes come late, nodes with wrong clocks, and
// callers who remember everything that they were told.
type world struct {
	persist.Documents // nil: what is not here is not used
	rng               *rand.Rand
	without           RuleSet
	policy            Policy
	clock             int64
	docs              map[string]persist.Document // of every kind
	state             *State                      // that of the ledger
	class             map[int64]byte              // what each number is
	late              []func()
	nodes             []*simNode
	wrong             error

	owner   map[int64]string   // who was told that a number is theirs
	voided  map[int64]bool     // who was told that it is void
	once    map[string]*Result // what was told
	open    map[string]*told   // reservations that callers know
	names   int
	lossy   bool // numbers may be issued without an owner
	highest int64
}

// told is what a caller knows of a reservation.
type told struct {
	runs []Run
	due  int64
	end  End
}

type simNode struct {
	name     string
	m        *Machine
	offset   int64
	now      time.Time
	inflight []Command
	answers  []answer
	waiting  []*Request
}

type answer struct {
	c   Command
	out Outcome
}

// ask is what a caller remembers of a request.
type ask struct {
	gone  bool
	most  int64 // the largest number of reserved numbers since
	ended End   // of its reservation, when it was asked
	void  bool  // a number that it was given before was void then
	last  int64
}

func newWorld(seed uint64, without RuleSet) *world {
	w := &world{
		rng: rand.New(rand.NewPCG(seed, 18)), without: without, clock: 1_700_000_000_000,
		docs: make(map[string]persist.Document), class: make(map[int64]byte), owner: make(map[int64]string),
		voided: make(map[int64]bool), once: make(map[string]*Result), open: make(map[string]*told),
	}
	w.policy = Policy{Start: 1 + int64(w.rng.IntN(3)), TTL: 10_000, Keep: 1 << 40, MaxReserved: 12, Void: w.rng.IntN(4) == 0}
	w.policy.Told = seed%2 == 0
	if w.rng.IntN(4) == 0 {
		w.policy.Ends = w.clock + 60_000
	}
	if w.rng.IntN(4) == 0 {
		w.policy.Floor = 7
	}
	if w.rng.IntN(3) == 0 {
		w.policy.Awake = w.clock + 5_000
	}
	for range 1 + w.rng.IntN(3) {
		w.nodes = append(w.nodes, w.newNode(Seen{}))
	}
	return w
}

func (w *world) newNode(seen Seen) *simNode {
	w.names++
	name := fmt.Sprintf("w%d", w.names)
	n := &simNode{name: name, now: time.Unix(0, 0), m: New(Config{Counter: counter, Writer: name, Without: w.without, MaxBatch: 1 + w.rng.IntN(8)}, w.policy)}
	n.m.Inherit(seen)
	return n
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, args...)
	}
}

// The store.

func (w *world) Read(_ context.Context, kind, key string) (persist.Document, error) {
	d, ok := w.docs[kind+"/"+key]
	if !ok {
		return d, persist.ErrNotFound
	}
	return d, nil
}

func (w *world) Create(_ context.Context, d persist.Document) error {
	if _, ok := w.docs[d.PersistID()]; ok {
		return persist.ErrExists
	}
	w.land(d)
	return nil
}

func (w *world) Update(_ context.Context, d persist.Document) error {
	have, ok := w.docs[d.PersistID()]
	if !ok {
		return persist.ErrNotFound
	}
	if err := have.CheckUpdate(d); err != nil {
		return err
	}
	w.land(d)
	return nil
}

func (w *world) Keep(_ context.Context, list []persist.Document) error {
	for _, d := range list {
		if err := d.CheckNew(); err != nil {
			w.fail("%w", err)
		}
		if _, ok := w.docs[d.PersistID()]; !ok {
			w.docs[d.PersistID()] = d
		}
	}
	return nil
}

func (w *world) List(_ context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	for _, key := range slices.Sorted(maps.Keys(w.docs)) {
		if d := w.docs[key]; d.Kind == kind && d.Key > after && len(list) < limit {
			list = append(list, d)
		}
	}
	return list, nil
}

// land stores a document, and checks what it says against the one before.
func (w *world) land(d persist.Document) {
	w.docs[d.PersistID()] = d
	s, err := Decode(&d)
	if err != nil {
		w.fail("%w", err)
		return
	}
	records, _ := w.List(context.Background(), persist.VoidKind, "", 1<<30)
	voids, err := s.AllVoids(records)
	if err == nil {
		err = s.Check(voids)
	}
	if err != nil {
		w.fail("revision %d: %w: %s", d.Revision, err, d.Body)
		return
	}
	w.transitions(s, voids)
	w.ends(s)
	w.order(s)
	if len(s.Released) > 0 && (w.policy.Void || w.policy.Ends > 0 && w.policy.Ends <= d.Timestamp) {
		w.fail("numbers are released: %s", d.Body)
	}
	most := s.reserved
	if w.state != nil { // all that was added may have been before all that ended
		most = w.state.reserved
		for _, r := range s.Reserved {
			if w.state.Reservation(r.ID) == nil {
				most += Count(r.Runs)
			}
		}
		for _, e := range s.Outbox { // what was added may have ended, or become void, by the same write
			if e.Rev == s.Revision && (e.Kind == VoidEntry || e.Kind == EndedEntry && w.state.Reservation(e.ID) == nil) {
				most += Count(e.Runs)
			}
		}
	}
	w.state = s
	w.highest = max(w.highest, s.Last)
	for _, n := range w.nodes {
		for _, r := range n.waiting {
			r.Tag.(*ask).most = max(r.Tag.(*ask).most, most)
		}
	}
}

// transitions checks what became of each number.
func (w *world) transitions(s *State, voids []Run) {
	class := make(map[int64]byte)
	mark := func(runs []Run, c byte) {
		for _, r := range runs {
			for n := r.From; n <= r.To; n++ {
				class[n] = c
			}
		}
	}
	mark([]Run{{s.First, s.Last}}, 'i')
	mark(voids, 'v')
	for _, r := range s.Released {
		mark([]Run{r.Run}, 'f')
	}
	for _, r := range s.Reserved {
		mark(r.Runs, 'r')
	}
	for n, was := range w.class {
		switch is := class[n]; {
		case is == 0:
			w.fail("%d is gone", n)
		case was == 'v' && is != 'v':
			w.fail("the void number %d is %c", n, is)
		case w.owner[n] != "" && is != 'i' && is != 'v':
			w.fail("%d of %s is %c", n, w.owner[n], is)
		case is == 'i' && n <= w.policy.Floor:
			w.fail("%d was issued by another strategy", n)
		}
	}
	w.told(s, class)
	w.class = class
}

// told checks that a write has the events of what it does (V1), with numbers without holes.
func (w *world) told(s *State, class map[int64]byte) {
	if !w.policy.Told || w.state == nil && s.Revision > 1 {
		return
	}
	last := int64(0)
	if w.state != nil {
		last = w.state.Events
	}
	var issued []Run
	for _, e := range s.Outbox {
		switch {
		case e.Rev != s.Revision:
		case e.Seq > 0:
			if e.Seq != last+1 {
				w.fail("the event %d follows %d: %s", e.Seq, last, e.text)
			}
			if last += e.events(); e.Kind == IssuedEntry {
				issued = append(issued, e.Runs...)
			}
		case e.Kind == VoidEntry || e.Kind == EndedEntry && e.End == Expired:
			w.fail("there is no event: %s", e.text)
		}
	}
	if last != s.Events {
		w.fail("the last event is %d, and %d are counted", last, s.Events)
	}
	for n, is := range class {
		if is == 'i' && w.class[n] != 'i' && !has(issued, n) && n > w.policy.Floor {
			w.fail("no event says that %d is issued", n)
		}
	}
}

// copied checks that all events are in batches or still in the outbox, the same in each.
func (w *world) copied() {
	known := make(map[int64]string)
	note := func(seq int64, events []persist.SourceEvent) {
		for _, e := range events {
			text := fmt.Sprint(e.Type, e.At, string(e.Data))
			if was := known[seq]; was != "" && was != text {
				w.fail("the event %d is %s and %s", seq, was, text)
			}
			known[seq] = text
			seq++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.docs)) {
		if d := w.docs[id]; d.Kind == persist.EventKind {
			b, err := persist.DecodeEventBatch(&d)
			if err != nil {
				w.fail("%w", err)
			}
			note(b.First, b.Events)
		}
	}
	if w.state == nil {
		return
	}
	for _, e := range w.state.Outbox {
		if e.Seq > 0 {
			note(e.Seq, e.sourceEvents(counter))
		}
	}
	for seq := range w.state.Events {
		if known[seq+1] == "" {
			w.fail("the event %d is lost", seq+1)
		}
	}
	if int64(len(known)) != w.state.Events {
		w.fail("%d events are known, and %d are counted", len(known), w.state.Events)
	}
}

// ends checks when reservations ended.
func (w *world) ends(s *State) {
	for _, e := range s.Outbox {
		if e.Kind != EndedEntry || e.Rev != s.Revision {
			continue
		}
		due := e.Made + e.TTL
		if e.Made < w.policy.Awake {
			due = max(due, w.policy.Awake+e.TTL)
		}
		if e.End == Expired && e.At < due || e.End == Confirmed && e.At >= due {
			w.fail("%s ended as %c at %d, due at %d", e.ID, e.End, e.At, due)
		}
	}
}

// order checks that nothing new goes out while a lower number is released (G4).
func (w *world) order(s *State) {
	if w.state == nil {
		return
	}
	fresh := slices.ContainsFunc(slices.Sorted(maps.Keys(w.class)), func(n int64) bool {
		return n > w.state.Last && w.class[n] != 'v'
	})
	for _, r := range w.state.Released {
		for n := r.From; fresh && n <= r.To; n++ {
			if w.class[n] == 'f' {
				w.fail("%d is still released, and %d to %d went out", n, w.state.Last+1, s.Last)
				return
			}
		}
	}
}

// The nodes.

// next collects what a node wants to be done, and what it has finished.
func (w *world) next(n *simNode) {
	commands, wake := n.m.Next(n.now, w.clock+n.offset)
	n.inflight = append(n.inflight, commands...)
	if len(commands) == 0 && len(n.inflight)+len(n.answers) == 0 && !wake.IsZero() {
		n.now = wake
	}
	for _, r := range n.m.Finished() {
		n.waiting = slices.DeleteFunc(n.waiting, func(have *Request) bool { return have == r })
		w.finished(n, r)
	}
	n.m.Expired()
}

// execute carries out a command, or loses it, or its answer.
func (w *world) execute(n *simNode, calm bool) {
	if len(n.inflight) == 0 {
		return
	}
	i := w.rng.IntN(len(n.inflight))
	c := n.inflight[i]
	n.inflight = slices.Delete(n.inflight, i, i+1)
	run := func() Outcome { return c.Execute(context.Background(), w, nil) }
	dice := w.rng.IntN(20)
	if calm {
		dice = 19
	}
	var out Outcome
	switch {
	case dice == 0:
		out = Outcome{Err: errLost}
	case dice == 1:
		run()
		out = Outcome{Err: errLost}
	case dice <= 3 && (c.Action == Write || c.Action == Keep):
		w.late = append(w.late, func() { run() })
		out = Outcome{Err: errDeadline}
	default:
		out = run()
	}
	n.answers = append(n.answers, answer{c, out})
}

func (w *world) answer(n *simNode) {
	if len(n.answers) == 0 {
		return
	}
	i := w.rng.IntN(len(n.answers))
	a := n.answers[i]
	n.answers = slices.Delete(n.answers, i, i+1)
	n.m.Done(n.now, w.clock+n.offset, &a.c, a.out)
	w.next(n)
}

// crash replaces a node. What it has sent may still come.
func (w *world) crash(i int) {
	n := w.nodes[i]
	w.lossy = true
	for _, c := range n.inflight {
		if w.rng.IntN(2) == 0 {
			w.late = append(w.late, func() { c.Execute(context.Background(), w, nil) })
		}
	}
	w.nodes[i] = w.newNode(Seen{})
}

func (w *world) submit(n *simNode, op Op) {
	a := &ask{last: w.highest}
	if w.state != nil {
		a.most = w.state.reserved
	}
	id := op.ID
	if was := w.once[op.Once]; op.Once != "" && was != nil {
		id = was.ID
		for _, run := range was.Runs {
			for n := run.From; n <= run.To; n++ {
				a.void = a.void || w.voided[n]
			}
		}
	}
	if r := w.open[id]; r != nil {
		a.ended = r.end
	}
	r := &Request{Op: op, Tag: a}
	n.waiting = append(n.waiting, r)
	n.m.Submit(r)
	w.next(n)
}

// finished remembers what a caller was told, and checks it.
func (w *world) finished(n *simNode, r *Request) {

	a := r.Tag.(*ask)
	if r.Err != nil {
		w.refused(r, a)
		return
	}
	for _, run := range r.Result.Runs {
		if w.state == nil || run.To > w.state.Last {
			w.fail("%v was told and is not durable", run)
		}
	}
	if a.gone {
		return
	}
	switch r.Op.Kind {
	case Issue:
		w.issued(n, r)
	case Reserve:
		w.reservedAs(r)
	case Find, Confirm, Release:
		w.settled(r, a)
	case Void:
		w.voided[r.Op.Number] = true
		if w.class[r.Op.Number] != 'v' {
			w.fail("%d is not void", r.Op.Number)
		}
	}
}

func (w *world) issued(n *simNode, r *Request) {
	name := r.Op.Once
	if name == "" {
		w.names++
		name = fmt.Sprintf("issue %d", w.names)
	} else if was := w.once[name]; was != nil {
		if !slices.Equal(was.Runs, r.Result.Runs) {
			w.fail("%s got %v and then %v", name, was.Runs, r.Result.Runs)
		}
		if r.Tag.(*ask).void {
			w.fail("%s is told %v again, of which a number is void", name, was.Runs)
		}
		return
	} else {
		w.once[name] = &r.Result
	}
	if r.Op.Once == "" && w.rng.IntN(4) == 0 { // nobody is told
		w.submit(n, Op{Kind: Return, Runs: r.Result.Runs, Since: r.Result.Since})
		return
	}
	w.own(r.Result.Runs, name)
}

func (w *world) own(runs []Run, name string) {
	for _, run := range runs {
		for n := run.From; n <= run.To; n++ {
			if w.owner[n] != "" && w.owner[n] != name {
				w.fail("%d belongs to %s and to %s", n, w.owner[n], name)
			}
			w.owner[n] = name
		}
	}
}

func (w *world) reservedAs(r *Request) {
	if once := r.Op.Once; once != "" {
		if was := w.once[once]; was != nil && was.ID != r.Result.ID {
			w.fail("%s got %s and then %s", once, was.ID, r.Result.ID)
		}
		if how := r.Tag.(*ask).ended; how != Open {
			w.fail("%s is told %s again, which ended as %c", once, r.Result.ID, how)
		}
		w.once[once] = &r.Result
	}
	if w.open[r.Result.ID] == nil {
		w.open[r.Result.ID] = &told{runs: r.Result.Runs, due: r.Result.Due}
	}
}

func (w *world) settled(r *Request, a *ask) {
	known := w.open[r.Op.ID]
	how := cmp.Or(map[Kind]End{Confirm: Confirmed, Release: Ungiven}[r.Op.Kind], r.Result.End)
	if r.Op.Kind == Release && r.Result.End == Expired {
		how = Expired
	}
	if known.end != Open && how != Open && known.end != how || a.ended != Open && how == Open {
		w.fail("%s ended as %c and then as %c", r.Op.ID, known.end, how)
	}
	if how == Open && r.Result.Due != known.due {
		w.fail("%s ends at %d and then at %d", r.Op.ID, known.due, r.Result.Due)
	}
	if how == Open {
		return
	}
	if known.end = how; how == Confirmed {
		w.own(r.Result.Runs, r.Op.ID)
	}
}

// refused checks why a caller was refused.
func (w *world) refused(r *Request, a *ask) {
	id := r.Op.ID
	if was := w.once[r.Op.Once]; r.Op.Once != "" && was != nil {
		id = was.ID
	}
	known := cmp.Or(w.open[id], new(told)) // nobody was told of the others
	switch code := seqd.CodeOf(r.Err); {
	case errors.Is(r.Err, errUnknown):
		w.lossy = true
	case code == seqd.CodeNumberVoid:
		w.lossy = w.lossy || w.once[r.Op.Once] == nil // nobody is told of the others
	case a.gone:
	case code == seqd.CodeReservationExpired || code == seqd.CodeReservationReleased || code == seqd.CodeReservationConfirmed:
		how := map[seqd.Code]End{seqd.CodeReservationExpired: Expired, seqd.CodeReservationReleased: Ungiven, seqd.CodeReservationConfirmed: Confirmed}[code]
		if known.end != Open && known.end != how {
			w.fail("%s ended as %c and then as %c", r.Op.ID, known.end, how)
		}
		known.end = how
	case code == seqd.CodeUnknownReservation:
		w.fail("%s is unknown", r.Op.ID)
	case code == seqd.CodeTooManyReserved:
		if a.most+r.Op.Count <= w.policy.MaxReserved {
			w.fail("%d and %d are too many", a.most, r.Op.Count)
		}
	case code == seqd.CodeInvalidID:
		if r.Op.Number >= w.policy.Start && r.Op.Number > w.policy.Floor && r.Op.Number <= a.last {
			w.fail("%d is said to be unknown", r.Op.Number)
		}
	case code == seqd.CodeInternal || code == seqd.CodeStoreFailedOver: // nothing fails over
		w.fail("%+v: %w", r.Op, r.Err)
	}
}
