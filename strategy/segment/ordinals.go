package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// With an increment above 1 only some numbers are issued. Ordinal j is the j-th of them. The
// sources of a counter know only ordinals: 1, 2, 3 and so on. Everything outside a source holds
// numbers, and three types convert: [ordinalStore] for the store, [ordinalCursor] for the cursor in
// Redis, and [Counter] for callers, metrics and knowledge.
//
// So a counter can be raised, read and compared with others without knowing its increment, and even
// if the increment is changed by force, no number leaves the store twice.
//
// n ordinals are allocated as n·increment numbers next to each other: wherever they begin, exactly
// n of them are issued. Only the last ordinals have fewer numbers, if there are no more up to
// MaxNumber. With increment 1 ordinals are numbers, and nothing is converted.

// ordinals converts between ordinals and numbers.
type ordinals struct {
	increment int64
	first     int64 // the number of ordinal 1, from 1 to increment
}

// ordinals returns how the numbers of a biz type are counted.
func (s *Settings) ordinals() ordinals {
	p := ordinals{increment: max(1, s.Increment), first: s.Offset}
	if p.first == 0 {
		p.first = p.increment
	}
	return p
}

// all reports whether ordinals are numbers.
func (p ordinals) all() bool { return p.increment == 1 }

// number returns the number of an ordinal. That of ordinal 0 is 0 or less.
func (p ordinals) number(ordinal int64) int64 { return (ordinal-1)*p.increment + p.first }

// upTo returns the highest ordinal whose number is at most number, 0 for none.
func (p ordinals) upTo(number int64) int64 {
	if number < p.first {
		return 0
	}
	return (number-p.first)/p.increment + 1
}

// from returns the lowest ordinal whose number is at least number.
func (p ordinals) from(number int64) int64 { return p.upTo(number-1) + 1 }

// last returns the highest ordinal.
func (p ordinals) last() int64 { return p.upTo(seqd.MaxNumber) }

// before returns the highest number below that of the next ordinal. A counter that stands there has
// given away the ordinal, and as many numbers as it can without giving away the next one.
func (p ordinals) before(ordinal int64) int64 { return min(p.number(ordinal+1)-1, seqd.MaxNumber) }

// numbers returns how many numbers so many ordinals take.
func (p ordinals) numbers(n int64) int64 { return min(n, seqd.MaxNumber/p.increment+1) * p.increment }

// show makes numbers of runs of ordinals. They have another stride then, so a sequence never joins
// the two.
func (p ordinals) show(runs []seqd.Run) {
	if p.all() {
		return
	}
	for i := range runs {
		runs[i].First, runs[i].Stride = p.number(runs[i].First), p.increment
	}
}

// known converts what is known of a counter, each number with convert.
func (k known) convert(convert func(int64) int64) known {
	for _, n := range []*int64{&k.issued, &k.alone, &k.ceil, &k.beside} {
		if *n > 0 {
			*n = convert(*n)
		}
	}
	return k
}

// inOrdinals returns the settings for sources, which count in ordinals.
func (s *Settings) inOrdinals() *Settings {
	if s.ordinals().all() {
		return s
	}
	counts := *s
	counts.Start = s.ordinals().from(s.Start)
	return &counts
}

// store returns a store for sources, which count in ordinals.
func (p ordinals) store(of persist.Store) persist.Store {
	if p.all() {
		return of
	}
	return ordinalStore{of, p, &allocated{}}
}

// ordinalStore is a store whose counters are in ordinals.
type ordinalStore struct {
	persist.Store
	ordinals  ordinals
	allocated *allocated
}

// allocated are the ranges that were allocated last, so that the cursor can get the same numbers,
// and the store gets them back. It is safe for concurrent use.
type allocated struct {
	mu     lockorder.Inner  // guards what follows
	ranges []allocatedRange // those for the cursor, the latest last
	latest allocatedRange   // the latest of all, with those right below it
}

// allocatedRange is a range of ordinals, the lowest number that belongs to it, and how many numbers
// above that of its last ordinal do.
type allocatedRange struct {
	persist.Range
	from, above int64
}

// numbers returns the numbers of ordinals that are part of the range.
func (r allocatedRange) numbers(p ordinals, of persist.Range) persist.Range {
	return persist.Range{First: max(r.from, p.number(of.First-1)+r.above+1), Last: p.number(of.Last) + r.above}
}

// mostAllocated is how many ranges are remembered for the cursor. A range goes to the cursor soon,
// if ever.
const mostAllocated = 32

