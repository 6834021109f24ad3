package plugin

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/registry"
)

// RejectedFactory makes rejection handlers of one kind.
type RejectedFactory struct {
	// Name is what a biz type or the section of a strategy says under "rejected".
	Name string
	// Settings returns a pointer to a new copy of the settings with their defaults, as those of a
	// plugin; "name" is taken.
	Settings func() any
	// New makes the handler of one binding. Biz types that share the binding share the handler.
	// Where it implements seqd.Closer, it is closed at the end.
	New func(env Env, binding seqd.RejectedBinding) (seqd.RejectedHandler, error)
}

var handlers = registry.New[RejectedFactory]("rejection handlers")

func init() {
	RegisterRejected(RejectedFactory{
		Name:     "log",
		Settings: func() any { return &struct{}{} },
		New: func(env Env, _ seqd.RejectedBinding) (seqd.RejectedHandler, error) {
			return seqd.LogRejected(env.Log), nil
		},
	})
}

// RegisterRejected makes a rejection handler known. It panics when the name is empty or taken or a
// function is missing.
func RegisterRejected(f RejectedFactory) {
	handlers.Register(f.Name, f, f.Settings != nil && f.New != nil)
}

// RejectedNames lists the registered rejection handlers, sorted.
func RejectedNames() []string { return handlers.Names() }

// LookupRejected returns a factory, or an error that lists the names there are.
func LookupRejected(name string) (RejectedFactory, error) { return handlers.Lookup(name) }
