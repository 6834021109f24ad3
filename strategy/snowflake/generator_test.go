package snowflake

import (
	"context"
	"errors"
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
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// someTime is a time for tests, in ms since the Unix epoch: 2026-11-21.
const someTime = 1_795_000_000_000

// hands is a clock that tests set.
type hands struct{ ms atomic.Int64 }

func (c *hands) now() time.Time { return time.UnixMilli(c.ms.Load()) }

func testLayout(t testing.TB, bitsMachine, bitsSequence int) *layout {
	t.Helper()
	s := DefaultSettings()
	s.Epoch = "1999-12-31T00:00:00Z" // time in a synctest bubble begins on 2000-01-01
	s.BitsMachine, s.BitsSequence = bitsMachine, bitsSequence
	l, err := newLayout(&s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// testGenerator returns a generator with a lease of machine ID 5 for ten seconds, and its clock.
func testGenerator(t testing.TB, opts generatorOptions) (*generator, *hands) {
	t.Helper()
	clock := &hands{}
	clock.ms.Store(someTime)
	if opts.now == nil {
		opts.now = clock.now
	}
	g := newGenerator(testLayout(t, 10, 12), opts)
	g.set(5, someTime-1000, someTime+10_000, false)
	return g, clock
}

// numbers takes n numbers.
func numbers(t *testing.T, g *generator, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, g.take(t.Context(), n, &seq))
	return slices.Collect(seq.Numbers())
}

func refused(t *testing.T, g *generator, n int, want seqd.Code) *seqd.Error {
	t.Helper()
	var seq seqd.Sequence
	err := g.take(t.Context(), n, &seq)
	if seqd.CodeOf(err) != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	return seqd.AsError(err)
}

func TestNumbersSayWhatTheyAreMadeOf(t *testing.T) {
	g, _ := testGenerator(t, generatorOptions{})
	for i, n := range numbers(t, g, 3) {
		when, machine, sequence, err := g.layout.decompose(n)
		if err != nil || when.UnixMilli() != someTime || machine != 5 || sequence != int64(i) {
			t.Errorf("%d is %v, %d, %d, %v", n, when, machine, sequence, err)
		}
	}
}

// TestBatchOverMilliseconds checks that a batch larger than a millisecond is one run: the numbers
// of two milliseconds are consecutive.
func TestBatchOverMilliseconds(t *testing.T) {
	g, _ := testGenerator(t, generatorOptions{now: time.Now})
	now := time.Now().UnixMilli()
	g.set(5, now-1000, now+60_000, false)
	list := numbers(t, g, 100_000)
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			t.Fatalf("%d follows %d", list[i], list[i-1])
		}
	}
	first, _, _, _ := g.layout.decompose(list[0])
	last, _, _, _ := g.layout.decompose(list[len(list)-1])
	if took := last.Sub(first); took < 24*time.Millisecond {
		t.Errorf("100,000 numbers were made of %s", took)
	}
}

func TestFullMillisecondWaitsForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clock := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		go func() {
			time.Sleep(40 * time.Millisecond) // as long as the clock stands still
			clock.ms.Add(1)
		}()
		n := numbers(t, g, 1)[0]
		if when, _, sequence, _ := g.layout.decompose(n); when.UnixMilli() != someTime+1 || sequence != 0 {
			t.Errorf("the next number is of %v with sequence %d", when, sequence)
		}
	})
}

// TestClockStandsStill checks that a wait ends in time although the clock stands still, and at once
// if the context ends.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		began := time.Now()
		refused(t, g, 1, seqd.CodeTimeout)
		if waited := time.Since(began); waited > 3*time.Second {
			t.Errorf("waited %s", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		var seq seqd.Sequence
		if err := g.take(ctx, 1, &seq); seqd.CodeOf(err) != seqd.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		began = time.Now()
		must.Do(t, g.pass(t.Context(), 0, false))
		must.Equal(t, time.Since(began), time.Millisecond, "how long it waited for a clock that stands still")
	})
}