// add notes a range for the cursor.
func (a *allocated) add(r allocatedRange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ranges) == mostAllocated {
		a.ranges = slices.Delete(a.ranges, 0, 1)
	}
	a.ranges = append(a.ranges, r)
}

// follow notes a range as the latest. Numbers of another increment may be between two ranges,
// although no ordinal is. Then the two differ in above.
func (a *allocated) follow(r allocatedRange) {
	if r.Size() <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.First != a.latest.Last+1 || r.above != a.latest.above {
		a.latest = r
	}
	a.latest.Last = r.Last
}

// back returns the numbers of ordinals that are the end of the latest range. ok is false for other
// ordinals.
func (a *allocated) back(p ordinals, of persist.Range) (numbers persist.Range, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest.numbers(p, of), a.latest.First <= of.First && of.Last == a.latest.Last
}

// shrink notes that the latest range ends with an ordinal now.
func (a *allocated) shrink(last int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latest.Last = last
}

// find returns the numbers of ordinals that were allocated together. If that was long ago, it
// returns only the numbers from the first to the last ordinal.
func (a *allocated) find(p ordinals, of persist.Range) persist.Range {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.ranges {
		if r.First <= of.First && of.Last <= r.Last {
			return r.numbers(p, of)
		}
	}
	return persist.Range{First: p.number(of.First), Last: p.number(of.Last)}
}

// Counters implements [persist.Store].
func (s ordinalStore) Counters() persist.Counters {
	return ordinalCounters{s.Store.Counters(), s.ordinals, s.allocated}
}

// ordinalCounters are counters in ordinals. The step of a counter is in ordinals in the store too:
// it is how many numbers are issued of a range.
type ordinalCounters struct {
	persist.Counters
	ordinals  ordinals
	allocated *allocated
}

// Create implements [persist.Counters].
func (c ordinalCounters) Create(ctx context.Context, counter persist.Counter) error {
	last := counter.Max
	counter.Max = c.ordinals.before(last)
	err := c.Counters.Create(ctx, counter)
	if err == nil && last > 0 {
		given := allocatedRange{persist.Range{First: 1, Last: last}, 1, counter.Max - c.ordinals.number(last)}
		c.allocated.follow(given)
		if counter.Epoch != "" { // it is created with numbers for a cursor
			c.allocated.add(given)
		}
	}
	return err
}

// Read implements [persist.Counters].
func (c ordinalCounters) Read(ctx context.Context, bizTag string) (persist.Counter, error) {
	counter, err := c.Counters.Read(ctx, bizTag)
	counter.Max = c.ordinals.upTo(counter.Max)
	return counter, err
}

// List implements [persist.Counters].
func (c ordinalCounters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	list, err := c.Counters.List(ctx, after, limit)
	for i := range list {
		list[i].Max = c.ordinals.upTo(list[i].Max)
	}
	return list, err
}

// Allocate implements [persist.Counters].
func (c ordinalCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if req.Size > c.ordinals.last() {
		return persist.Range{}, fmt.Errorf("%w: %s has no %d numbers", persist.ErrExhausted, req.BizTag, req.Size)
	}
	r, err := c.Counters.Allocate(ctx, c.ordinals.request(req))
	end := errors.Is(err, persist.ErrExhausted)
	if end {
		r, err = c.allocateEnd(ctx, req, err)
	}
	if err != nil {
		return persist.Range{}, err
	}
	in := c.ordinals.rangeOf(r)
	given := allocatedRange{in, r.First, r.Last - c.ordinals.number(in.Last)}
	if !end { // what is followed has all numbers of each ordinal: the last ones are not given back
		c.allocated.follow(given)
	}
	if req.To.Epoch() != "" {
		c.allocated.add(given)
	}
	return in, nil
}

// allocateEnd allocates all ordinals that are left, if that is how many are asked for. They have
// all numbers up to MaxNumber. none is returned otherwise, and if the counter moves meanwhile.
func (c ordinalCounters) allocateEnd(ctx context.Context, req persist.Request, none error) (persist.Range, error) {
	counter, err := c.Counters.Read(ctx, req.BizTag)
	if err != nil {
		return persist.Range{}, none
	}
	look := c.ordinals.request(req)
	look.Size, look.To = 0, persist.Beside
	after, _, err := counter.Allocated(look, 0)
	if err != nil || c.ordinals.last()-c.ordinals.upTo(after.Max) != req.Size {
		return persist.Range{}, none
	}
	rest := c.ordinals.request(req)
	rest.Size = seqd.MaxNumber - after.Max
	r, err := c.Counters.Allocate(ctx, rest)
	if err == nil && r.Last != seqd.MaxNumber { // numbers came back meanwhile: these are skipped
		err = none
	}
	return r, err
}

