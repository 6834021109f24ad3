package cursor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

var (
	errDown    = errors.New("connection refused")
	errUnknown = errors.New("the answer was lost")
)

// began is when every test begins.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world is one machine with a Redis, a store and a local buffer. Nothing in it happens by itself.
type world struct {
	t       testing.TB
	m       *Machine
	now     time.Time
	waiting []Command // with a Task, in the order in which they came
	events  []seqd.Event
	wakes   int
	resumes int

	redis redis
	store store
	local local
	slow  *slowTake // nil while no take for callers is under way
	// offered is where each range went that the store gave, by its first number (invariant U2).
	offered map[int64]string
	highest int64 // that was issued
	mode    Mode  // at the last check
	changes map[[2]Mode]int
	tell    func(format string, args ...any) // what happens, for a scenario
}

// allowed are the changes of the mode, see Machine.enter.
var allowed = map[Mode][]Mode{
	Online:  {Online, Mending, Closing},
	Mending: {Mending, Online, Alone, Closing},
	Alone:   {Alone, Mending, Closing},
	Closing: {Closing},
}

// redis holds one cursor, without a queue.
type redis struct {
	down, takesDown bool
	elsewhere       bool  // installs reach another server, which has another cursor
	err             error // of every take
	gen, ceil       int64
	epoch, replaced string // no epoch: a stub
	cur, last       int64
	low             rediscursor.Low
	room            int // for further ranges, as an install is told
}

// store holds one counter.
type store struct {
	down  bool
	err   error // of every allocation
	max   int64
	epoch string
}

// local is the local buffer; the zero value is closed.
type local struct {
	open        bool
	ranges      []persist.Range
	issued, top int64
}

func newWorld(t testing.TB, change func(*Config)) *world {
	epochs := 0
	cfg := Config{Start: 1, Threshold: 0.2, Degrade: true, Step: 10, MaxStep: 10, Patience: 2 * time.Second}
	cfg.NewEpoch = func() string { epochs++; return fmt.Sprintf("epoch %d", epochs) }
	if change != nil {
		change(&cfg)
	}
	w := &world{t: t, m: New(cfg), now: began, offered: map[int64]string{}, changes: map[[2]Mode]int{}, tell: func(string, ...any) {}}
	w.store.max = cfg.Start - 1
	w.m.Began(w.now, w.now, "")
	return w
}

// fetch takes the machine's commands.
func (w *world) fetch() {
	for _, c := range w.m.Commands() {
		switch c := c.(type) {
		case Event:
			w.tell("event: %s %d %s", c.Kind, c.Numbers, because(c.Err))
			w.events = append(w.events, c.Event)
		case Wake:
			w.tell("callers look again")
			w.wakes++
		case Resume:
			w.tell("the take that waits may be sent")
			w.resumes++
		case Log:
			w.tell("log: %s", c.Text)
		case StoreAnswers:
			w.tell("the store answers")
			w.m.Store(w.now, nil)
		case Yield:
			w.tell("the store sequences the counter")
		case OpenLocal:
			w.tell("the local buffer opens with %v, above %d", c.Ranges, c.Floor)
			w.local = local{open: true, ranges: c.Ranges, top: c.Floor}
			for _, r := range c.Ranges {
				w.offer(r, "the local buffer")
				w.local.top = max(w.local.top, r.Last)
			}
		default:
			w.waiting = append(w.waiting, c)
		}
	}
	w.check()
}

// offer notes where a range goes, which it may do once.
func (w *world) offer(r persist.Range, to string) {
	w.t.Helper()
	if before, twice := w.offered[r.First]; twice {
		w.t.Errorf("%v goes to %s after it went to %s", r, to, before)
	}
	w.offered[r.First] = to
}

// check checks what always holds.
func (w *world) check() {
	w.t.Helper()
	perTask := map[Task]int{}
	for _, c := range w.waiting {
		perTask[taskOf(c)]++
	}
	for task, n := range perTask {
		if n > 1 {
			w.t.Fatalf("%s has %d commands under way", task, n)
		}
	}
	next := w.m.Mode()
	if !slices.Contains(allowed[w.mode], next) {
		w.t.Errorf("the mode changes from %s to %s", w.mode, next)
	}
	w.changes[[2]Mode{w.mode, next}]++
	w.mode = next
	if len(w.m.running) == 0 && w.m.running != nil {
		w.t.Error("an idle machine takes room for its tasks")
	}
	due := w.m.Deadline()
	if w.mode == Closing && !due.IsZero() {
		w.t.Errorf("closing, and Tick is due at %v", due)
	}
	if (w.mode == Mending || w.mode == Alone) && len(w.waiting) == 0 && due.IsZero() {
		w.t.Errorf("%s, and nothing is under way", w.mode)
	}
	if w.slow != nil && (w.mode == Mending || w.mode == Alone) {
		w.t.Errorf("%s, and a take is under way", w.mode)
	}
}

