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

// With an increment above 1 only some numbers are issued. The sources of a counter do not know
// that: they count in places, 1, 2, 3 and so on, and place j is the j-th of those numbers.
// What is outside them holds numbers, and is converted where they meet it: the store
// ([placeStore]), the cursor in Redis ([placeCursor]), and callers, metrics and knowledge ([Counter]).
// So a counter can be raised, read and compared with others without knowing its increment, and even
// if the increment is changed by force, no number leaves the store twice.
//
// n places are allocated as n·increment numbers next to each other: wherever they begin, exactly n
// of them are issued. Only the last places have fewer numbers, if there are no more up to
// MaxNumber. With increment 1 places are numbers, and nothing is converted.

// places converts between places and numbers.
type places struct {
	increment int64
	first     int64 // the number of place 1, from 1 to increment
}

// places returns how the numbers of a biz type are counted.
func (s *Settings) places() places {
	p := places{increment: max(1, s.Increment), first: s.Offset}
	if p.first == 0 {
		p.first = p.increment
	}
	return p
}

// all reports whether places are numbers.
func (p places) all() bool { return p.increment == 1 }

// number returns the number of a place. That of place 0 is 0 or less.
func (p places) number(place int64) int64 { return (place-1)*p.increment + p.first }

// upTo returns the highest place whose number is at most number, 0 for none.
func (p places) upTo(number int64) int64 {
	if number < p.first {
		return 0
	}
	return (number-p.first)/p.increment + 1
}

// from returns the lowest place whose number is at least number.
func (p places) from(number int64) int64 { return p.upTo(number-1) + 1 }

// last returns the highest place.
func (p places) last() int64 { return p.upTo(seqd.MaxNumber) }

// before returns the highest number below that of the next place. A counter that stands there has
// given away the place, and as many numbers as it can without giving away the next one.
func (p places) before(place int64) int64 { return min(p.number(place+1)-1, seqd.MaxNumber) }

// numbers returns how many numbers so many places take.
func (p places) numbers(n int64) int64 { return min(n, seqd.MaxNumber/p.increment+1) * p.increment }

