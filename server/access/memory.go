package access

import (
	"reflect"
	"sync"
	"sync/atomic"
)

// memory is what a process knows of the tokens. It is safe for concurrent use.
//
// No caller asks the store under its lock, so a slow store delays no change. Nevertheless an older
// reading never overwrites a newer one. A caller that reads the store, or writes to it, calls begin
// before, and settle after that. If memory has moved for the same token in between, settle does
// nothing, because nobody knows which of the two is newer. Then the caller reads the store again:
// what it reads after memory has moved is not older than memory.
type memory struct {
	known atomic.Pointer[set]

	mu    sync.Mutex // guards what follows, and who stores known
	steps int64      // how often memory moved
	// moved is at which step memory moved last for a token, also to none, or more than that: at
	// movedAll for those that are not in it.
	moved    map[string]int64
	movedAll int64
}

// mostMoved is how many names moved has.
const mostMoved = 1000

// begin returns the step, for settle.
func (m *memory) begin() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.steps
}

// settle lets memory have what was read or written of a token since a step: to, or no such token of
// the store. If memory has moved for the token since, settle returns false.
func (m *memory) settle(name string, began int64, to *Token) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if max(m.moved[name], m.movedAll) > began {
		return false
	}
	m.move(name)
	known := m.known.Load()
	before, was := known.names[name]
	switch {
	case was && before.Source == FromConfig: // it wins, whatever was read before it came
	case to != nil && !reflect.DeepEqual(before, *to): // a new set is not cheap
		m.known.Store(known.with(*to))
	case to == nil && was && before.Source == FromAPI:
		m.known.Store(known.without(name))
	}
	return true
}

// move counts a step. mu is held.
func (m *memory) move(name string) {
	m.steps++
	if m.moved == nil || len(m.moved) >= mostMoved {
		m.moved, m.movedAll = make(map[string]int64), m.steps
	}
	m.moved[name] = m.steps
}

// replace lets memory have what tokens returns of what it has. It counts as a move for every token: what
// was read before is read again.
func (m *memory) replace(tokens func(known map[string]Token) map[string]Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.known.Load()
	m.known.Store(newSet(tokens(known.names), known.complete))
	m.steps++
	m.moved, m.movedAll = nil, m.steps
}

// settleAll lets memory have all tokens, as they were read since a step. Those that memory has
// moved for since stay as they are, and settleAll returns their names: they must be read again. If
// it does not know them all, settleAll does nothing and returns false.
func (m *memory) settleAll(began int64, names map[string]Token) (moved []string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.movedAll > began {
		return nil, false
	}
	known := m.known.Load()
	for name, step := range m.moved {
		if step <= began {
			continue
		}
		moved = append(moved, name)
		delete(names, name)
		if token, is := known.names[name]; is {
			names[name] = token
		}
	}
	m.known.Store(newSet(names, true))
	m.steps++
	m.moved, m.movedAll = nil, m.steps
	return moved, true
}
