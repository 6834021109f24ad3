// Package worlds is what the models of the protocols share: random worlds, many of them at once,
// and short schedules of what went wrong in one.
//
// A world is determined by its seed. Each of its steps draws from a generator of its own, made of
// the seed and the step's number, so that a step can be left out and the others stay much the same:
// by that, long schedules that found something are made short.
package worlds

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Dice is the random generator of one step (splitmix64).
type Dice uint64

// NewDice returns the generator of a step.
func NewDice(seed, step uint64) Dice {
	d := Dice(seed*0xd1342543de82ef95 + step)
	d.next()
	return d
}

func (d *Dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n − 1.
func (d *Dice) Below(n int) int { return int(d.next() % uint64(n)) }

// Within returns a number from low to high.
func (d *Dice) Within(low, high int64) int64 { return low + int64(d.next()%uint64(high-low+1)) }

// OneIn is true once in n times.
func (d *Dice) OneIn(n int) bool { return d.Below(n) == 0 }

// Draw returns one of some things, by their weights, each added to those before it.
func (d *Dice) Draw(cumulative []int) int {
	roll := d.Below(cumulative[len(cumulative)-1])
	i := 0
	for roll >= cumulative[i] {
		i++
	}
	return i
}

// Pick returns one of some values.
func Pick[T any](d *Dice, values ...T) T { return values[d.Below(len(values))] }

// Failure is a seed under which something was broken.
type Failure struct {
	Seed   uint64
	Step   int
	Broken string
}

// Kind is which promise was broken: what stands before the first colon.
func (f Failure) Kind() string { return KindOf(f.Broken) }

// KindOf is the Kind of what was broken.
func KindOf(broken string) string {
	kind, _, _ := strings.Cut(broken, ":")
	return kind
}

// Survey runs seeds first, first + step and so on, on all cores, until some have failed. Each core
// has a worker of its own, which runs a seed and returns what was broken, if anything, and a
// function that adds up what came about; those do not overlap. The failures are sorted by their
// steps.
func Survey(first, step uint64, seeds, enough int, worker func() func(seed uint64) (failed *Failure, add func())) (failures []Failure) {
	var (
		mu      sync.Mutex // guards failures, and what add adds to
		next    atomic.Int64
		workers sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			run := worker()
			for over := false; !over; {
				i := next.Add(1) - 1
				if i >= int64(seeds) {
					return
				}
				failed, add := run(first + step*uint64(i))
				mu.Lock()
				add()
				if failed != nil {
					failures = append(failures, *failed)
				}
				over = len(failures) >= enough
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	slices.SortFunc(failures, func(a, b Failure) int { return a.Step - b.Step })
	return failures
}

// Shorten returns which of the steps from 0 to steps − 1 are needed for a world to fail: it leaves
// out larger and smaller stretches, as long as fails says so of the rest.
func Shorten(steps int, fails func(kept []int) bool) (needed []int) {
	for step := range steps {
		needed = append(needed, step)
	}
	for size := len(needed) / 2; size > 0; size /= 2 {
		for shorter := true; shorter; shorter = shorter && size == 1 {
			shorter = false
			for from := len(needed) - size; from > -size; from -= size {
				trial := slices.Delete(slices.Clone(needed), max(from, 0), from+size)
				if fails(trial) {
					needed, shorter = trial, true
				}
			}
		}
	}
	return needed
}

// Except returns whether a step is to be left out when only some, ascending, are kept; nil, which
// leaves out none, for nil.
func Except(kept []int) (leftOut func(step int) bool) {
	if kept == nil {
		return nil
	}
	return func(step int) bool { _, found := slices.BinarySearch(kept, step); return !found }
}
