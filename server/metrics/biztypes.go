package metrics

import (
	"hash/maphash"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// counts are those of one biz type.
type counts struct {
	bizType  string
	issued   atomic.Int64
	rejected [len(reasons)]atomic.Int64
	times    [len(events)]atomic.Int64
	numbers  [len(events)]atomic.Int64
	missed   int // how often in a row a scrape found that there is no such biz type
}

// table finds counts by name, without a lock. A name is in the first slot from that of its hash on
// which is not another's; at least half of the slots stay free, and an empty one ends the search.
type table []atomic.Pointer[counts]

// slot returns where a name is, or is to be put.
func (t table) slot(seed maphash.Seed, name string) *atomic.Pointer[counts] {
	last := uint64(len(t) - 1)
	for i := maphash.String(seed, name) & last; ; i = (i + 1) & last {
		if c := t[i].Load(); c == nil || c.bizType == name {
			return &t[i]
		}
	}
}

// labelled are the biz types that have a label of their own because something was heard of them.
type labelled struct {
	most  int
	seed  maphash.Seed
	table atomic.Pointer[table]
	full  atomic.Bool

	mu   sync.Mutex // guards what follows, and changing table
	list []*counts
}

// begin comes before everything else.
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

// find returns the counts of a biz type, nil when it has no label.
func (l *labelled) find(name string) *counts { return l.table.Load().slot(l.seed, name).Load() }

// add gives a biz type a label; nil when there is none left.
func (l *labelled) add(name string) *counts {
	if name == "" || l.full.Load() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slot := l.table.Load().slot(l.seed, name)
	if c := slot.Load(); c != nil || len(l.list) == l.most {
		return c
	}
	c := &counts{bizType: strings.Clone(name)}
	slot.Store(c)
	l.list = append(l.list, c)
	l.full.Store(len(l.list) == l.most)
	return c
}

// all returns the counts of all that have a label.
func (l *labelled) all() []*counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*counts(nil), l.list...)
}

// forgetAfter is how many scrapes in a row must find that a biz type is gone until its label goes
// to another: one alone may have looked just before it came.
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
		}
	}
	if len(kept) == len(l.list) {
		return
	}
	t := l.fresh()
	for _, c := range kept {
		t.slot(l.seed, c.bizType).Store(c)
	}
	l.list = kept
	l.table.Store(t)
	l.full.Store(len(kept) == l.most)
}