// taskOf returns whose command it is.
func taskOf(c Command) Task {
	switch c := c.(type) {
	case Take:
		return c.Task
	case Install:
		return c.Task
	case Allocate:
		return c.Task
	case Question:
		return c.Task
	case ReadStore:
		return c.Task
	case CloseLocal:
		return Comeback
	}
	panic(fmt.Sprintf("%T", c))
}

// outcome is how a command ends.
type outcome int

const (
	well  outcome = iota // it is done
	never                // it is not done, and fails
	lost                 // it is done, and fails
)

// next returns the first command under way that is for one of some tasks, all for none, or -1.
func (w *world) next(only ...Task) int {
	return slices.IndexFunc(w.waiting, func(c Command) bool { return len(only) == 0 || slices.Contains(only, taskOf(c)) })
}

// settle executes the commands of some tasks, all for none, and what follows, until none is left.
func (w *world) settle(only ...Task) {
	w.t.Helper()
	w.fetch()
	for n := 0; w.next(only...) >= 0; n++ {
		if n > 1000 {
			w.t.Fatal("the machine does not come to rest")
		}
		w.do(w.next(only...), well)
	}
}

// do executes a command.
func (w *world) do(i int, how outcome) {
	w.t.Helper()
	c := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	w.m.Local(w.local.issued, w.local.top)
	switch c := c.(type) {
	case Take:
		taken, err := w.take(c.Take, how)
		w.tell("%s: %s", describe(c), seen(taken, err))
		w.m.Looked(w.now, c.Task, taken, err)
	case Install:
		w.offer(c.Install.Range, "the cursor")
		answer, err := w.install(c.Install, how)
		w.tell("%s: %s", describe(c), cmp.Or(because(err), string(answer.Verdict)))
		w.m.Installed(w.now, c.Task, answer, err)
	case Allocate:
		r, err := w.allocate(c, how)
		w.tell("%s: %s", describe(c), cmp.Or(because(err), text(r)))
		w.m.Allocated(w.now, c.Task, r, err)
	case Question:
		if err := w.storeErr(how); err != nil {
			w.tell("%s: %v", describe(c), err)
			w.m.Asked(w.now, c.Task, "", err)
		} else {
			w.tell("%s: %s", describe(c), w.store.epoch)
			w.m.Asked(w.now, c.Task, w.store.epoch, nil)
		}
	case ReadStore:
		err := w.storeErr(how)
		w.tell("%s: %s", describe(c), cmp.Or(because(err), "it answers"))
		w.m.Read(w.now, c.Task, err)
	case CloseLocal:
		w.tell("the local buffer closes; callers took up to %d out of it", w.local.issued)
		w.local.open, w.local.ranges = false, nil
		w.m.Closed(w.now, w.local.issued, w.local.top)
		w.local = local{}
	}
	w.fetch()
}

func (w *world) storeErr(how outcome) error {
	if how != well || w.store.down {
		return errDown
	}
	return nil
}

// take is the take script.
func (w *world) take(t rediscursor.Take, how outcome) (taken rediscursor.Taken, err error) {
	r := &w.redis
	if how == never || r.down || r.takesDown && t.Count > 0 {
		return taken, errDown
	}
	if r.err != nil {
		return taken, r.err
	}
	if how == lost {
		defer func() { taken, err = rediscursor.Taken{}, errUnknown }()
	}
	taken.Gen, taken.Ceil, taken.Epoch = fmt.Sprint(r.gen), r.ceil, r.epoch
	switch {
	case r.epoch == "":
		taken.Stub, taken.Low = true, cmp.Or(r.low, rediscursor.WantsRefill)
		return taken, nil
	case r.epoch != t.Epoch:
		taken.Other, taken.Replaced = true, r.replaced
		return taken, nil
	}
	if n := min(t.Count, r.last-r.cur); n > 0 {
		taken.Runs = []persist.Range{{First: r.cur + 1, Last: r.cur + n}}
		r.cur += n
		t.Count -= n
	}
	taken.Hand = r.last - r.cur
	if taken.Hand > 0 {
		taken.Next = r.cur + 1
	} else {
		taken.Free, taken.Low = 1, rediscursor.WantsRefill // also if it is claimed
	}
	if r.low != 0 {
		taken.Low = r.low
	}
	if taken.Low == rediscursor.WantsRefill {
		taken.Free = 1
	}
	return taken, nil
}

// install is the install script. What is appended to a cursor that is used up begins it.
func (w *world) install(in rediscursor.Install, how outcome) (answer rediscursor.Answer, err error) {
	r := &w.redis
	if how == never || r.down {
		return answer, errDown
	}
	if how == lost {
		defer func() { answer, err = rediscursor.Answer{}, errUnknown }()
	}
	switch {
	case r.elsewhere || in.Gen != fmt.Sprint(r.gen) || (in.Mode == rediscursor.Seed) == (in.Epoch == r.epoch):
		return rediscursor.Answer{Verdict: rediscursor.Moved}, nil
	case in.Range.First <= r.ceil:
		return rediscursor.Answer{Verdict: rediscursor.Stale, Ceil: r.ceil}, nil
	case in.Mode == rediscursor.Append && r.cur < r.last:
		return rediscursor.Answer{Verdict: rediscursor.Full}, nil
	case in.Mode == rediscursor.Seed:
		r.replaced = in.Replaced
	}
	if in.Mode != rediscursor.Append {
		r.gen++
	}
	r.epoch, r.ceil, r.cur, r.last = in.Epoch, in.Range.Last, in.Range.First-1, in.Range.Last
	return rediscursor.Answer{Verdict: rediscursor.Installed, Gen: fmt.Sprint(r.gen), Free: r.room}, nil
}

