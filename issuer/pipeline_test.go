package issuer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// supply is a strategy with so many numbers left. After each run of some numbers it skips one.
type supply struct {
	counting
	left, run int
	made      []int // what it was asked for
	lost      int   // while it looked for a run
}

func (s *supply) GenerateSome(_ context.Context, n int, seq *seqd.Sequence) error {
	if n < 1 {
		panic("no numbers are wanted")
	}
	s.made = append(s.made, n)
	for range min(n, s.left) {
		number := s.last.Add(1)
		if s.run > 0 && number%int64(s.run+1) == 0 {
			number = s.last.Add(1)
		}
		s.left--
		seq.Add(number, 1, 1)
	}
	if seq.Len() < n {
		return seqd.Errorf(seqd.CodeExhausted, "no more")
	}
	return nil
}

func (s *supply) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.GenerateSome(ctx, n, seq)
}

func (s *supply) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	for {
		err := s.GenerateSome(ctx, n, seq)
		if err == nil && seq.Consecutive() {
			return nil
		}
		s.lost += seq.Len()
		if seq.Reset(); err != nil {
			return err
		}
	}
}

func (s *supply) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	if n == 0 {
		n = 7
	}
	first := s.last.Add(n) - n + 1
	seq.Add(first, int(n), 1)
	return nil
}

// limited is a supply that gives one call at most 10 numbers.
type limited struct{ supply }

func (*limited) MostInCall() (most int, why string) { return 10, "so few" }

// A strategy that limits what one call gets limits each call of a pipeline, and not all together.
func TestPipelineOfLimitedCalls(t *testing.T) {
	s := &limited{supply{left: 1000}}
	is := newIssuer(t, issuer.Options{}, order(s))
	calls, errs := pipelineOf(10, 9, 11, 10, 1)
	is.IssueAll(t.Context(), calls, errs)
	must.Code(t, errs[2], seqd.CodeInvalidCount)
	if got := wantNumbers(t, calls, errs); got != 30 || !slices.Equal(s.made, []int{30}) {
		t.Errorf("got %d numbers of %d", got, s.made)
	}
	for want, code := range map[seqd.Want]seqd.Code{seqd.AnyNumbers: seqd.CodeInvalidCount, seqd.Consecutive: seqd.CodeInvalidCount, seqd.OneRange: ""} {
		must.Code(t, is.Issue(t.Context(), &seqd.Call{BizType: "order", Count: 11, Want: want}), code)
	}
}

// allOrNothing is a strategy that cannot return fewer numbers than it is asked for, and takes none
// then.
type allOrNothing struct {
	counting
	left, asked int
}

func (s *allOrNothing) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if s.asked++; n > s.left {
		return seqd.Errorf(seqd.CodeExhausted, "no more")
	}
	s.left -= n
	return s.counting.Generate(ctx, n, seq)
}

// pipelineOf returns calls with these counts.
func pipelineOf(counts ...int) ([]*seqd.Call, []error) {
	calls := make([]*seqd.Call, len(counts))
	for k, n := range counts {
		calls[k] = &seqd.Call{BizType: "order", Count: n}
	}
	return calls, slices.Repeat([]error{errors.New("of calls before")}, len(counts))
}

func same(n, count int) []int { return slices.Repeat([]int{count}, n) }

// wantNumbers checks that the calls without an error hold what they asked for, in ascending order,
// and that the others hold nothing. It returns how many numbers they hold.
func wantNumbers(t *testing.T, calls []*seqd.Call, errs []error) (total int) {
	t.Helper()
	var last int64
	for k, call := range calls {
		want := call.Count
		if errs[k] != nil {
			want = 0
		}
		must.Equal(t, call.Sequence.Len(), want, "the numbers of call %d", k)
		if call.Want == seqd.Consecutive && want > 0 && !call.Sequence.Consecutive() {
			t.Errorf("call %d has the runs %v", k, call.Sequence.Runs())
		}
		for n := range call.Sequence.Numbers() {
			if n <= last {
				t.Errorf("call %d has %d after %d", k, n, last)
			}
			last = n
		}
		total += want
	}
	return total
}

