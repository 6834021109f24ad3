package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
)

// planned is a fault of the schedule.
type planned struct {
	class  *class
	at     time.Duration // counted from when all nodes are ready
	length time.Duration
	// a node, a server, a pair of hosts "a×r1", or a role: primary, replica
	target string
	amount time.Duration // for clocks and slow stores
	way    string        // for faults of the network
}

func (p planned) String() string {
	text := fmt.Sprintf("%7.2fs  for %6.2fs  %-18s %s", p.at.Seconds(), p.length.Seconds(), p.class.name, p.target)
	return text + p.detail()
}

// ends returns when a fault has completely ended.
func (p planned) ends() time.Duration { return p.at + p.length + p.class.after }

// detail returns further properties of a fault.
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
	pairs      = 45              // percent of faults that overlap a second one

	// shorter runs have no slow faults, which would leave no time for others
	roomy     = 90 * time.Second
	slowShare = 3 // slow faults take at most 1/slowShare of a run
)

// plan returns the schedule of faults of a system for a seed, of the named classes or of all.
// Classes are dealt like cards of a deck, which is shuffled again when it is empty, so that even a
// short run has most of them. Faults come alone or in pairs, followed by a pause in which the
// system may recover. Slow faults have a limited share of a run, unless classes are named.
func plan(system System, seed int64, duration time.Duration, only []string) (all []planned) {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	deck := &deck{r: r, classes: dealt(system.classes(), duration, only)}
	fits := func(p planned) bool { return len(only) > 0 || hasRoom(all, p, duration) }
	for at := quietBegin; ; at += 500*time.Millisecond + load.UpTo(r, 2*time.Second) {
		first, found := deck.draw(func(p planned) bool { p.at = at; return fits(p) })
		if !found {
			return all
		}
		first.at = at
		episode := []planned{first}
		if r.IntN(100) < pairs {
			second, found := deck.draw(func(p planned) bool { p.at = at + first.length; return !collide(first, p) && fits(p) })
			if found {
				second.at = at + load.UpTo(r, first.length)
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

// dealt returns the classes of a run.
func dealt(all []class, duration time.Duration, only []string) (fresh []*class) {
	for i := range all {
		c := &all[i]
		switch {
		case len(only) > 0 && !slices.Contains(only, c.name):
		case len(only) == 0 && c.after > 0 && duration < roomy:
		default:
			fresh = append(fresh, c)
		}
	}
	return fresh
}

// hasRoom reports whether a fault may come after the planned ones. A fault that ends at once always
// may.
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

// draw returns a fault of the next suitable class, or none if two decks have none.
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

// deal draws the properties that a class leaves open.
func (d *deck) deal(c *class) planned {
	p := planned{class: c, length: c.least + load.UpTo(d.r, c.most-c.least+1)}
	if c.targets != nil {
		p.target = load.Pick(d.r, c.targets)
	}
	if c.amounts != nil {
		p.amount = load.Pick(d.r, c.amounts)
	}
	if c.ways != nil {
		p.way = load.Pick(d.r, c.ways)
	}
	return p
}

// collide reports whether two faults use the same part.
func collide(a, b planned) bool {
	return slices.ContainsFunc(a.class.locks(a.target), func(lock string) bool { return slices.Contains(b.class.locks(b.target), lock) })
}

// Faults returns how many faults a run has.
func Faults(system System, seed int64, duration time.Duration, only []string) int {
	return len(plan(system, seed, duration, only))
}

// PrintPlan prints the schedule of a run.
func PrintPlan(out io.Writer, system System, seed int64, duration time.Duration, only []string) {
	for _, p := range plan(system, seed, duration, only) {
		_, _ = fmt.Fprintln(out, p)
	}
}

// Classes splits a comma-separated list of classes, and rejects those that the system does not
// have. Records of earlier versions call the faults of the store mongo-kill, mongo-cut and so on;
// these names are understood.
func Classes(system System, list string) (only []string, err error) {
	if list == "" {
		return nil, nil
	}
	var names []string
	for _, c := range system.classes() {
		names = append(names, c.name)
	}
	for name := range strings.SplitSeq(list, ",") {
		if of, former := strings.CutPrefix(name, "mongo-"); former {
			name = "store-" + of
		}
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("unknown class of faults %q; the classes are %s", name, strings.Join(names, ", "))
		}
		only = append(only, name)
	}
	return only, nil
}
