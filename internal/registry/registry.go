// Package registry keeps factories by name, as database/sql keeps drivers.
package registry

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Registry maps names to factories. It is safe for concurrent use.
type Registry[F any] struct {
	kind string // for messages, in the plural: "strategies"

	mu        sync.RWMutex // guards factories
	factories map[string]F
}

// New returns an empty registry; kind is what its factories make, in the plural.
func New[F any](kind string) *Registry[F] {
	return &Registry[F]{kind: kind, factories: make(map[string]F)}
}

// Register adds a factory. It panics if the name is empty or taken, or if complete is false. Those
// are mistakes in the program, found at its first start.
func (r *Registry[F]) Register(name string, f F, complete bool) {
	if name == "" || !complete {
		panic(fmt.Sprintf("%s: Register needs a name and all functions, got %+v", r.kind, f))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, taken := r.factories[name]; taken {
		panic(fmt.Sprintf("%s: %s is registered twice", r.kind, name))
	}
	r.factories[name] = f
}

// Names lists the registered names, sorted.
func (r *Registry[F]) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.factories))
}

// Lookup returns a factory, or an error that lists the names there are.
func (r *Registry[F]) Lookup(name string) (F, error) {
	r.mu.RLock()
	f, ok := r.factories[name]
	r.mu.RUnlock()
	if !ok {
		return f, fmt.Errorf("%q is not one of the %s %q", name, r.kind, r.Names())
	}
	return f, nil
}