func codes(errs []error) (list []seqd.Code) {
	for _, err := range errs {
		list = append(list, seqd.CodeOf(err))
	}
	return list
}

func TestPipelineSharesATake(t *testing.T) {
	s, o := &supply{left: 1 << 30}, &timing{}
	is := newIssuer(t, issuer.Options{Observer: o}, order(s))
	calls, errs := pipelineOf(1, 5, 1, 100)
	for range 3 { // calls are reused
		is.IssueAll(t.Context(), calls, errs)
		must.Equal(t, wantNumbers(t, calls, errs), 107, "the numbers")
	}
	if !slices.Equal(s.made, same(3, 107)) {
		t.Errorf("the strategy was asked for %v", s.made)
	}
	if o.issued.Load() != 321 || o.calls.Load() != 12 {
		t.Errorf("%d numbers and %d calls were observed", o.issued.Load(), o.calls.Load())
	}
	is.IssueAll(t.Context(), nil, nil)
}

// timing is a tally that also counts calls.
type timing struct {
	tally
	calls atomic.Int64
}

func (o *timing) Took(strategy string, ns int64) {
	if strategy != "counting" || ns < 0 {
		panic(fmt.Sprint(strategy, ns))
	}
	o.calls.Add(1)
}

// Each take is for at most MaxCount numbers.
func TestLongPipelineIsSplit(t *testing.T) {
	s := &supply{left: 1 << 30}
	is := newIssuer(t, issuer.Options{}, order(s))
	calls, errs := pipelineOf(900, seqd.MaxCount-900, 1, seqd.MaxCount, 5, 6)
	is.IssueAll(t.Context(), calls, errs)
	wantNumbers(t, calls, errs)
	if want := []int{seqd.MaxCount, 1, seqd.MaxCount, 11}; !slices.Equal(s.made, want) {
		t.Errorf("the strategy was asked for %v, not for %v", s.made, want)
	}
}

func TestPipelineAtTheEndOfAllNumbers(t *testing.T) {
	want := slices.Concat(slices.Repeat([]seqd.Code{""}, 10), slices.Repeat([]seqd.Code{seqd.CodeExhausted}, 54))
	for name, s := range map[string]seqd.Strategy{"partial": &supply{left: 10}, "all or nothing": &allOrNothing{left: 10}} {
		t.Run(name, func(t *testing.T) {
			o := &tally{}
			is := newIssuer(t, issuer.Options{Observer: o}, order(s))
			calls, errs := pipelineOf(same(64, 1)...)
			is.IssueAll(t.Context(), calls, errs)
			if got := codes(errs); !slices.Equal(got, want) {
				t.Errorf("got %v", got)
			}
			wantNumbers(t, calls, errs)
			if o.issued.Load() != 10 || len(o.rejected) != 54 {
				t.Errorf("observed %d numbers and %d refusals", o.issued.Load(), len(o.rejected))
			}
			if a, ok := s.(*allOrNothing); ok && a.asked != 12 {
				t.Errorf("it was asked %d times", a.asked)
			}
		})
	}
}

// A call that wants consecutive numbers gets one run, and later calls get higher numbers.
func TestPipelineOfConsecutiveNumbers(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		const left = 200
		s, o := &supply{left: left, run: 10}, &losses{}
		is := newIssuer(t, issuer.Options{Observer: o}, order(s))
		total := 0
		for range 3 {
			counts := make([]int, 1+random.IntN(9))
			for k := range counts {
				counts[k] = 1 + random.IntN(10)
			}
			calls, errs := pipelineOf(counts...)
			for _, call := range calls {
				call.Want = seqd.Want(random.IntN(2))
			}
			is.IssueAll(t.Context(), calls, errs)
			total += wantNumbers(t, calls, errs)
			for k, err := range errs {
				if err != nil && (seqd.CodeOf(err) != seqd.CodeExhausted || s.left > 0) {
					t.Errorf("seed %d, call %d: %v, although %d are left", seed, k, err, s.left)
				}
			}
		}
		must.Equal(t, left-s.left, total+int(o.abandoned.Load())+s.lost, "seed %d: the numbers made, of which %d were issued, %d abandoned and %d lost,", seed, total, o.abandoned.Load(), s.lost)
	}
}