// show makes numbers of runs of places. They have another stride then, so a sequence never joins the
// two.
func (p places) show(runs []seqd.Run) {
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

// inPlaces returns the settings for sources, which count in places.
func (s *Settings) inPlaces() *Settings {
	if s.places().all() {
		return s
	}
	counts := *s
	counts.Start = s.places().from(s.Start)
	return &counts
}

// store returns a store for sources, which count in places.
func (p places) store(of persist.Store) persist.Store {
	if p.all() {
		return of
	}
	return placeStore{of, p, &allocated{}}
}

// placeStore is a store whose counters are in places.
type placeStore struct {
	persist.Store
	places    places
	allocated *allocated
}

var _ persist.Lossy = placeStore{}

// allocated are the ranges that were allocated last, so that the cursor can get the same numbers,
// and the store gets them back. It is safe for concurrent use.
type allocated struct {
	mu     lockorder.Inner  // guards what follows
	ranges []allocatedRange // those for the cursor, the latest last
	latest allocatedRange   // the latest of all, with those right below it
}

// allocatedRange is a range of places, the lowest number that belongs to it, and how many numbers
// above that of its last place do.
type allocatedRange struct {
	persist.Range
	from, above int64
}

// numbers returns the numbers of places that are part of the range.
func (r allocatedRange) numbers(p places, of persist.Range) persist.Range {
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
// although no place is. Then the two differ in above.
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

// back returns the numbers of places that are the end of the latest range. ok is false for others.
func (a *allocated) back(p places, of persist.Range) (numbers persist.Range, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.latest.numbers(p, of), a.latest.First <= of.First && of.Last == a.latest.Last
}

// shrink notes that the latest range ends with a place now.
func (a *allocated) shrink(last int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.latest.Last = last
}

// find returns the numbers of places that were allocated together. If that was long ago, these are
// all but those before the first and behind the last place.
func (a *allocated) find(p places, of persist.Range) persist.Range {
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
func (s placeStore) Counters() persist.Counters {
	return placeCounters{s.Store.Counters(), s.places, s.allocated}
}

// Lossy implements [persist.Lossy].
func (s placeStore) Lossy() bool { return lossy(s.Store) }

// placeCounters are counters in places. The step of a counter is in places in the store too: it is
// how many numbers are issued of a range.
type placeCounters struct {
	persist.Counters
	places    places
	allocated *allocated
}

// Create implements [persist.Counters].
func (c placeCounters) Create(ctx context.Context, counter persist.Counter) error {
	last := counter.Max
	counter.Max = c.places.before(last)
	err := c.Counters.Create(ctx, counter)
	if err == nil && last > 0 {
		given := allocatedRange{persist.Range{First: 1, Last: last}, 1, counter.Max - c.places.number(last)}
		c.allocated.follow(given)
		if counter.Epoch != "" { // it is created with numbers for a cursor
			c.allocated.add(given)
		}
	}
	return err
}

// Read implements [persist.Counters].
func (c placeCounters) Read(ctx context.Context, bizTag string) (persist.Counter, error) {
	counter, err := c.Counters.Read(ctx, bizTag)
	counter.Max = c.places.upTo(counter.Max)
	return counter, err
}

// List implements [persist.Counters].
func (c placeCounters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	list, err := c.Counters.List(ctx, after, limit)
	for i := range list {
		list[i].Max = c.places.upTo(list[i].Max)
	}
	return list, err
}

// Allocate implements [persist.Counters].
func (c placeCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if req.Size > c.places.last() {
		return persist.Range{}, fmt.Errorf("%w: %s has no %d numbers", persist.ErrExhausted, req.BizTag, req.Size)
	}
	r, err := c.Counters.Allocate(ctx, c.places.request(req))
	end := errors.Is(err, persist.ErrExhausted)
	if end {
		r, err = c.allocateEnd(ctx, req, err)
	}
	if err != nil {
		return persist.Range{}, err
	}
	in := c.places.rangeOf(r)
	given := allocatedRange{in, r.First, r.Last - c.places.number(in.Last)}
	if !end { // what is followed has all numbers of each place: the last ones are not given back
		c.allocated.follow(given)
	}
	if req.To.Epoch() != "" {
		c.allocated.add(given)
	}
	return in, nil
}

// allocateEnd allocates all places that are left, if that is how many are asked for: they have all
// numbers up to MaxNumber. none is returned otherwise, and if the counter moves meanwhile.
func (c placeCounters) allocateEnd(ctx context.Context, req persist.Request, none error) (persist.Range, error) {
	counter, err := c.Counters.Read(ctx, req.BizTag)
	if err != nil {
		return persist.Range{}, none
	}
	look := c.places.request(req)
	look.Size, look.To = 0, persist.Beside
	after, _, err := counter.Allocated(look, 0)
	if err != nil || c.places.last()-c.places.upTo(after.Max) != req.Size {
		return persist.Range{}, none
	}
	rest := c.places.request(req)
	rest.Size = seqd.MaxNumber - after.Max
	r, err := c.Counters.Allocate(ctx, rest)
	if err == nil && r.Last != seqd.MaxNumber { // numbers came back meanwhile: these are skipped
		err = none
	}
	return r, err
}

// GiveBack implements [persist.Counters]. The store compares the numbers that were allocated: if it
// compared places, numbers of another increment that lie above the last place would come back too.
func (c placeCounters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	back, ok := c.allocated.back(c.places, r)
	if !ok {
		return false, nil
	}
	given, err := c.Counters.GiveBack(ctx, bizTag, back)
	if given {
		c.allocated.shrink(r.First - 1)
	}
	return given, err
}

// request converts what is asked of the store. The floor is the number of a place, which is not
// above the counter if the place has left the store: otherwise it would look restored.
func (p places) request(req persist.Request) persist.Request {
	req.Size = min(p.numbers(req.Size), seqd.MaxNumber)
	req.Floor = min(max(0, p.number(req.Floor)), seqd.MaxNumber)
	req.Gap = min(p.numbers(req.Gap), seqd.MaxNumber)
	req.FailoverGap = min(p.numbers(req.FailoverGap), seqd.MaxNumber)
	req.FailoverSteps = min(p.numbers(req.FailoverSteps), seqd.MaxNumber) // of steps in places
	return req
}

// rangeOf returns the places in a range of numbers.
func (p places) rangeOf(r persist.Range) persist.Range {
	return persist.Range{First: p.from(r.First), Last: p.upTo(r.Last)}
}

// begins returns the place above which the store would allocate the range of a request now.
func (p places) begins(counter persist.Counter, req persist.Request) int64 {
	req.Size, req.To = 0, persist.Beside
	counter.Max = p.before(counter.Max)
	if after, _, err := counter.Allocated(p.request(req), 0); err == nil {
		counter = after // otherwise Allocate will say why
	}
	return p.upTo(counter.Max)
}

// cursor returns a cursor for sources, which count in places.
func (o *origin) cursor(of sharedCursor) sharedCursor {
	if store, ok := o.env.Store.(placeStore); ok {
		return placeCursor{of, store.places, store.allocated}
	}
	return of
}

// placeCursor is a cursor in places. The hash in Redis holds the numbers that were allocated, so
// none is above the store's maximum, and other increments can take them. Takes and ranges are
// multiples of the increment, so a take of n places brings exactly n.
type placeCursor struct {
	sharedCursor
	places    places
	allocated *allocated
}

// Take implements [sharedCursor].
func (c placeCursor) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	wanted := t.Count
	t.Count = c.places.numbers(wanted)
	taken, err := c.sharedCursor.Take(ctx, t)
	if err != nil {
		return taken, err
	}
	taken.Ceil = c.places.upTo(taken.Ceil)
	if taken.Next > 0 {
		taken.Next = c.places.from(taken.Next)
	}
	// Rounded up: what ranges of another increment have left must be taken, or it would stay for
	// ever.
	taken.Hand = (taken.Hand + c.places.increment - 1) / c.places.increment
	var runs []persist.Range
	for _, r := range taken.Runs {
		// There are more or fewer than were wanted if ranges of another increment were in the
		// cursor.
		if r = c.places.rangeOf(r); r.Size() > wanted {
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
func (c placeCursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	if err := in.Range.Validate(); err != nil {
		return rediscursor.Answer{}, err
	}
	in.Range = c.allocated.find(c.places, in.Range)
	answer, err := c.sharedCursor.Install(ctx, in)
	answer.Ceil = c.places.upTo(answer.Ceil)
	return answer, err
}

// args returns the arguments of a log line with numbers instead of places.
func (p places) args(args []any) []any {
	if p.all() {
		return args
	}
	shown := make([]any, len(args))
	for i, value := range args {
		shown[i] = value
		if i%2 == 1 && (args[i-1] == "first" || args[i-1] == "last" || args[i-1] == "above") {
			if place, ok := value.(int64); ok {
				shown[i] = p.number(place)
			}
		}
	}
	return shown
}
