package redissim

import (
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

// soonest returns when the first key expires, 0 for never.
func (k keyspace) soonest() (at int64) {
	for _, e := range k {
		at = earlier(at, e.expires)
	}
	return at
}

// earlier returns the earlier of two times, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// expire removes what has expired from a primary. A replica waits until its primary does so.
func (s *Server) expire() {
	if s.soonest == 0 || s.primary != nil {
		return
	}
	now := s.now().UnixMilli()
	if now <= s.soonest {
		return
	}
	for _, name := range s.keys.names() {
		if at := s.keys[name].expires; at != 0 && now > at {
			s.remove(name)
		}
	}
	s.soonest = s.keys.soonest()
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
		t.soonest = earlier(t.soonest, expires)
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