// losses is a tally that counts abandoned numbers.
type losses struct {
	tally
	abandoned atomic.Int64
}

func (o *losses) Event(e seqd.Event) {
	if e.Kind == seqd.EventAbandoned {
		o.abandoned.Add(e.Numbers)
		if e.Numbers < 1 {
			panic("no number was abandoned")
		}
	}
}

// strided is a strategy whose numbers are not next to each other, unless that is asked for.
type strided struct{ supply }

func (s *strided) GenerateSome(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(s.last.Add(int64(8*n))-int64(8*n)+8, n, 8)
	return nil
}

func (s *strided) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.GenerateSome(ctx, n, seq)
}

func (s *strided) GenerateConsecutive(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(s.last.Add(int64(n))-int64(n)+1, n, 1)
	return nil
}

// Numbers of a run with another stride than 1 are not consecutive.
func TestPipelineOfConsecutiveNumbersWithAStride(t *testing.T) {
	is := newIssuer(t, issuer.Options{}, order(&strided{}))
	calls, errs := pipelineOf(3, 1, 4, 2)
	for _, k := range []int{0, 1, 2} {
		calls[k].Want = seqd.Consecutive
	}
	is.IssueAll(t.Context(), calls, errs)
	wantNumbers(t, calls, errs)
	for k, err := range errs {
		if err != nil {
			t.Errorf("call %d: %v", k, err)
		}
	}
}

// Plugins that take a while do not make the calls of a pipeline late for each other, neither their
// After nor their OnError.
func TestPipelineOfSlowPlugins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := func(ctx context.Context) error {
			select {
			case <-time.After(50 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		undone := 0
		h := &hooks{
			before: func(ctx context.Context, _ *seqd.Call) error { return nap(ctx) },
			after:  func(ctx context.Context, _ *seqd.Call) error { return nap(ctx) },
			onError: func(ctx context.Context, _ *seqd.Call) {
				if nap(ctx) == nil {
					undone++
				}
			},
		}
		s, o := &supply{left: 30}, &losses{}
		is := newIssuer(t, issuer.Options{Observer: o, PluginTimeout: 200 * time.Millisecond}, order(s, seqd.BoundPlugin{Name: "slow", Plugin: h}))
		calls, errs := pipelineOf(same(40, 1)...)
		is.IssueAll(t.Context(), calls, errs)
		for k, err := range errs {
			if code := seqd.CodeOf(err); k < 30 && err != nil || k >= 30 && code != seqd.CodeExhausted {
				t.Errorf("call %d: %v", k, err)
			}
		}
		if undone != 10 || o.abandoned.Load() != 0 {
			t.Errorf("%d calls were undone, and %d numbers abandoned", undone, o.abandoned.Load())
		}
		// one call still waits no longer than the time-out for all its plugins
		h.after = func(ctx context.Context, _ *seqd.Call) error { <-ctx.Done(); return ctx.Err() }
		s.left, h.onError = 2, nil
		calls, errs = pipelineOf(1, 1)
		began := time.Now()
		is.IssueAll(t.Context(), calls, errs)
		must.Equal(t, time.Since(began), 400*time.Millisecond, "two calls took")
	})
}

