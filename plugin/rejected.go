package plugin

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/registry"
)

// RejectedFactory makes rejection handlers of one kind.
type RejectedFactory struct {
	// Name is the name of the handler in the list "rejected" of a biz type or of a strategy's
	// section.
	Name string
	// Help says in a sentence or two what the handler does, for people who choose one. It is plain
	// text, and may be "".
	Help string
	// Settings returns a pointer to new default settings, as that of a plugin. The name "name" is
	// reserved.
	Settings func() any
	// New returns the handler of one binding. Biz types that share the binding share the handler.
	// If it implements seqd.Closer, it is closed at the end.
	New func(env Env, binding seqd.RejectedBinding) (seqd.RejectedHandler, error)
}

var handlers = registry.New[RejectedFactory]("rejection handlers")

func init() {
	RegisterRejected(RejectedFactory{
		Name:     "log",
		Help:     "Writes refusals to the log of the node.",
		Settings: func() any { return &struct{}{} },
		New: func(env Env, _ seqd.RejectedBinding) (seqd.RejectedHandler, error) {
			return seqd.LogRejected(env.Log), nil
		},
	})
}

// RegisterRejected registers a rejection handler. It panics if the name is empty or taken, or if a
// function is nil.
func RegisterRejected(f RejectedFactory) {
	handlers.Register(f.Name, f, f.Settings != nil && f.New != nil)
}

// RejectedNames returns the names of the registered rejection handlers, sorted.
func RejectedNames() []string { return handlers.Names() }

// LookupRejected returns a factory, or an error that lists the registered names.
func LookupRejected(name string) (RejectedFactory, error) { return handlers.Lookup(name) }
