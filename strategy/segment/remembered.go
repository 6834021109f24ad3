package segment

import (
	"maps"
	"sync"

	"github.com/seqd/seqd/strategy/live"
)

// remembered is what a process knows of keys that it has closed. It remembers at least the latest half
// of most, and at most that many. What it forgets, the process would not know after a restart
// either: it shows only that the store was restored from an older copy.
type remembered struct {
	most int

	mu           sync.Mutex // guards what follows
	newer, older map[live.Name]known
}

// mostRemembered is how many keys a process knows about that it has closed: about 15 MB.
const mostRemembered = 100_000

// of returns what is known of a key.
func (m *remembered) of(name live.Name) known {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.newer[name]; ok {
		return k
	}
	return m.older[name]
}

// keep notes what is known of a key.
func (m *remembered) keep(name live.Name, k known) {
	if k == (known{}) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.newer == nil {
		m.newer = make(map[live.Name]known)
	}
	if before, ok := m.newer[name]; ok {
		k = k.with(before)
	} else {
		k = k.with(m.older[name])
	}
	if m.newer[name] = k; len(m.newer) >= m.most/2 {
		m.newer, m.older = make(map[live.Name]known), m.newer
	}
}

// all returns what is known of all keys.
func (m *remembered) all() map[live.Name]known {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[live.Name]known, len(m.older))
	maps.Copy(all, m.older)
	maps.Copy(all, m.newer)
	return all
}