// Calls that cannot be issued, other biz types and ranges in a pipeline.
func TestMixedPipeline(t *testing.T) {
	s := &supply{left: 1 << 30}
	other := order(&counting{})
	other.BizType.Name = "other"
	is := newIssuer(t, issuer.Options{}, order(s), other)
	calls, errs := pipelineOf(1, 0, 2, seqd.MaxCount+1, 3, 0, 4, 2, 1, 1, 5)
	calls[5].Want = seqd.OneRange
	calls[7].BizType, calls[7].Want = "other", seqd.Consecutive
	calls[8].BizType = "nothing"
	calls[9].BizType = "no/name"
	errs[0] = errors.New("of the pipeline before")
	is.IssueAll(t.Context(), calls, errs)
	want := []seqd.Code{"", seqd.CodeInvalidCount, "", seqd.CodeInvalidCount, "", "", "", seqd.CodeInvalidRequest,
		seqd.CodeUnknownBizType, seqd.CodeInvalidBizType, ""}
	if got := codes(errs); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if first, n := calls[5].Sequence.First(), calls[5].Sequence.Len(); first != 7 || n != 7 || calls[5].Count != 0 {
		t.Errorf("the range begins with %d and has %d numbers; count %d", first, n, calls[5].Count)
	}
	if first, last := calls[6].Sequence.First(), calls[10].Sequence.Last(); first != 14 || last != 22 {
		t.Errorf("then %d to %d", first, last)
	}
	if want := []int{6, 4, 5}; !slices.Equal(s.made, want) {
		t.Errorf("the strategy was asked for %v", s.made)
	}
}

// Each call has its own plugins: what one call gets and what plugins see of it is the same as if it
// were issued alone.
func TestPipelineIsLikeSingleCalls(t *testing.T) {
	for seed := range uint64(300) {
		all, alone := &journey{seed: seed}, &journey{seed: seed}
		all.run(t, func(is *issuer.Issuer, calls []*seqd.Call, errs []error) { is.IssueAll(t.Context(), calls, errs) })
		alone.run(t, func(is *issuer.Issuer, calls []*seqd.Call, errs []error) {
			for k, call := range calls {
				errs[k] = is.Issue(t.Context(), call)
			}
		})
		for k := range all.traces {
			if got, want := all.traces[k].String(), alone.traces[k].String(); got != want {
				t.Fatalf("seed %d, call %d:\n%s\nbut alone:\n%s", seed, k, got, want)
			}
		}
		if all.observer.issued.Load() != alone.observer.issued.Load() || len(all.observer.rejected) != len(alone.observer.rejected) {
			t.Fatalf("seed %d: other observations", seed)
		}
		if all.observer.abandoned.Load() != alone.observer.abandoned.Load() {
			t.Fatalf("seed %d: %d are abandoned, but alone %d", seed, all.observer.abandoned.Load(), alone.observer.abandoned.Load())
		}
	}
}

// journey is a random pipeline through random plugins, written down for each call.
type journey struct {
	seed     uint64
	observer losses
	traces   []*strings.Builder
}

// note writes down what happens to a call, which the plugins find by its request ID.
func (j *journey) note(call *seqd.Call, format string, args ...any) {
	var k int
	_, _ = fmt.Sscan(call.Caller.RequestID, &k)
	fmt.Fprintf(j.traces[k], format+"\n", args...)
}

func (j *journey) run(t *testing.T, issue func(is *issuer.Issuer, calls []*seqd.Call, errs []error)) {
	random := rand.New(rand.NewPCG(j.seed, 1))
	var plugins []seqd.BoundPlugin
	for p := range random.IntN(4) {
		plugins = append(plugins, seqd.BoundPlugin{Name: fmt.Sprint(p), Quick: random.IntN(3) > 0, Plugin: &fickle{j, p}})
	}
	handler := seqd.RejectedHandlerFunc(func(_ context.Context, call *seqd.Call, err *seqd.Error) {
		j.note(call, "rejected %s with %d numbers of %d", err.Code, call.Sequence.Len(), call.Count)
	})
	s := &supply{left: 1 << 30}
	is := newIssuer(t, issuer.Options{Observer: &j.observer, Rejected: handler}, order(s, plugins...))
	for range 2 {
		counts := make([]int, 1+random.IntN(8))
		for k := range counts {
			counts[k] = random.IntN(5)
		}
		calls, errs := pipelineOf(counts...)
		j.traces = nil
		for k, call := range calls {
			j.traces = append(j.traces, &strings.Builder{})
			call.Caller.RequestID = fmt.Sprint(k)
			call.Want = seqd.Want(random.IntN(2))
		}
		issue(is, calls, errs)
		wantNumbers(t, calls, errs)
		for k, call := range calls {
			j.note(call, "%s %d %d: %d shown %q, limit %v, %s", call.BizType, call.Count, call.Want, call.Sequence.Len(),
				len(call.Sequence.IDs()), call.Limit, seqd.CodeOf(errs[k]))
		}
	}
}

