package metrics

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// counts are the counters of one biz type.
type counts struct {
	bizType  string
	issued   atomic.Int64
	rejected [len(reasons)]atomic.Int64
	times    [len(events)]atomic.Int64
	numbers  [len(events)]atomic.Int64
	missed   int // how many scrapes in a row did not find the biz type
	// takenIssued and takenRejected are what [Metrics.Take] has told; guarded by Metrics.taking.
	takenIssued, takenRejected int64
}

// refused returns how many requests of the biz type were refused.
func (c *counts) refused() (n int64) {
	for i := range c.rejected {
		n += c.rejected[i].Load()
	}
	return n
}

// table is an open-addressing hash table of counts that is read without a lock. At least half of
// its cells are empty, and an empty cell ends a search.
type table []atomic.Pointer[counts]

// cell returns the cell that holds a name, or the empty one for it.
func (t table) cell(seed maphash.Seed, name string) *atomic.Pointer[counts] {
	last := uint64(len(t) - 1)
	for i := maphash.String(seed, name) & last; ; i = (i + 1) & last {
		if c := t[i].Load(); c == nil || c.bizType == name {
			return &t[i]
		}
	}
}

// labelled are the biz types that have a label of their own because they had an event.
type labelled struct {
	most  int
	seed  maphash.Seed
	table atomic.Pointer[table]
	full  atomic.Bool

	mu   sync.Mutex // guards what follows, and changes of table
	list []*counts
	// gone are the refusals of biz types that have lost their label, by the index of their code.
	gone [len(reasons)]int64
}

// begin initialises l.
func (l *labelled) begin(most int) {
	l.most, l.seed = most, maphash.MakeSeed()
	l.table.Store(l.fresh())
	l.full.Store(most == 0)
}

// fresh returns an empty table.
func (l *labelled) fresh() *table {
	t := make(table, 1<<bits.Len(uint(2*l.most)))
	return &t
}

// find returns the counts of a biz type, or nil if it has no label.
func (l *labelled) find(name string) *counts { return l.table.Load().cell(l.seed, name).Load() }

// add gives a biz type a label. It returns nil if there is none left.
func (l *labelled) add(name string) *counts {
	if name == "" || l.full.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	cell := l.table.Load().cell(l.seed, name)
	if c := cell.Load(); c != nil || len(l.list) == l.most {
		return c
	}
	c := &counts{bizType: strings.Clone(name)}
	cell.Store(c)
	l.list = append(l.list, c)
	l.full.Store(len(l.list) == l.most)
	return c
}

// all returns the counts of all biz types with a label.
func (l *labelled) all() []*counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*counts(nil), l.list...)
}

// refusals returns how many requests were refused since the start, by the index of the code.
func (l *labelled) refusals() [len(reasons)]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	sums := l.gone
	for _, c := range l.list {
		for i := range c.rejected {
			sums[i] += c.rejected[i].Load()
		}
	}
	return sums
}

// forgetAfter is how many scrapes in a row must miss a biz type before its label is given to
// another. A single scrape may have been just before the biz type appeared.
const forgetAfter = 2

// forget takes the labels from biz types that are gone.
func (l *labelled) forget(exists map[*counts]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept []*counts
	for _, c := range l.list {
		if c.missed++; exists[c] {
			c.missed = 0
		}
		if c.missed < forgetAfter {
			kept = append(kept, c)
			continue
		}
		for i := range c.rejected {
			l.gone[i] += c.rejected[i].Load()
		}
	}
	if len(kept) == len(l.list) {
		return
	}
	t := l.fresh()
	for _, c := range kept {
		t.cell(l.seed, c.bizType).Store(c)
	}
	l.list = kept
	l.table.Store(t)
	l.full.Store(len(kept) == l.most)
}
