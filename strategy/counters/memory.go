package counters

import "github.com/seqd/seqd/internal/lockorder"

// Known is what is known of a counter; the zero value is nothing.
type Known interface {
	comparable
	// Refuses reports whether the counter refuses to issue because of this.
	Refuses() bool
}

// Memory is what a process knows of counters that it has closed, such as how far they had come. It
// shows that the store was put back to an older copy, which nothing else shows. So a counter that
// refuses to issue because of what is known of it is never forgotten. Of the others a Memory
// remembers those that were closed last: at least Least, and less than twice as many. It is safe
// for concurrent use.
type Memory[V Known] struct {
	// Least is how many counters are remembered at least.
	Least int

	mu lockorder.Inner // guards what follows
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

// Keep replaces what is known of a counter, unless that is nothing: the zero value.
func (m *Memory[V]) Keep(name Name, known V) {
	var nothing V
	if known == nothing {
		return
	}
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

// All returns what is known of all counters, what was kept last at the end.
func (m *Memory[V]) All() []Memo[V] {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Memo[V], 0, len(m.older)+len(m.newer)+len(m.refusing))
	for _, some := range []map[Name]V{m.older, m.newer, m.refusing} {
		for name, known := range some {
			all = append(all, Memo[V]{name, known})
		}
	}
	return all
}

// Memo is what is known of one counter.
type Memo[V Known] struct {
	Name  Name
	Known V
}

// Learn keeps the memos of an earlier strategy, unless that was of another kind. What must be
// forgotten last is at the end, and of two memos of one counter the later one counts.
func (m *Memory[V]) Learn(from any) {
	memos, _ := from.([]Memo[V])
	for _, memo := range memos {
		m.Keep(memo.Name, memo.Known)
	}
}