// fickle is a plugin that treats each call of a journey in its own way.
type fickle struct {
	*journey
	n int
}

// chance returns a number that only depends on the call, the plugin and the place.
func (f *fickle) chance(call *seqd.Call, place uint64, n int) int {
	var k uint64
	_, _ = fmt.Sscan(call.Caller.RequestID, &k)
	return rand.New(rand.NewPCG(f.seed, 1000*place+100*uint64(f.n)+k)).IntN(n)
}

func (f *fickle) Before(_ context.Context, call *seqd.Call) error {
	f.note(call, "before %d: %s %d %d, %d numbers", f.n, call.BizType, call.Count, call.Want, call.Sequence.Len())
	call.Limit.Tighten(seqd.Limit{Quota: 10, Remaining: int64(f.chance(call, 1, 10))})
	switch f.chance(call, 2, 8) {
	case 0:
		return seqd.Errorf(seqd.CodeRateLimited, "no")
	case 1:
		panic("no")
	case 2:
		call.BizType, call.Count, call.Want = "else", 77, seqd.OneRange // it must not matter
	}
	return nil
}

func (f *fickle) After(_ context.Context, call *seqd.Call) error {
	f.note(call, "after %d: %d numbers", f.n, call.Sequence.Len())
	switch f.chance(call, 3, 8) {
	case 0:
		return errors.New("no")
	case 1:
		call.Sequence.Reset()
	case 2, 3:
		call.Sequence.Show(rewrite)
	}
	return nil
}

func (f *fickle) OnError(_ context.Context, call *seqd.Call, err *seqd.Error) {
	f.note(call, "error %d: %s %s %d", f.n, err.Code, call.BizType, call.Sequence.Len())
}

