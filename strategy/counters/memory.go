package counters

import (
	"maps"
	"sync"
)

// Memory is what a process knows of counters that it has closed, such as how far they had come. It
// shows that the store was put back to an older copy, which nothing else shows. So a counter that
// refuses to issue because of what is known of it is never forgotten. Of the others a Memory
// remembers those that were closed last: at least Least, and less than twice as many. It is safe
// for concurrent use.
type Memory[V interface{ Refuses() bool }] struct {
	// Least is how many counters are remembered at least.
	Least int

	mu sync.Mutex // guards what follows
	// refusing are the counters that refuse to issue, newer and older the others.
	refusing, newer, older map[Name]V
}

// Remembered is how many closed counters of a biz type a process remembers at least: about 15 MB
// with those that it remembers too.
const Remembered = 50_000

// Of returns what is known of a counter, the zero value for nothing.
func (m *Memory[V]) Of(name Name) V {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, some := range []map[Name]V{m.refusing, m.newer} {
		if known, ok := some[name]; ok {
			return known
		}
	}
	return m.older[name]
}

// Keep replaces what is known of a counter. Its Refuses reports whether the counter refuses to
// issue because of that.
func (m *Memory[V]) Keep(name Name, known V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newer == nil {
		m.refusing, m.newer = make(map[Name]V), make(map[Name]V)
	}
	if known.Refuses() {
		m.refusing[name] = known
		return
	}
	delete(m.refusing, name)
	if m.newer[name] = known; len(m.newer) >= m.Least {
		m.newer, m.older = make(map[Name]V), m.newer
	}
}

// All returns what is known of all counters.
func (m *Memory[V]) All() map[Name]V {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.older)
	if all == nil {
		all = make(map[Name]V, len(m.newer))
	}
	maps.Copy(all, m.newer)
	maps.Copy(all, m.refusing)
	return all
}
