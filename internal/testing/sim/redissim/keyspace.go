package redissim

import (
	"container/heap"
	"maps"
	"slices"
)

// entry is a key: a string, or a hash.
type entry struct {
	text    string
	hash    map[string]string // nil for a string
	expires int64             // in ms, 0 for never
}

// keyspace is the keys of a server, by name.
type keyspace map[string]*entry

func (k keyspace) clone() keyspace {
	c := make(keyspace, len(k))
	for name, e := range k {
		c[name] = &entry{e.text, maps.Clone(e.hash), e.expires}
	}
	return c
}

// names returns the names of the keys, sorted.
func (k keyspace) names() []string { return slices.Sorted(maps.Keys(k)) }

// deadline is when a key expires, in ms, unless it is written again.
type deadline struct {
	at   int64
	name string
}

// deadlines is a heap of those of a primary, the soonest first.
type deadlines []deadline

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (d deadlines) Len() int { return len(d) }
func (d deadlines) Less(i, j int) bool {
	return d[i].at < d[j].at || d[i].at == d[j].at && d[i].name < d[j].name
}
func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d *deadlines) Push(x any)   { *d = append(*d, x.(deadline)) }
func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

func (k keyspace) deadlines() (d deadlines) {
	for name, e := range k {
		if e.expires != 0 {
			heap.Push(&d, deadline{e.expires, name})
		}
	}
	return d
}

// expire removes what has expired from a primary. A replica waits until its primary does so.
func (s *Server) expire() {
	if s.primary != nil || len(s.due) == 0 {
		return
	}
	for now := s.now().UnixMilli(); len(s.due) > 0 && now > s.due[0].at; {
		next := heap.Pop(&s.due).(deadline)
		if e := s.keys[next.name]; e != nil && e.expires == next.at {
			s.remove(next.name)
		}
	}
}

// find returns a key, nil if there is none.
func (s *Server) find(name string) *entry {
	e := s.keys[name]
	if e != nil && e.expires != 0 && s.now().UnixMilli() > e.expires {
		return nil
	}
	return e
}

// findHash returns a hash, nil if there is none.
func (s *Server) findHash(name string) (hash map[string]string, err any) {
	e := s.find(name)
	switch {
	case e == nil:
		return nil, nil
	case e.hash == nil:
		return nil, wrongType
	}
	return e.hash, nil
}

// remove is DEL.
func (s *Server) remove(name string) {
	s.write(func(t *Server) { delete(t.keys, name) })
}

// setText is SET.
func (s *Server) setText(name, text string, expires int64) {
	s.write(func(t *Server) {
		t.keys[name] = &entry{text: text, expires: expires}
		if expires != 0 && t.primary == nil {
			heap.Push(&t.due, deadline{expires, name})
		}
	})
}

// setFields is HSET.
func (s *Server) setFields(name string, pairs []string) {
	s.write(func(t *Server) {
		e := t.keys[name]
		if e == nil {
			e = &entry{hash: make(map[string]string, len(pairs)/2)}
			t.keys[name] = e
		}
		for i := 0; i < len(pairs); i += 2 {
			e.hash[pairs[i]] = pairs[i+1]
		}
	})
}

// removeFields is HDEL. A hash without fields is removed.
func (s *Server) removeFields(name string, fields []string) {
	s.write(func(t *Server) {
		if e := t.keys[name]; e != nil {
			for _, field := range fields {
				delete(e.hash, field)
			}
			if len(e.hash) == 0 {
				delete(t.keys, name)
			}
		}
	})
}