// allocate takes a range from the store.
func (w *world) allocate(c Allocate, how outcome) (persist.Range, error) {
	if how == never || w.store.down {
		w.m.Store(w.now, errDown)
		return persist.Range{}, errDown
	}
	if w.store.err != nil {
		return persist.Range{}, w.store.err
	}
	believed, isCursor := c.To.Cursor()
	if isCursor && believed != w.store.epoch {
		return persist.Range{}, persist.ErrEpoch
	}
	size := max(w.m.cfg.Step, c.Want)
	if c.Why == Standing {
		size = c.Want
	}
	r := persist.Range{First: max(w.store.max, c.Floor) + 1}
	r.Last = r.First + size - 1
	w.store.max = r.Last
	if !c.To.Keeps() {
		w.store.epoch = c.To.Epoch()
	}
	if how == lost {
		w.m.Store(w.now, errUnknown)
		return persist.Range{}, errUnknown
	}
	w.m.Store(w.now, nil)
	return r, nil
}

// lose makes Redis forget everything.
func (w *world) lose() { w.redis = redis{gen: w.redis.gen + 1} }

// pass lets time pass, with what becomes due, and executes the commands of some tasks, all for
// none.
func (w *world) pass(d time.Duration, only ...Task) {
	w.t.Helper()
	for end := w.now.Add(d); ; {
		w.settle(only...)
		due := w.m.Deadline()
		if due.IsZero() || due.After(end) {
			w.now = end
			return
		}
		w.tell("%v later", due.Sub(w.now))
		w.now = due
		w.m.Tick(w.now)
	}
}

// issue takes what one caller wants and waits for what is missing, for d at most. It returns the
// last number, 0 if not all came.
func (w *world) issue(n int64, d time.Duration) int64 {
	w.t.Helper()
	for end := w.now.Add(d); n > 0; {
		switch w.m.Mode() {
		case Online:
			n -= w.takeOnce(n)
			w.settle()
			if w.m.Mode() == Online {
				continue
			}
		case Alone:
			n -= w.takeLocal(n)
			continue
		case Closing:
			return 0
		}
		if !w.now.Before(end) || w.m.Refusal() != nil {
			return 0
		}
		w.m.Waiting(n)
		w.pass(10 * time.Millisecond)
		w.m.Gone(n)
	}
	return w.highest
}

// takeOnce sends a take and returns how many numbers it brought.
func (w *world) takeOnce(n int64) int64 {
	w.t.Helper()
	sent := w.now
	take, wait := w.m.Send(sent, n)
	for wait {
		resumes := w.resumes
		w.fetch()
		for w.resumes == resumes {
			w.pass(10 * time.Millisecond)
		}
		sent = w.now
		take, wait = w.m.Send(sent, n)
	}
	taken, err := w.take(take, well)
	w.tell("%s: %s", describe(Take{Take: take}), seen(taken, err))
	out := w.m.Took(w.now, sent, n, taken, err)
	w.fetch()
	for _, r := range out.Runs {
		w.issued(r)
	}
	return out.Brought
}

// issued checks that numbers are above all that were issued.
func (w *world) issued(r persist.Range) {
	w.t.Helper()
	if r.First <= w.highest {
		w.t.Errorf("%v was issued after %d", r, w.highest)
	}
	w.highest = r.Last
	w.tell("callers get %s", text(r))
}

// takeLocal takes from the local buffer.
func (w *world) takeLocal(n int64) int64 {
	l := &w.local
	if len(l.ranges) == 0 {
		r := persist.Range{First: max(w.store.max, l.top) + 1}
		r.Last = r.First + w.m.cfg.Step - 1
		w.store.max, l.top, l.ranges = r.Last, r.Last, []persist.Range{r}
	}
	r := &l.ranges[0]
	got := persist.Range{First: r.First, Last: min(r.Last, r.First+n-1)}
	w.issued(got)
	l.issued = got.Last
	if r.First = got.Last + 1; r.First > r.Last {
		l.ranges = l.ranges[1:]
	}
	return got.Size()
}

// count returns how many events of a kind there were.
func (w *world) count(kind seqd.EventKind) (n int) {
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// is checks the mode.
func (w *world) is(mode Mode) {
	w.t.Helper()
	if got := w.m.Mode(); got != mode {
		w.t.Fatalf("the mode is %s, not %s", got, mode)
	}
}