// A change replaces the instance at any moment: every call is answered by the one or the other, and
// no number comes twice.
func TestPipelineDuringChanges(t *testing.T) {
	sh := &shelf{}
	var open atomic.Int64 // calls in the plugins
	// The plugin refuses some calls as soon as the strategy closes. Later ones set a higher limit.
	id := int64(0)
	gated := func() (*lasting, seqd.BoundPlugin) {
		closed := &atomic.Bool{}
		id++
		limit := seqd.Limit{Quota: id, Remaining: id}
		s := &lasting{shelf: sh, closing: func(context.Context) error { closed.Store(true); return nil }}
		h := &closing{}
		late := func(delta int64) error {
			if closed.Load() && rand.IntN(2) == 0 {
				return &seqd.Error{Code: seqd.CodeStopping, Detail: "closed"}
			}
			open.Add(delta)
			return nil
		}
		h.before = func(_ context.Context, call *seqd.Call) error {
			call.Limit.Tighten(limit)
			call.BizType, call.Count, call.Want = "else", 77, seqd.OneRange // it must not matter
			return late(1)
		}
		h.after = func(_ context.Context, call *seqd.Call) error {
			must.Equal(t, call.Limit, limit, "the limit")
			return late(-1)
		}
		h.onError = func(context.Context, *seqd.Call) { open.Add(-1) }
		h.close = func(context.Context) error { return nil }
		return s, seqd.BoundPlugin{Name: "gate", Quick: true, Plugin: h}
	}
	s, p := gated()
	o := &losses{}
	is := newIssuer(t, issuer.Options{Observer: o}, order(s, p))
	var wg sync.WaitGroup
	done := make(chan struct{})
	var mu sync.Mutex
	seen := map[int64]bool{}
	for range 4 {
		wg.Go(func() {
			calls, errs := pipelineOf(1, 2, 3, 1, 1, 1, 5, 1)
			for {
				select {
				case <-done:
					return
				default:
				}
				is.IssueAll(t.Context(), calls, errs)
				for k, err := range errs {
					if err != nil {
						t.Errorf("call %d: %v", k, err)
					}
				}
				must.Equal(t, wantNumbers(t, calls, errs), 15, "the numbers")
				mu.Lock()
				for _, call := range calls {
					for n := range call.Sequence.Numbers() {
						if seen[n] {
							t.Errorf("%d twice", n)
						}
						seen[n] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	end := time.Now().Add(await.Patience)
	for i := 0; i < 300 || o.abandoned.Load() == 0 && time.Now().Before(end); i++ { // some are abandoned only by chance
		s, p := gated()
		put(t, is, s, p)
		time.Sleep(20 * time.Microsecond)
	}
	close(done)
	wg.Wait()
	must.Equal(t, open.Load(), 0, "the calls that entered the plugins and did not leave them")
	shut(t, is)
	if made := sh.next.Load(); made != int64(len(seen))+o.abandoned.Load() || o.abandoned.Load() == 0 {
		t.Errorf("%d were made, %d issued and %d abandoned", made, len(seen), o.abandoned.Load())
	}
	calls, errs := pipelineOf(1, 1)
	is.IssueAll(t.Context(), calls, errs)
	for _, err := range errs {
		must.Code(t, err, seqd.CodeStopping)
	}
}

// All calls of a pipeline get the period of their numbers.
func TestPipelineOfAPeriod(t *testing.T) {
	period := seqd.Calendar{Reset: seqd.ResetDaily, Zone: time.UTC}.Now(time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC))
	s := &counting{}
	s.add = func(n int, seq *seqd.Sequence) {
		seq.In(period)
		seq.Add(s.last.Add(int64(n))-int64(n)+1, n, 1)
	}
	is := newIssuer(t, issuer.Options{}, order(s))
	calls, errs := pipelineOf(1, 2, 3)
	is.IssueAll(t.Context(), calls, errs)
	wantNumbers(t, calls, errs)
	for k, call := range calls {
		must.Equal(t, call.Sequence.Period(), period, "call %d: period", k)
	}
}

func TestPipelineAllocations(t *testing.T) {
	plain := newIssuer(t, issuer.Options{}, order(&counting{}))
	plugins := newIssuer(t, issuer.Options{}, order(&counting{}, seqd.BoundPlugin{Plugin: seqd.NopPlugin{}, Quick: true}))
	for name, test := range map[string]struct {
		is   *issuer.Issuer
		most float64
	}{"plain": {plain, 0}, "a plugin": {plugins, 1}} {
		calls, errs := pipelineOf(same(64, 1)...)
		if n := must.Allocs(100, func() { test.is.IssueAll(t.Context(), calls, errs) }); n > test.most {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// miscounting is a strategy that makes some numbers more than it is asked for, or fewer.
type miscounting struct {
	counting
	by int
}

func (s *miscounting) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.counting.Generate(ctx, n+s.by, seq)
}

// Calls that share numbers of which there are too many, or too few, get none.
func TestPipelineOfWrongCounts(t *testing.T) {
	for _, by := range []int{-1, 1} {
		is := newIssuer(t, issuer.Options{}, order(&miscounting{by: by}))
		calls, errs := pipelineOf(2, 2)
		is.IssueAll(t.Context(), calls, errs)
		for k, err := range errs {
			if seqd.CodeOf(err) != seqd.CodeInternal || calls[k].Sequence.Len() > 0 {
				t.Errorf("%+d: call %d has %d numbers, %v", by, k, calls[k].Sequence.Len(), err)
			}
		}
	}
}
