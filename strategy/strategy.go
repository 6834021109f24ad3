// Package strategy is the registry of strategies: factories by name, as database/sql keeps drivers. A strategy registers
// itself in an init function of its package and a program gets it by importing that package (package standard imports
// all that come with seqd).
package strategy

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Env is what a strategy is built from.
type Env struct {
	// Store is where ranges come from. It is open.
	Store persist.Store
	// Now is the clock.
	Now func() time.Time
	// Log gets what an operator should see.
	Log *slog.Logger
	// Observer gets rare events.
	Observer seqd.Observer
}

// Problem is one setting that is wrong.
type Problem struct {
	// Key is the setting's name as it stands in the configuration.
	Key string
	// Text says what is wrong and what would be right.
	Text string
}

// Validator is what settings implement to check themselves.
type Validator interface {
	// Validate returns every problem, none for good settings.
	Validate() []Problem
}

// Factory makes strategies of one kind.
type Factory struct {
	// Name is what a biz type's "strategy" says, and the name of the section of the configuration that holds the defaults of
	// its settings.
	Name string
	// Settings returns a pointer to a new copy of the settings with their defaults: a struct whose fields carry
	// `config` tags with the names of the keys. It may implement Validator.
	Settings func() any
	// New makes the strategy of one biz type, whose Settings are what Settings returned, decoded and validated. It does
	// no I/O.
	New func(env Env, bizType seqd.BizType) (seqd.Strategy, error)
	// Shape returns what the numbers look like, for seqd.Claim: it changes with every setting that could make a number appear
	// a second time.
	Shape func(bizType seqd.BizType) string
}

var (
	mu        sync.RWMutex // guards factories
	factories = make(map[string]Factory)
)

// Register makes a strategy known. It panics when the name is empty or taken or a function is missing: those are mistakes
// in the program, found at its first start.
func Register(f Factory) {
	if f.Name == "" || f.Settings == nil || f.New == nil || f.Shape == nil {
		panic("strategy: Register needs a name and all functions")
	}
	mu.Lock()
	defer mu.Unlock()
	if _, taken := factories[f.Name]; taken {
		panic("strategy: " + f.Name + " is registered twice")
	}
	factories[f.Name] = f
}

// Names lists the registered strategies, sorted.
func Names() []string {
	mu.RLock()
	defer mu.RUnlock()
	return slices.Sorted(maps.Keys(factories))
}

// Lookup returns a factory, or an error that lists the names there are.
func Lookup(name string) (Factory, error) {
	mu.RLock()
	defer mu.RUnlock()
	f, ok := factories[name]
	if !ok {
		return Factory{}, fmt.Errorf("%q is not one of the strategies %v", name, slices.Sorted(maps.Keys(factories)))
	}
	return f, nil
}