// TestWaitingCallersTakeTurns checks that callers that must wait get numbers in the order in which
// they came, also if each takes a whole millisecond and comes back at once.
func TestWaitingCallersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, rounds = 5, 3
		g, clock := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		var order, want []int
		for i := range callers {
			go func() {
				for range rounds {
					must.Report(t, g.take(t.Context(), 4096, new(seqd.Sequence)))
					order = append(order, i)
				}
			}()
			synctest.Wait()
		}
		for n := range callers * rounds {
			want = append(want, n%callers)
			clock.ms.Add(1)
			time.Sleep(2 * time.Millisecond) // they look at the clock each millisecond
			synctest.Wait()
		}
		if !slices.Equal(order, want) {
			t.Errorf("served %d, want %d", order, want)
		}
	})
}

// TestFewDoNotWaitForMany checks that a caller who needs few numbers has its turn before one who
// needs many, and that of those each gets all before the next one.
func TestFewDoNotWaitForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clock := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		var order []string
		take := func(who string, n int) {
			go func() {
				must.Report(t, g.take(t.Context(), n, new(seqd.Sequence)))
				order = append(order, who)
			}()
			synctest.Wait()
		}
		take("many", 5*4096)
		take("as many", 5*4096)
		take("few", 1)
		for range 12 {
			clock.ms.Add(1)
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
		}
		if want := []string{"few", "many", "as many"}; !slices.Equal(order, want) {
			t.Errorf("served %q, want %q", order, want)
		}
	})
}

// TestWaitInLineEnds checks that a caller that waits for its turn still goes when its context ends.
func TestWaitInLineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, clock := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		go func() { _ = g.take(t.Context(), 1, new(seqd.Sequence)) }() // the first in the line
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- g.take(ctx, 1, new(seqd.Sequence)) }()
		synctest.Wait()
		cancel()
		must.Code(t, <-gone, seqd.CodeCanceled)
		clock.ms.Add(1)
		time.Sleep(time.Millisecond)
	})
}

// A caller that waits for the next time is refused if the lease is lost meanwhile.
func TestLeaseLostWhileACallerWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := testGenerator(t, generatorOptions{})
		numbers(t, g, 4096)
		gone := make(chan error)
		go func() { gone <- g.take(t.Context(), 1, new(seqd.Sequence)) }()
		synctest.Wait()
		g.stop(&seqd.Error{Code: seqd.CodeNoMachineID})
		must.Code(t, <-gone, seqd.CodeNoMachineID)
	})
}

func TestLeaseBoundsTimes(t *testing.T) {
	g, clock := testGenerator(t, generatorOptions{})
	clock.ms.Store(someTime - 1001)
	refused(t, g, 1, seqd.CodeClockRollback)
	clock.ms.Store(someTime - 1000)
	if e := refused(t, g, 1, seqd.CodeClockRollback); e.RetryAfter != time.Millisecond || !strings.Contains(e.Detail, "begins at "+at(someTime-999)) {
		t.Errorf("%s, retry after %s", e.Detail, e.RetryAfter)
	}
	g.set(5, someTime-1000, someTime+10_000, true)
	refused(t, g, 1, seqd.CodeStarting) // nobody has set a clock back
	clock.ms.Store(someTime - 999)
	numbers(t, g, 1)
	clock.ms.Store(someTime + 10_000)
	numbers(t, g, 1)
	clock.ms.Store(someTime + 10_001)
	refused(t, g, 1, seqd.CodeNoMachineID)
	g.set(5, someTime-1000, someTime+20_000, false)
	numbers(t, g, 1)
	must.Equal(t, g.stop(errStopping), someTime+10_001, "the last time")
	refused(t, g, 1, seqd.CodeStopping)
	epoch := g.layout.epoch
	g, clock = testGenerator(t, generatorOptions{})
	g.set(5, epoch-10, epoch+10, false)
	clock.ms.Store(epoch)
	if e := refused(t, g, 1, seqd.CodeClockRollback); !strings.Contains(e.Detail, "before the epoch") {
		t.Error(e)
	}
	clock.ms.Store(epoch + 1)
	numbers(t, g, 1)
}

