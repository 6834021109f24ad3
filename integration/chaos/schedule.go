package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// planned is a fault of the schedule.
type planned struct {
	class  *class
	at     time.Duration // from the moment that all nodes are ready
	length time.Duration
	target string        // a node, a server, a pair of hosts "a×r1", or a part that is played: primary, replica
	amount time.Duration // of clocks and of slow stores
	way    string        // of what the network does
}

func (p planned) String() string {
	text := fmt.Sprintf("%7.2fs  for %6.2fs  %-18s %s", p.at.Seconds(), p.length.Seconds(), p.class.name, p.target)
	return text + p.detail()
}

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
)

// plan is the schedule of faults that a seed determines. Classes come in turn, as cards of a deck that is shuffled anew when it is used up, so that even a short run sees most of
// them; faults come alone or in pairs, with a pause in which the system may recover.
func plan(seed int64, duration time.Duration) (all []planned) {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	deck := &deck{r: r}
	for at := quietBegin; ; at += 500*time.Millisecond + upTo(r, 2*time.Second) {
		first := deck.draw(nil)
		first.at = at
		episode := []planned{first}
		if r.IntN(100) < pairs {
			second := deck.draw(&first)
			second.at = at + upTo(r, first.length)
			episode = append(episode, second)
		}
		for i := range episode {
			at = max(at, episode[i].at+episode[i].length)
		}
		if at > duration-quietEnd {
			return all
		}
		all = append(all, episode...)
	}
}

// deck deals classes.
type deck struct {
	r     *rand.Rand
	cards []*class
}

// draw returns a fault of the next class that can go together with another one.
func (d *deck) draw(beside *planned) planned {
	for i := 0; ; i++ {
		if i == len(d.cards) {
			var fresh []*class
			for j := range classes {
				if c := &classes[j]; c.holds != "mongo" || !Foreign() { // only the laboratory's own is broken
					fresh = append(fresh, c)
				}
			}
			d.r.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] })
			d.cards = append(d.cards, fresh...)
		}
		p := d.deal(d.cards[i])
		if beside == nil || !collide(*beside, p) {
			d.cards = slices.Delete(d.cards, i, i+1)
			return p
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
func Faults(seed int64, duration time.Duration) int { return len(plan(seed, duration)) }

// PrintPlan prints the schedule of a run.
func PrintPlan(out io.Writer, seed int64, duration time.Duration) {
	for _, p := range plan(seed, duration) {
		_, _ = fmt.Fprintln(out, p)
	}
}
