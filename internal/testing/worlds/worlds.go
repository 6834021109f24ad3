// Package worlds is shared by the models of the protocols. It runs many random worlds at once, and
// shortens the schedule of a world that failed.
//
// A world is determined by its seed. Each step has its own random generator, derived from the seed
// and the number of the step. So a step can be left out while the others stay much the same, and a
// long schedule that fails can be shortened.
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

// OneIn returns true once in n calls, on average.
func (d *Dice) OneIn(n int) bool { return d.Below(n) == 0 }

// Draw returns a random index, by the cumulative weights.
func (d *Dice) Draw(cumulative []int) int {
	roll := d.Below(cumulative[len(cumulative)-1])
	i := 0
	for roll >= cumulative[i] {
		i++
	}
	return i
}

// Pick returns one of the values.
func Pick[T any](d *Dice, values ...T) T { return values[d.Below(len(values))] }

// Failure is a seed that broke a promise.
type Failure struct {
	Seed   uint64
	Step   int
	Broken string
}

// Kind returns which promise was broken: the text before the first colon.
func (f Failure) Kind() string { return KindOf(f.Broken) }

// KindOf returns the kind of a message: the text before the first colon.
func KindOf(broken string) string {
	kind, _, _ := strings.Cut(broken, ":")
	return kind
}

// Survey runs the seeds first, first + step and so on, on all cores, until enough have failed. Each
// core has its own worker. A worker runs a seed and returns a failure, if any, and a function that
// adds up statistics; those functions are not called concurrently. The failures are sorted by their
// steps.
func Survey(first, step uint64, seeds, enough int, worker func() func(seed uint64) (failed *Failure, add func())) (failures []Failure) {
	var (
		mu      sync.Mutex // guards failures and the calls of add
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

// Shorten returns the steps from 0 to steps − 1 that are needed for a world to fail. It leaves out
// shorter and shorter runs of steps while fails reports true for the rest.
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

// Except returns a function that reports whether a step is left out, if only the steps in kept, in
// ascending order, are kept. If kept is nil, it returns nil, which leaves out none.
func Except(kept []int) (leftOut func(step int) bool) {
	if kept == nil {
		return nil
	}
	return func(step int) bool { _, found := slices.BinarySearch(kept, step); return !found }
}