// TestTenureBounds checks when a machine ID can be used: from maxWait before its lease begins to
// its end.
func TestTenureBounds(t *testing.T) {
	for now, want := range map[int64]seqd.Code{-5: seqd.CodeClockRollback, -4: "", 1000: "", 1001: seqd.CodeNoMachineID} {
		env := &environment{strategy.Env{Now: func() time.Time { return time.UnixMilli(someTime + now) }}}
		tn := tenure{env: env, maxWait: 5 * time.Millisecond, state: holding, lease: machineid.Lease{Lower: someTime}, bound: someTime + 1000}
		if err := tn.usable(); (err == nil) != (want == "") || err != nil && err.Code != want {
			t.Errorf("at %d: %v, want %q", now, err, want)
		}
		if err := tn.usable(); now < -4 && (err.RetryAfter != 6*time.Millisecond || !strings.Contains(err.Detail, at(someTime+1))) {
			t.Errorf("at %d: %v, retry after %s", now, err, err.RetryAfter)
		}
	}
}

// TestAnotherMachineID checks that numbers increase when the machine ID changes: those of the same
// millisecond could be lower.
func TestAnotherMachineID(t *testing.T) {
	set := func(g *generator, id int64) { g.set(id, someTime-1, someTime+1000, false) }
	for name, change := range map[string]func(*generator){
		"another":                  func(g *generator) { set(g, 2) },
		"another after a stop":     func(g *generator) { g.stop(errSeeking); set(g, 2) },
		"the same after a stop":    func(g *generator) { g.stop(errSeeking); set(g, 5) },
		"of a biz type that joins": func(g *generator) { g.options.left.Store(someTime); g.join() },
	} {
		g, clock := testGenerator(t, generatorOptions{})
		before := numbers(t, g, 1)[0]
		set(g, 5) // a renewal changes nothing
		numbers(t, g, 1)
		change(g)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var seq seqd.Sequence
		if err := g.take(ctx, 1, &seq); seqd.CodeOf(err) != seqd.CodeCanceled {
			t.Fatalf("%s: got %v although the millisecond is used", name, err)
		}
		clock.ms.Add(1)
		if after := numbers(t, g, 1)[0]; after <= before {
			t.Errorf("%s: %d follows %d", name, after, before)
		}
	}
}

func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		g, clock := testGenerator(t, generatorOptions{maxWait: 5 * time.Millisecond, onRollback: func(begins bool, _ time.Duration) { told = append(told, begins) }})
		before := numbers(t, g, 1)[0]
		clock.ms.Add(-5)
		go func() {
			for range 5 {
				time.Sleep(time.Millisecond)
				clock.ms.Add(1)
			}
		}()
		if after := numbers(t, g, 1)[0]; after <= before {
			t.Errorf("%d follows %d", after, before)
		}
		clock.ms.Add(-100)
		for range 3 {
			must.Equal(t, refused(t, g, 1, seqd.CodeClockRollback).RetryAfter, 101*time.Millisecond, "retry after")
		}
		if g.health(g.last-6) == nil || g.health(g.last-5) != nil {
			t.Error("healthy although the clock is behind, or not although it waits for it")
		}
		clock.ms.Add(101)
		numbers(t, g, 1)
		if !slices.Equal(told, []bool{true, false}) {
			t.Errorf("told %v", told)
		}
	})
}

// A caller waits as long as a call may last, and for a clock that was set back.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := testGenerator(t, generatorOptions{maxWait: 500 * time.Millisecond}) // the clock stands still
		numbers(t, g, 4096)
		began := time.Now()
		err := g.take(t.Context(), 1, &seqd.Sequence{})
		if waited := time.Since(began); seqd.CodeOf(err) != seqd.CodeTimeout || waited != 2500*time.Millisecond {
			t.Errorf("%v after %v", err, waited)
		}
	})
}

func TestRandomStart(t *testing.T) {
	g, clock := testGenerator(t, generatorOptions{randomStart: true})
	seen := map[int64]bool{}
	for range 200 {
		clock.ms.Add(1)
		list := numbers(t, g, 2)
		_, _, first, _ := g.layout.decompose(list[0])
		_, _, second, _ := g.layout.decompose(list[1])
		if first >= 2048 || second != first+1 {
			t.Fatalf("sequences %d and %d", first, second)
		}
		seen[first] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d different starts in 200", len(seen))
	}
	clock.ms.Add(1)
	taken, _, _, err := g.some(5000, &seqd.Sequence{})
	if err != nil || taken <= 2048 || taken > 4096 {
		t.Errorf("a millisecond had %d numbers, %v", taken, err)
	}
}

