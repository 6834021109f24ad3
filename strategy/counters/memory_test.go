package counters

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

type fact struct {
	last    int
	refuses bool
}

func (f fact) Refuses() bool { return f.refuses }

// What is remembered is bounded, except what refuses to issue because of it.
func TestMemory(t *testing.T) {
	m := Memory[fact]{Least: 50}
	m.Keep(Name{Key: "stands"}, fact{1, false})
	m.Keep(Name{Key: "stands"}, fact{7, true})
	name := func(i int) Name { return Name{Key: fmt.Sprint(i)} }
	for i := range 1000 {
		m.Keep(name(i), fact{i, false})
		if n := len(m.All()); n > 100 {
			t.Fatalf("%d are remembered", n)
		}
		for back := range min(i, 49) {
			if got := m.Of(name(i - back)).last; got != i-back {
				t.Fatalf("of %d it knows %d after %d others", i-back, got, back)
			}
		}
		if got := m.Of(Name{Key: "stands"}); got.last != 7 || !slices.Contains(m.All(), Memo[fact]{Name{Key: "stands"}, got}) {
			t.Fatalf("what refuses was forgotten after %d others: %v", i, got)
		}
	}
	m.Keep(Name{Key: "stands"}, fact{9, false}) // it was raised
	for i := range 100 {
		m.Keep(name(i), fact{i, false})
	}
	must.Equal(t, m.Of(Name{Key: "stands"}), (fact{}), "what no longer refuses is remembered for ever")
}

// An heir forgets first what was closed first, as its predecessor would have.
func TestLearn(t *testing.T) {
	last, name := 0, func(i int) Name { return Name{Key: fmt.Sprint(i)} }
	first := &Memory[fact]{Least: 20}
	for generation, more := range []int{39, 1, 25, 0, 14, 1} {
		for range more {
			last++
			first.Keep(name(last), fact{last, false})
		}
		heir := &Memory[fact]{Least: 20}
		if heir.Learn(first.All()); len(heir.All()) >= 40 {
			t.Errorf("generation %d remembers %d", generation, len(heir.All()))
		}
		for i := last - 19; i <= last; i++ {
			must.Equal(t, heir.Of(name(i)).last, i, "generation %d: what it knows of %d", generation, i)
		}
		first = heir
	}
}
