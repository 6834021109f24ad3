package storesim

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// Mode is what a failover of the database can lose, and so whether its stores are a
// [persist.Fenced].
type Mode int

const (
	// Unfenced is a database that loses nothing and has no fences.
	Unfenced Mode = iota
	// Lossy is a database whose standby may lack the last writes.
	Lossy
	// Lossless is a database with fences whose standby has every write that was acknowledged.
	Lossless
)

// Options configure a cluster.
type Options struct {
	Mode Mode
	// Clock is the clock of the database; nil for time.Now.
	Clock func() time.Time
	// Lag is how many writes the standby of a Lossy database lacks at most.
	Lag int
	// Without are rules that are taken out: [sabotage.RangeOnce], [sabotage.EpochHeld],
	// [sabotage.GiveBackSwap] or [sabotage.FenceCompared].
	Without []sabotage.Rule
}

// lag is how old a write can be that a failover loses. Package sqlstore counts on it for registries of
// machine IDs.
const lag = time.Minute

// Cluster is the database. It is safe for concurrent use.
type Cluster struct {
	opts  Options
	ctx   context.Context // ends with the cluster
	close context.CancelFunc

	mu       sync.Mutex // guards what follows, and the views
	changed  chan struct{}
	state    State
	primary  *database
	standby  *database             // nil if Unfenced
	unsent   []write               // that the standby lacks
	promoted int                   // how often a server took over or was restored; operations of before do not arrive
	timeline int                   // the highest that was ever used
	unheard  map[*Unheard]struct{} // see the method
}

// write is a change that was applied to the primary.
type write struct {
	at, stored time.Time // when, by the clock of the bubble, and by that of the database
	do         operation
}

// New returns an empty database. Its Close ends what is still under way.
func New(opts Options) *Cluster {
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	c := &Cluster{opts: opts, changed: make(chan struct{}), timeline: 1, unheard: make(map[*Unheard]struct{})}
	c.ctx, c.close = context.WithCancel(context.Background())
	c.primary = newDatabase(c.rules())
	c.follow()
	return c
}

// rules returns what the options say about the rules of a database.
func (c *Cluster) rules() rules {
	off := func(r sabotage.Rule) bool { return slices.Contains(c.opts.Without, r) || sabotage.Off(r) }
	return rules{
		mode:     c.opts.Mode,
		compares: c.opts.Mode != Unfenced && !off(sabotage.FenceCompared),
		once:     !off(sabotage.RangeOnce), epochHeld: !off(sabotage.EpochHeld), giveBackSwap: !off(sabotage.GiveBackSwap),
	}
}

// Close ends the database: every operation returns persist.ErrClosed.
func (c *Cluster) Close() { c.close() }

// Set sets the state of the database, for all nodes.
func (c *Cluster) Set(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = s
	c.wake()
}

// wake lets all that wait look again; mu is held.
func (c *Cluster) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// follow gives the primary a new standby, which has all that the primary has; mu is held.
func (c *Cluster) follow() {
	c.unsent = nil
	if c.opts.Mode != Unfenced {
		c.standby = c.primary.copy()
	}
}

// apply does an operation on the primary, at the time of the database; mu is held.
func (c *Cluster) apply(call Call, do operation) (any, error) {
	c.primary.at = c.opts.Clock()
	got, err := do(c.primary)
	if err == nil && call.Write && c.standby != nil {
		c.unsent = append(c.unsent, write{time.Now(), c.primary.at, do})
		c.replicate(c.mayLack())
	}
	return got, err
}

// mayLack is how many writes the standby may lack.
func (c *Cluster) mayLack() int {
	if c.opts.Mode == Lossless {
		return 0
	}
	return c.opts.Lag
}

// replicate applies the oldest writes to the standby until it lacks at most n, and none that is too
// old; mu is held.
func (c *Cluster) replicate(n int) {
	sent := 0
	for _, w := range c.unsent {
		if len(c.unsent)-sent <= n && time.Since(w.at) < lag {
			break
		}
		c.standby.at = w.stored
		_, _ = w.do(c.standby) // as on the primary
		sent++
	}
	c.unsent = slices.Delete(c.unsent, 0, sent)
}