// TestManyCallers uses many callers, a clock that jumps, and leases that come and go. No number may
// be made twice, those of each caller must increase, and all must be in a lease.
func TestManyCallers(t *testing.T) {
	const callers = 8
	clock := &hands{}
	clock.ms.Store(someTime)
	g := newGenerator(testLayout(t, 10, 4), generatorOptions{now: clock.now, maxWait: 2 * time.Millisecond})
	type interval struct{ machine, lower, bound int64 }
	var (
		leases []interval
		wg     sync.WaitGroup
		done   atomic.Bool
		made   atomic.Int64
	)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lists := make([][]int64, callers)
	for i := range callers {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			for !done.Load() {
				var seq seqd.Sequence
				n := 1 + dice.IntN(24) // a millisecond has 16
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				err := g.take(ctx, n, &seq)
				cancel()
				made.Add(int64(seq.Len()))
				if seq.Len() == 0 {
					time.Sleep(100 * time.Microsecond)
				}
				if err == nil && seq.Len() != n {
					t.Errorf("%d numbers instead of %d", seq.Len(), n)
				}
				for number := range seq.Numbers() { // numbers of failed calls count too
					lists[i] = append(lists[i], number)
				}
			}
		})
	}
	dice := rand.New(rand.NewPCG(seed, callers))
	highest := int64(someTime - 1)
	machine := int64(1)
	const enough = 1000
	end := time.Now().Add(await.Patience)
	for i := 0; i < longtest.Or(200, 2000) || made.Load() < enough && time.Now().Before(end); i++ {
		switch dice.IntN(8) {
		case 0:
			g.stop(errSeeking)
			machine = dice.Int64N(1024)
			fallthrough
		case 1:
			l := interval{machine, highest, max(highest, clock.ms.Load()) + dice.Int64N(50)}
			highest = l.bound
			leases = append(leases, l)
			g.set(l.machine, l.lower, l.bound, false)
		case 2:
			clock.ms.Add(-dice.Int64N(20))
		default:
			clock.ms.Add(dice.Int64N(30)) // it overtakes the leases, so that the next one is for it
		}
		time.Sleep(100 * time.Microsecond)
	}
	done.Store(true)
	wg.Wait()
	seen := make(map[int64]bool)
	for _, list := range lists {
		before := int64(0)
		for _, n := range list {
			if seen[n] {
				t.Fatalf("%d twice", n)
			}
			if seen[n] = true; n <= before {
				t.Fatalf("%d follows %d", n, before)
			}
			before = n
			when, machine, _, _ := g.layout.decompose(n)
			if !slices.ContainsFunc(leases, func(l interval) bool {
				return l.machine == machine && l.lower < when.UnixMilli() && when.UnixMilli() <= l.bound
			}) {
				t.Fatalf("%d is of machine ID %d at %d, which no lease has", n, machine, when.UnixMilli())
			}
		}
	}
	if len(seen) < enough {
		t.Errorf("only %d numbers", len(seen))
	}
}

func TestAllocations(t *testing.T) {
	g, clock := testGenerator(t, generatorOptions{})
	var seq seqd.Sequence
	seq.Add(1, 1, 1)
	for _, n := range []int{1, 100} {
		if allocated := must.Allocs(1000, func() {
			seq.Reset()
			clock.ms.Add(1)
			_ = g.take(t.Context(), n, &seq)
		}); allocated > 0 {
			t.Errorf("%d numbers take %v allocations", n, allocated)
		}
	}
}

func BenchmarkTake(b *testing.B) {
	for _, n := range []int{1, 100} {
		b.Run(map[int]string{1: "one", 100: "hundred"}[n], func(b *testing.B) {
			g, _ := testGenerator(b, generatorOptions{now: time.Now})
			now := time.Now().UnixMilli()
			g.set(5, now-1, now+time.Hour.Milliseconds(), false)
			var seq seqd.Sequence
			b.ReportAllocs()
			for b.Loop() {
				seq.Reset()
				must.Do(b, g.take(b.Context(), n, &seq))
			}
			b.ReportMetric(float64(b.N*n)/float64(b.Elapsed().Milliseconds()), "ids/ms")
		})
	}
}
