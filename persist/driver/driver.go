// Package driver is the registry of stores. A driver registers itself in an init function of its
// package, and a program gets the store by importing that package, as it gets strategies and
// plugins. Package standard imports all stores that come with seqd.
package driver

import (
	"context"
	"time"

	"github.com/seqd/seqd/internal/registry"
	"github.com/seqd/seqd/persist"
)

// Driver is a kind of store.
type Driver struct {
	// Name is the value of store.driver, and the section below store with the settings.
	Name string
	// Key is the setting that says where the store is, such as uri. It is "" if there is none.
	Key string
	// Shared is whether several processes can use the store at a time.
	Shared bool
	// Forgets is whether the store is new at every start.
	Forgets bool
	// Settings returns new default settings.
	Settings func() Settings
}

// Settings are the settings of a store: a pointer to a struct whose fields have `config` tags with
// the names of the keys, and tags and comments for the reference. They may implement
// seqd.Validator, which is called whichever store is used.
type Settings interface {
	// Place returns where the store is: the path of the file, or the addresses and the name of the
	// database. It has no credentials.
	Place() string
	// Open opens the store. An error that wraps [persist.ErrUnavailable] can pass. Any other needs
	// an operator.
	Open(ctx context.Context, how How) (persist.Store, error)
	// Examine reports what is wrong with the store, for seqd doctor. It changes nothing, and returns
	// whether what the store contains can be read now.
	Examine(ctx context.Context, e Examination) (readable bool)
}

// File is implemented by the settings of a store that is a file on this machine.
type File interface {
	// File returns the path; "" if none is set.
	File() string
	// Compact rewrites the file, and those beside it, without their free space. No process may use
	// them. It returns what it did, even with an error.
	Compact() (done []Compacted, err error)
}

// Compacted is the result of Compact for one file.
type Compacted struct {
	Path          string
	Records       int
	Before, After int64 // its size in bytes
}

// How is how a store is opened.
type How struct {
	// Now is the clock of this machine.
	Now func() time.Time
	// ReadOnly opens the store to look at it: nothing is created or changed, and nobody waits long.
	ReadOnly bool
	// Unreached opens the store of a server even if it cannot be reached now: its operations return
	// [persist.ErrUnavailable] until it can.
	Unreached bool
	// Admit, unless nil, is called before every operation of a shared store. If it returns an error,
	// the operation returns that error and does nothing.
	Admit func(context.Context) error
	// Trace sees the commands that are sent to a server. It may be nil.
	Trace Trace
}

// Patience returns how long an operation may take: as long as the settings say, but less if the
// store is only looked at.
func (h How) Patience(timeout time.Duration) time.Duration {
	if h.ReadOnly {
		return min(timeout, 4*time.Second)
	}
	return timeout
}

// Trace is called before a command is sent. It returns nil if the command is not traced. Otherwise
// done is called when the command has ended: with nil, or with an error and a word or number for
// its kind. The trace shows the kind only, because the error may contain what was written.
type Trace func(ctx context.Context, c Command) (done func(err error, kind string))

// Command is what a trace shows of a command. It has nothing of what is stored.
type Command struct {
	// System is what OpenTelemetry calls the kind of server, such as postgresql.
	System string
	// Operation is the name of the command.
	Operation string
	// Database and Collection are "" if they are not known.
	Database, Collection string
}

// OrNil returns a nil store if there is an error, and not a nil pointer in an interface.
func OrNil[S persist.Store](store S, err error) (persist.Store, error) {
	if err != nil {
		return nil, err
	}
	return store, nil
}

var drivers = registry.New[Driver]("stores")

// Register registers a driver. It panics if the name is empty or taken, or if Settings is nil.
func Register(d Driver) { drivers.Register(d.Name, d, d.Settings != nil) }

// Names returns the names of the registered drivers, sorted.
func Names() []string { return drivers.Names() }

// Lookup returns a driver, or an error that lists the registered names.
func Lookup(name string) (Driver, error) { return drivers.Lookup(name) }

// Defaults returns the default settings of each registered driver, by its name.
func Defaults() map[string]Settings {
	all := make(map[string]Settings)
	for _, name := range Names() {
		if d, err := Lookup(name); err == nil {
			all[name] = d.Settings()
		}
	}
	return all
}
