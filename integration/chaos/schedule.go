package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// planned is a fault of the schedule.
type planned struct {
	class  *class
	at     time.Duration // from the moment that all nodes are ready
	length time.Duration
	// a node, a server, a pair of hosts "a×r1", or a part that is played: primary, replica
	target string
	amount time.Duration // of clocks and of slow stores
	way    string        // of what the network does
}

func (p planned) String() string {
	text := fmt.Sprintf("%7.2fs  for %6.2fs  %-18s %s", p.at.Seconds(), p.length.Seconds(), p.class.name, p.target)
	return text + p.detail()
}

// ends is when a fault has ended altogether.
func (p planned) ends() time.Duration { return p.at + p.length + p.class.after }

// detail is what else is to be said of a fault.
func (p planned) detail() string {
	switch {
	case p.amount != 0:
		return fmt.Sprintf(" %v", p.amount)
	case p.way != "":
		return " " + p.way
	}
	return ""
}

const (
	quietBegin = 2 * time.Second // before the first fault
	quietEnd   = 6 * time.Second // after the last one
	pairs      = 45              // percent of faults that get a second one beside them

	// shorter runs have no slow faults, which would leave no room for others
	roomy     = 90 * time.Second
	slowShare = 3 // slow faults take at most one part in so many of a run
)

// plan is the schedule of faults that a seed determines, of some classes or, where none is named,
// of all. Classes come in turn, as cards of a deck that is shuffled anew when it is used up, so
// that even a short run sees most of them; faults come alone or in pairs, with a pause in which the
// system may recover. Slow ones have their share of a run, unless classes are named.
func plan(seed int64, duration time.Duration, only []string) (all []planned) {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	deck := &deck{r: r, classes: dealt(duration, only)}
	fits := func(p planned) bool { return len(only) > 0 || hasRoom(all, p, duration) }
	for at := quietBegin; ; at += 500*time.Millisecond + upTo(r, 2*time.Second) {
		first, found := deck.draw(func(p planned) bool { p.at = at; return fits(p) })
		if !found {
			return all
		}
		first.at = at
		episode := []planned{first}
		if r.IntN(100) < pairs {
			second, found := deck.draw(func(p planned) bool { p.at = at + first.length; return !collide(first, p) && fits(p) })
			if found {
				second.at = at + upTo(r, first.length)
				episode = append(episode, second)
			}
		}
		for i := range episode {
			at = max(at, episode[i].ends())
		}
		if at > duration-quietEnd {
			return all
		}
		all = append(all, episode...)
	}
}

// dealt are the classes of a run.
func dealt(duration time.Duration, only []string) (fresh []*class) {
	for i := range classes {
		c := &classes[i]
		switch {
		case c.holds == "mongo" && Foreign(): // only the laboratory's own is broken
		case len(only) > 0 && !slices.Contains(only, c.name):
		case len(only) == 0 && c.after > 0 && duration < roomy:
		default:
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// hasRoom reports whether a fault may come after those that are planned already. Those that end at
// once always may.
func hasRoom(all []planned, p planned, duration time.Duration) bool {
	if p.class.after == 0 {
		return true
	}
	times, slow := 1, p.length+p.class.after
	for _, before := range all {
		if before.class == p.class {
			times++
		}
		if before.class.after > 0 {
			slow += before.length + before.class.after
		}
	}
	return (p.class.times == 0 || times <= p.class.times) && slow*slowShare <= duration && p.ends() <= duration-quietEnd
}

// deck deals classes.
type deck struct {
	r       *rand.Rand
	classes []*class
	cards   []*class
}

// draw returns a fault of the next class that will do; none where two decks have none.
func (d *deck) draw(will func(planned) bool) (p planned, found bool) {
	shuffled := 0
	for i := 0; ; i++ {
		if i == len(d.cards) {
			if shuffled++; shuffled > 2 || len(d.classes) == 0 {
				return planned{}, false
			}
			fresh := slices.Clone(d.classes)
			d.r.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
			d.cards = append(d.cards, fresh...)
		}
		p := d.deal(d.cards[i])
		if will(p) {
			d.cards = slices.Delete(d.cards, i, i+1)
			return p, true
		}
	}
}

// deal draws what a class leaves open.
func (d *deck) deal(c *class) planned {
	p := planned{class: c, length: c.least + upTo(d.r, c.most-c.least+1)}
	if c.targets != nil {
		p.target = pick(d.r, c.targets)
	}
	if c.amounts != nil {
		p.amount = pick(d.r, c.amounts)
	}
	if c.ways != nil {
		p.way = pick(d.r, c.ways)
	}
	return p
}

// collide reports whether two faults lay hands on the same thing.
func collide(a, b planned) bool {
	return slices.ContainsFunc(a.class.locks(a.target), func(lock string) bool { return slices.Contains(b.class.locks(b.target), lock) })
}

// Faults is how many faults a run has.
func Faults(seed int64, duration time.Duration, only []string) int {
	return len(plan(seed, duration, only))
}

// PrintPlan prints the schedule of a run.
func PrintPlan(out io.Writer, seed int64, duration time.Duration, only []string) {
	for _, p := range plan(seed, duration, only) {
		_, _ = fmt.Fprintln(out, p)
	}
}

// Classes splits a list of classes, separated by commas, and refuses what is none.
func Classes(list string) (only []string, err error) {
	if list == "" {
		return nil, nil
	}
	var names []string
	for i := range classes {
		names = append(names, classes[i].name)
	}
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%q is no class of faults; there are %s", name, strings.Join(names, ", "))
		}
		only = append(only, name)
	}
	return only, nil
}