// SetLag changes how many writes the standby lacks at most.
func (c *Cluster) SetLag(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Lag = n
	if c.standby != nil {
		c.replicate(c.mayLack())
	}
}

// SetMode changes what the nodes are told that a failover loses. None may run.
func (c *Cluster) SetMode(m Mode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Mode = m
	c.primary.rules = c.rules()
	c.primary.told()
	c.follow()
}

// Unheard is a range that the database gave, and of which the node that asked never heard.
type Unheard struct {
	Counter string
	persist.Range
}

// Unheard returns all such ranges so far. They include those that are on their way.
func (c *Cluster) Unheard() (all []Unheard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for u := range c.unheard {
		all = append(all, *u)
	}
	return all
}

// told notes that a node has heard of a range.
func (c *Cluster) told(u *Unheard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unheard, u)
}

// Lost is what a failover loses of one counter.
type Lost struct {
	Counter string
	// Max is the highest number that left the store, and Standby what the standby knows of that.
	Max, Standby int64
	// Missing is true if the standby has no such counter, Deleted if only the standby has it.
	Missing, Deleted bool
}

// Behind returns what a failover would lose now, of each counter that differs, by name. What seqd
// promises after a failover depends on it: the numbers must fit into the gap.
func (c *Cluster) Behind() []Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind()
}

func (c *Cluster) behind() (list []Lost) {
	if c.standby == nil {
		return nil
	}
	c.replicate(c.mayLack())
	has := make(map[string]persist.Counter)
	for m := range c.standby.counters() {
		has[m.BizTag] = m
	}
	for m := range c.primary.counters() {
		known, ok := has[m.BizTag]
		if delete(has, m.BizTag); !ok || known.Max != m.Max {
			list = append(list, Lost{Counter: m.BizTag, Max: m.Max, Standby: known.Max, Missing: !ok})
		}
	}
	for name, m := range has {
		list = append(list, Lost{Counter: name, Standby: m.Max, Deleted: true})
	}
	slices.SortFunc(list, func(a, b Lost) int { return strings.Compare(a.Counter, b.Counter) })
	return list
}

// Failover promotes the standby, and returns what it lacked of the counters. Writes that it lacks are
// lost; none are if whole is true. What is under way to the database does not arrive.
func (c *Cluster) Failover(whole bool) []Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.standby == nil {
		panic("storesim: a database without fences has no standby")
	}
	if whole {
		c.replicate(0)
	}
	lost := c.behind()
	c.takeOver(c.standby, true)
	return lost
}

// takeOver makes a database the primary, on a new timeline or on its own; mu is held.
func (c *Cluster) takeOver(db *database, promoted bool) {
	if promoted {
		c.timeline++
		db.current = c.timeline
	}
	c.primary = db
	c.promoted++
	c.follow()
	c.wake()
}

// Confirm confirms the failover, as an operator does with seqd failover --confirm.
func (c *Cluster) Confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.apply(Call{Op: "confirm fence", Write: true}, func(db *database) (any, error) {
		return nil, db.confirm(fence(db.present()))
	})
}

// Backup is a copy of a database.
type Backup struct{ db *database }

// Backup returns a copy of everything.
func (c *Cluster) Backup() Backup {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Backup{c.primary.copy()}
}

// Lose replaces everything by an empty database, as after a disk was lost.
func (c *Cluster) Lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeOver(newDatabase(c.rules()), false)
}

// Restore replaces everything by a copy, which can be restored again. If recovered is true, the fence
// is a new one, as after PostgreSQL's recovery to a point in time. Otherwise it is that of the copy, as
// after copying files. What is under way to the database does not arrive.
func (c *Cluster) Restore(b Backup, recovered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takeOver(b.db.copy(), recovered)
}
