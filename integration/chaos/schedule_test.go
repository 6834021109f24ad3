package chaos

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// whole is a system that has every class of faults.
var whole = System{Store: Postgres}

func TestPlanIsTheSeeds(t *testing.T) {
	const duration = 2 * time.Minute
	for seed := range int64(200) {
		all := plan(whole, seed, duration, nil)
		if again := plan(whole, seed, duration, nil); describe(all) != describe(again) {
			t.Fatalf("seed %d: %s and then %s", seed, describe(all), describe(again))
		}
		if len(all) < 8 {
			t.Errorf("seed %d: only %d faults", seed, len(all))
		}
		for _, p := range all {
			if p.at < quietBegin || p.ends() > duration-quietEnd || p.length < p.class.least || p.length > p.class.most {
				t.Errorf("seed %d: %v", seed, p)
			}
		}
	}
	if describe(plan(whole, 1, duration, nil)) == describe(plan(whole, 2, duration, nil)) {
		t.Error("two seeds have one schedule")
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
	for seed := range int64(20) { // slow faults are rare in a run
		for _, p := range withinHalfAnHour(seed) {
			if p.beside {
				paired[p.class.name] = true
			} else {
				alone[p.class.name] = true
			}
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
	beside bool // it overlaps another fault
}

// withinHalfAnHour is a long schedule.
func withinHalfAnHour(seed int64) (all []placed) {
	schedule := plan(whole, seed, 30*time.Minute, nil)
	for i, p := range schedule {
		beside := slices.ContainsFunc(slices.Concat(schedule[:i], schedule[i+1:]), func(other planned) bool {
			return p.at < other.ends() && other.at < p.ends()
		})
		all = append(all, placed{p, beside})
	}
	return all
}

func TestClasses(t *testing.T) {
	if only, err := Classes(whole, ""); only != nil || err != nil {
		t.Error(only, err)
	}
	if only, err := Classes(whole, "restore,seqd-kill"); !slices.Equal(only, []string{"restore", "seqd-kill"}) || err != nil {
		t.Error(only, err)
	}
	if only, err := Classes(whole, "mongo-kill,store-cut"); !slices.Equal(only, []string{"store-kill", "store-cut"}) || err != nil {
		t.Error(only, err)
	}
	if _, err := Classes(System{NoRedis: true}, "redis-kill"); err == nil {
		t.Error("a fault of Redis without Redis")
	}
	if _, err := Classes(whole, "restore,flood"); err == nil || !strings.Contains(err.Error(), `"flood"`) || !strings.Contains(err.Error(), "two-redises") {
		t.Error(err)
	}
}

func TestClassesAreDescribed(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/RELIABILITY.md"))(t)
	_, table, _ := strings.Cut(string(text), "| class | what happens |")
	table, _, _ = strings.Cut(table, "\n\n")
	for i := range classes {
		if name := classes[i].name; !strings.Contains(table, "| "+name+" ") && !strings.Contains(table, "| "+name+",") && !strings.Contains(table, ", "+name+" ") && !strings.Contains(table, ", "+name+",") {
			t.Errorf("docs/RELIABILITY.md does not describe %s", name)
		}
	}
}

func TestFaultsBesideEachOtherShareNothing(t *testing.T) {
	schedule := plan(whole, 7, longtest.Or(30*time.Minute, 2*time.Hour), nil)
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
		{of("store-cut", "all"), of("store-slow", "c"), true},
		{of("store-cut", "a"), of("store-slow", "c"), false},
		{of("store-kill", "primary"), of("store-cut", "all"), false},
		{of("store-kill", "primary"), of("store-failover", ""), true},
		{of("clock-step", "a"), of("seqd-kill", "a"), false},
		{of("restore", "a"), of("seqd-kill", "b"), true},
		{of("restore", "a"), of("store-kill", "standby"), true},
		{of("restore", "a"), of("redis-kill", "primary"), false},
		{of("restore", "a"), of("two-redises", "b"), true},
		{of("redis-moved", ""), of("store-cut", "all"), false},
		{of("two-redises", "a"), of("seqd-kill", "b"), false},
		{of("two-redises", "a"), of("seqd-pause", "b"), true}, // the paused node would not notice in time
		{of("ordering-changed", ""), of("store-slow", "b"), true},
		{of("ordering-changed", ""), of("two-redises", "b"), true},
	} {
		if collide(c.a, c.b) != c.want || collide(c.b, c.a) != c.want {
			t.Errorf("%v and %v: not %v", c.a, c.b, c.want)
		}
	}
}

// A system has only faults of what it has.
func TestFaultsOfASystem(t *testing.T) {
	for _, store := range Stores {
		for _, redis := range []string{"sentinel", "none"} {
			system := must.Get(NewSystem(store, redis, "lossless"))(t)
			names := map[string]bool{}
			for _, c := range system.classes() {
				names[c.name] = true
				if redis == "none" && (c.marks.Redis && c.name != "isolate-node" && c.name != "isolate-host" || strings.Contains(c.name, "redis")) {
					t.Errorf("%v has %s", system, c.name)
				}
				if c.servers && len(c.targets) == 0 {
					t.Errorf("%v: %s has no target", system, c.name)
				}
			}
			if names["store-failover"] != (store != Mongo) || !names["store-kill"] || !names["restore"] || names["redis-kill"] != (redis == "sentinel") {
				t.Errorf("%v has %v", system, names)
			}
		}
	}
	for _, wrong := range [][3]string{{"oracle", "none", "lossless"}, {Mongo, "cluster", "lossless"}, {Mongo, "none", "lossy"}, {MySQL, "none", "lossy"}, {Postgres, "none", "some"}} {
		if _, err := NewSystem(wrong[0], wrong[1], wrong[2]); err == nil {
			t.Errorf("%v is accepted", wrong)
		}
	}
}

// What a seed determines in the default system stays as it is: docs/RELIABILITY.md names seeds.
func TestSeedsOfTheDocumentation(t *testing.T) {
	var got []string
	for _, p := range plan(System{}, 28, 45*time.Second, nil) {
		got = append(got, p.class.name+" "+p.target+p.detail())
	}
	want := []string{
		"sentinel-kill a", "clock-step a 400ms", "redis-failover ", "store-hang a", "redis-kill replica", "redis-restart-old primary",
		"clock-midnight c", "redis-restart primary", "store-lost-replies all",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
