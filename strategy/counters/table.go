package counters

import (
	"hash/maphash"
	"sync/atomic"
)

// table finds entries by their names. It is read without a lock while it is changed: then it may
// miss an entry that was just added, or return one that was just removed. It is changed by one
// goroutine at a time.
type table[C any] struct {
	buckets []atomic.Pointer[link[C]] // their number is a power of two
	entries int
}

// seed makes hashes unpredictable: callers choose keys.
var seed = maphash.MakeSeed()

// link is one entry of a bucket. It never changes.
type link[C any] struct {
	entry *Entry[C]
	next  *link[C]
}

// newTable returns a table with room for some entries.
func newTable[C any](entries int) *table[C] {
	size := 2
	for size < entries {
		size *= 2
	}
	return &table[C]{buckets: make([]atomic.Pointer[link[C]], size)}
}

func (t *table[C]) bucket(name Name) *atomic.Pointer[link[C]] {
	h := maphash.String(seed, name.Key) ^ uint64(name.Period)*0x9e3779b97f4a7c15
	return &t.buckets[(h^h>>32)&uint64(len(t.buckets)-1)]
}

// find returns an entry, nil if there is none.
func (t *table[C]) find(name Name) *Entry[C] {
	for l := t.bucket(name).Load(); l != nil; l = l.next {
		if l.entry.name == name {
			return l.entry
		}
	}
	return nil
}

func (t *table[C]) put(e *Entry[C]) {
	b := t.bucket(e.name)
	b.Store(&link[C]{e, b.Load()})
	t.entries++
}

// drop removes an entry. The links before it are replaced, because others may be reading them.
func (t *table[C]) drop(e *Entry[C]) {
	b := t.bucket(e.name)
	var kept *link[C]
	l := b.Load()
	for ; l.entry != e; l = l.next {
		kept = &link[C]{l.entry, kept}
	}
	rest := l.next
	for ; kept != nil; kept = kept.next {
		rest = &link[C]{kept.entry, rest}
	}
	b.Store(rest)
	t.entries--
}

// each calls f with each entry.
func (t *table[C]) each(f func(*Entry[C])) {
	for i := range t.buckets {
		for l := t.buckets[i].Load(); l != nil; l = l.next {
			f(l.entry)
		}
	}
}

// resized returns a table with the same entries and room for some.
func (t *table[C]) resized(entries int) *table[C] {
	next := newTable[C](entries)
	t.each(next.put)
	return next
}

// add adds an entry to the set's table. mu is held.
func (s *Set[C]) add(e *Entry[C]) {
	t := s.table.Load()
	if t.entries == len(t.buckets) {
		t = t.resized(2 * t.entries)
		s.table.Store(t)
	}
	t.put(e)
}

// remove removes an entry from the set's table. mu is held.
func (s *Set[C]) remove(e *Entry[C]) {
	t := s.table.Load()
	t.drop(e)
	if len(t.buckets) > 8*(t.entries+1) {
		s.table.Store(t.resized(2 * t.entries))
	}
}
