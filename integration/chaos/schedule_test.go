package chaos

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"
)

func TestPlanIsTheSeeds(t *testing.T) {
	const duration = 2 * time.Minute
	for seed := range int64(200) {
		all := plan(seed, duration, nil)
		if again := plan(seed, duration, nil); describe(all) != describe(again) {
			t.Fatalf("seed %d: %s and then %s", seed, describe(all), describe(again))
		}
		if len(all) < 15 {
			t.Errorf("seed %d: only %d faults", seed, len(all))
		}
		for _, p := range all {
			if p.at < quietBegin || p.ends() > duration-quietEnd || p.length < p.class.least || p.length > p.class.most {
				t.Errorf("seed %d: %v", seed, p)
			}
		}
	}
	if describe(plan(1, duration, nil)) == describe(plan(2, duration, nil)) {
		t.Error("two seeds have one schedule")
	}
}

func TestRunsWithoutRoomHaveNoFaults(t *testing.T) {
	for seed := range int64(200) {
		if Faults(seed, 0, nil) != 0 || Faults(seed, -time.Hour, nil) != 0 {
			t.Errorf("seed %d has faults in no time", seed)
		}
		if Faults(seed, 30*time.Second, nil) == 0 {
			t.Errorf("seed %d has no fault in 30 s", seed)
		}
	}
}

func TestVacant(t *testing.T) {
	dir := t.TempDir()
	for _, free := range []string{"", dir, filepath.Join(dir, "new")} {
		if err := Vacant(free); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "record"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if Vacant(dir) == nil {
		t.Error("the record of another run is not seen")
	}
}

func describe(all []planned) (text string) {
	for _, p := range all {
		text += p.String() + "\n"
	}
	return text
}

func TestPlanHasEveryClassAloneAndInPairs(t *testing.T) {
	alone, paired := map[string]bool{}, map[string]bool{}
	for _, p := range withinTwoHours() {
		if p.beside {
			paired[p.class.name] = true
		} else {
			alone[p.class.name] = true
		}
	}
	for i := range classes {
		if name := classes[i].name; !alone[name] || !paired[name] {
			t.Errorf("%s: alone %v, in a pair %v", name, alone[name], paired[name])
		}
	}
}

type placed struct {
	planned
	beside bool // another fault is on meanwhile
}

// withinTwoHours is a long schedule.
func withinTwoHours() (all []placed) {
	schedule := plan(1, 2*time.Hour, nil)
	for i, p := range schedule {
		beside := slices.ContainsFunc(slices.Concat(schedule[:i], schedule[i+1:]), func(other planned) bool {
			return p.at < other.ends() && other.at < p.ends()
		})
		all = append(all, placed{p, beside})
	}
	return all
}

func TestFaultsBesideEachOtherShareNothing(t *testing.T) {
	schedule := plan(7, 2*time.Hour, nil)
	for i, p := range schedule {
		for _, other := range schedule[i+1:] {
			if other.at < p.ends() && collide(p, other) {
				t.Errorf("%v\n%v", p, other)
			}
		}
	}
}

func TestCollide(t *testing.T) {
	of := func(name, target string) planned {
		return planned{class: &classes[slices.IndexFunc(classes, func(c class) bool { return c.name == name })], target: target}
	}
	for _, c := range []struct {
		a, b planned
		want bool
	}{
		{of("seqd-kill", "a"), of("seqd-pause", "a"), true},
		{of("seqd-kill", "a"), of("seqd-kill", "b"), false},
		{of("mongo-cut", "all"), of("mongo-slow", "c"), true},
		{of("mongo-cut", "a"), of("mongo-slow", "c"), false},
		{of("mongo-kill", "m"), of("mongo-cut", "all"), false},
		{of("clock-step", "a"), of("seqd-kill", "a"), false},
	} {
		if collide(c.a, c.b) != c.want || collide(c.b, c.a) != c.want {
			t.Errorf("%v and %v: not %v", c.a, c.b, c.want)
		}
	}
}

func TestRoundsAreTheSeeds(t *testing.T) {
	draw := func(seed, loop, skip uint64) (values []int) {
		d := &dice{seed: seed, loop: loop}
		for round := range uint64(5) {
			r := d.next()
			if round >= skip { // a round that draws less does not change the ones after it
				r.IntN(1000)
			}
			if round == 4 {
				values = append(values, r.IntN(1000), r.IntN(1000))
			}
		}
		return values
	}
	if !reflect.DeepEqual(draw(1, 1, 0), draw(1, 1, 3)) {
		t.Error("what a round draws depends on the rounds before")
	}
	if reflect.DeepEqual(draw(1, 1, 0), draw(1, 2, 0)) || reflect.DeepEqual(draw(1, 1, 0), draw(2, 1, 0)) {
		t.Error("two loops or seeds draw the same")
	}
}
