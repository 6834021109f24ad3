package worlds

import (
	"slices"
	"testing"
)

// The draws of a step depend only on the seed and the step.
func TestDice(t *testing.T) {
	draw := func(seed, step uint64) (drawn []int) {
		d := NewDice(seed, step)
		for range 5 {
			drawn = append(drawn, d.Below(1000))
		}
		return drawn
	}
	if a, b := draw(7, 3), draw(7, 3); !slices.Equal(a, b) {
		t.Errorf("%v and %v", a, b)
	}
	for _, other := range [][]int{draw(7, 4), draw(8, 3)} {
		if slices.Equal(draw(7, 3), other) {
			t.Errorf("%v twice", other)
		}
	}
	d, seen := NewDice(1, 1), map[int]int{}
	for range 4000 {
		seen[d.Draw([]int{10, 10, 40})]++
		if n := d.Within(-2, 2); n < -2 || n > 2 {
			t.Fatal(n)
		}
	}
	if seen[1] != 0 || seen[0] < 800 || seen[0] > 1200 || seen[2] < 2800 {
		t.Errorf("drawn %v", seen)
	}
}

func TestSurvey(t *testing.T) {
	sum := 0
	failures := Survey(5, 10, 100, 1000, func() func(uint64) (*Failure, func()) {
		return func(seed uint64) (failed *Failure, add func()) {
			if seed%50 == 5 {
				failed = &Failure{seed, int(1000 - seed), "order: of numbers"}
			}
			return failed, func() { sum++ }
		}
	})
	if sum != 100 || len(failures) != 20 || failures[0].Seed != 955 || failures[19].Seed != 5 || failures[0].Kind() != "order" {
		t.Errorf("%d seeds, failures %+v", sum, failures)
	}
	if f := Survey(0, 1, 1_000_000, 3, func() func(uint64) (*Failure, func()) {
		return func(seed uint64) (*Failure, func()) { return &Failure{Seed: seed}, func() {} }
	}); len(f) < 3 || len(f) > 100 {
		t.Errorf("%d failures", len(f))
	}
}

func TestShorten(t *testing.T) {
	needed := Shorten(1000, func(kept []int) bool {
		for _, step := range []int{3, 500, 501, 998} {
			if !slices.Contains(kept, step) {
				return false
			}
		}
		return true
	})
	if !slices.Equal(needed, []int{3, 500, 501, 998}) {
		t.Errorf("needed %v", needed)
	}
	leftOut := Except(needed)
	if leftOut(3) || !leftOut(4) || Except(nil) != nil {
		t.Error("the wrong steps are left out")
	}
}
