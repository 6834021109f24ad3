package counters

import (
	"context"
	"maps"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
)

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

// Knower is a strategy of several counters, or what stays of one.
type Knower[V Known] interface {
	// Knows returns what is known of the counters. It may be asked at any time.
	Knows() map[Name]V
}

// Inherit keeps what a strategy knows, if it is a [Knower].
func (m *Memory[V]) Inherit(from seqd.Strategy) {
	if k, ok := from.(Knower[V]); ok {
		for name, known := range k.Knows() {
			m.Keep(name, known)
		}
	}
}

// Nobody is a strategy that issues nothing: others only inherit from it.
type Nobody struct{}

// Init refuses.
func (Nobody) Init(context.Context, bool) error { return ErrStopping }

// Generate refuses.
func (Nobody) Generate(context.Context, int, *seqd.Sequence) error { return ErrStopping }

// Close has nothing to end.
func (Nobody) Close(context.Context) error { return nil }

// legacy is what stays of a closed strategy. It is smaller than a map, because there may be very
// many.
type legacy[V Known] struct {
	Nobody
	kept []memo[V]
}

type memo[V Known] struct {
	name  Name
	known V
}

// Legacy returns what stays of a closed strategy, nil if it knows nothing.
func Legacy[V Known](of Knower[V]) seqd.Strategy {
	all := of.Knows()
	if len(all) == 0 {
		return nil
	}
	left := &legacy[V]{kept: make([]memo[V], 0, len(all))}
	for name, known := range all {
		left.kept = append(left.kept, memo[V]{name, known})
	}
	return left
}

// Knows implements [Knower].
func (l *legacy[V]) Knows() map[Name]V {
	all := make(map[Name]V, len(l.kept))
	for _, e := range l.kept {
		all[e.name] = e.known
	}
	return all
}
