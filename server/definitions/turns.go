package definitions

import (
	"sync"

	"github.com/seqd/seqd/internal/longlock"
)

// turns are locks by name, which are held while the store is asked. A lock that nobody holds or waits for takes no memory.
type turns struct {
	mu    sync.Mutex // guards what follows
	names map[string]*turn
}

type turn struct {
	lock  longlock.Lock
	users int // those who hold it or wait for it
}

// take locks a name and returns the function that unlocks it.
func (t *turns) take(name string) (end func()) {
	t.mu.Lock()
	if t.names == nil {
		t.names = make(map[string]*turn)
	}
	own := t.names[name]
	if own == nil {
		own = new(turn)
		t.names[name] = own
	}
	own.users++
	t.mu.Unlock()
	own.lock.Lock()
	return func() {
		own.lock.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.names, name)
		}
	}
}
