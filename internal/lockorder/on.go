//go:build seqd_lockorder

package lockorder

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Outer is the mutex that a goroutine locks first.
type Outer struct{ mu sync.Mutex }

// Lock locks m.
func (m *Outer) Lock() {
	note(func(h *held) string { return h.take(&h.outer, "an outer lock is taken") })
	m.mu.Lock()
}

// Unlock unlocks m.
func (m *Outer) Unlock() {
	m.mu.Unlock()
	note(func(h *held) string { return give(&h.outer) })
}

// Inner is a mutex that a goroutine may lock while it holds an [Outer].
type Inner struct{ mu sync.Mutex }

// Lock locks m.
func (m *Inner) Lock() {
	note(func(h *held) string { return h.take(&h.inner, "an inner lock is taken") })
	m.mu.Lock()
}

// Unlock unlocks m.
func (m *Inner) Unlock() {
	m.mu.Unlock()
	note(func(h *held) string { return give(&h.inner) })
}

// Free asserts that the goroutine holds no lock of the two kinds, because it is about to do what.
func Free(what string) {
	note(func(h *held) string {
		if h.outer || h.inner {
			return what + " while a lock is held"
		}
		return ""
	})
}

// held is what a goroutine holds, or is about to.
type held struct{ outer, inner bool }

// take returns what is wrong with taking a lock now, "" for nothing.
func (h *held) take(kind *bool, what string) string {
	if h.inner || *kind {
		return what + " while another is held"
	}
	*kind = true
	return ""
}

// give returns what is wrong with giving a lock back, "" for nothing.
func give(kind *bool) string {
	if !*kind {
		return "a goroutine unlocks what another one has locked"
	}
	*kind = false
	return ""
}

var (
	mu  sync.Mutex // guards all
	all = map[string]held{}
	// fail ends the process. A panic could be recovered.
	fail = func(why string) {
		fmt.Fprintf(os.Stderr, "lock order: %s\n%s", why, debug.Stack())
		os.Exit(2)
	}
)

// note changes what this goroutine holds, and fails if change returns what is wrong.
func note(change func(*held) string) {
	var text [64]byte
	id := string(bytes.Fields(text[:runtime.Stack(text[:], false)])[1]) // goroutine 17 [running]:
	mu.Lock()
	h := all[id]
	wrong := change(&h)
	if all[id] = h; h == (held{}) {
		delete(all, id)
	}
	mu.Unlock()
	if wrong != "" {
		fail(wrong)
	}
}