// GiveBack implements [persist.Counters]. The store compares the numbers that were allocated: if it
// compared ordinals, numbers of another increment above the last ordinal would come back too.
func (c ordinalCounters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	back, ok := c.allocated.back(c.ordinals, r)
	if !ok {
		return false, nil
	}
	given, err := c.Counters.GiveBack(ctx, bizTag, back)
	if given {
		c.allocated.shrink(r.First - 1)
	}
	return given, err
}

// request converts what is asked of the store. The floor is the number of an ordinal, which is not
// above the counter if the ordinal has left the store: otherwise it would look restored.
func (p ordinals) request(req persist.Request) persist.Request {
	req.Size = min(p.numbers(req.Size), seqd.MaxNumber)
	req.Floor = min(max(0, p.number(req.Floor)), seqd.MaxNumber)
	req.Gap = min(p.numbers(req.Gap), seqd.MaxNumber)
	req.FailoverGap = min(p.numbers(req.FailoverGap), seqd.MaxNumber)
	req.FailoverSteps = min(p.numbers(req.FailoverSteps), seqd.MaxNumber) // of steps in ordinals
	return req
}

// rangeOf returns the ordinals in a range of numbers.
func (p ordinals) rangeOf(r persist.Range) persist.Range {
	return persist.Range{First: p.from(r.First), Last: p.upTo(r.Last)}
}

// begins returns the ordinal above which the store would allocate the range of a request now.
func (p ordinals) begins(counter persist.Counter, req persist.Request) int64 {
	req.Size, req.To = 0, persist.Beside
	counter.Max = p.before(counter.Max)
	if after, _, err := counter.Allocated(p.request(req), 0); err == nil {
		counter = after // otherwise Allocate will say why
	}
	return p.upTo(counter.Max)
}

// cursor returns a cursor for sources, which count in ordinals.
func (o *origin) cursor(of sharedCursor) sharedCursor {
	if store, ok := o.env.Store.(ordinalStore); ok {
		return ordinalCursor{of, store.ordinals, store.allocated}
	}
	return of
}

// ordinalCursor is a cursor in ordinals. The hash in Redis holds the numbers that were allocated,
// so none is above the store's maximum, and other increments can take them. Takes and ranges are
// multiples of the increment, so a take of n ordinals brings exactly n.
type ordinalCursor struct {
	sharedCursor
	ordinals  ordinals
	allocated *allocated
}

// Take implements [sharedCursor].
func (c ordinalCursor) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	wanted := t.Count
	t.Count = c.ordinals.numbers(wanted)
	taken, err := c.sharedCursor.Take(ctx, t)
	if err != nil {
		return taken, err
	}
	taken.Ceil = c.ordinals.upTo(taken.Ceil)
	if taken.Next > 0 {
		taken.Next = c.ordinals.from(taken.Next)
	}
	// Rounded up: what ranges of another increment have left must be taken, or it would stay for
	// ever.
	taken.Hand = (taken.Hand + c.ordinals.increment - 1) / c.ordinals.increment
	var runs []persist.Range
	for _, r := range taken.Runs {
		// There are more or fewer than were wanted if ranges of another increment were in the
		// cursor.
		if r = c.ordinals.rangeOf(r); r.Size() > wanted {
			r.Last = r.First + wanted - 1
		}
		if r.Size() > 0 {
			runs, wanted = append(runs, r), wanted-r.Size()
		}
	}
	taken.Runs = runs
	return taken, nil
}

// Install implements [sharedCursor].
func (c ordinalCursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	if err := in.Range.Validate(); err != nil {
		return rediscursor.Answer{}, err
	}
	in.Range = c.allocated.find(c.ordinals, in.Range)
	answer, err := c.sharedCursor.Install(ctx, in)
	answer.Ceil = c.ordinals.upTo(answer.Ceil)
	return answer, err
}

// args returns the arguments of a log line with numbers instead of ordinals.
func (p ordinals) args(args []any) []any {
	if p.all() {
		return args
	}
	shown := make([]any, len(args))
	for i, value := range args {
		shown[i] = value
		if i%2 == 1 && (args[i-1] == "first" || args[i-1] == "last" || args[i-1] == "above") {
			if ordinal, ok := value.(int64); ok {
				shown[i] = p.number(ordinal)
			}
		}
	}
	return shown
}
