// Package driver is the registry of stores. The package of a store registers a [Driver] in an init
// function. A program that imports the package can use the store. Package standard imports all
// stores that come with seqd.
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
	// Key is the name of the setting that says where the store is, such as uri; "" if there is no
	// such setting.
	Key string
	// Shared is true if several processes can use the store at the same time.
	Shared bool
	// Forgets is true if the store is empty at each start of the process.
	Forgets bool
	// Settings returns new default settings.
	Settings func() Settings
}

// Settings are the settings of a store. The value is a pointer to a struct. Each field has a
// `config` tag with the name of its key, and tags and a comment for docs/CONFIGURATION.md. Settings
// that implement seqd.Validator are validated even if the configuration names another store.
type Settings interface {
	// Place returns where the store is: the path of the file, or the addresses and the name of the
	// database. The text contains no credentials.
	Place() string
	// Open opens the store. If the error wraps [persist.ErrUnavailable], a later Open may succeed.
	// Any other error stays until an operator removes its cause.
	Open(ctx context.Context, how How) (persist.Store, error)
	// Examine reports what is wrong with the store, for seqd doctor. It changes nothing. It returns
	// true if the records in the store can be read now.
	Examine(ctx context.Context, e Examination) (readable bool)
}

// File is implemented by the settings of a store that is a file on this machine.
type File interface {
	// File returns the path; "" if none is set.
	File() string
	// Compact rewrites the file, and the files that belong to it, without their free space. No
	// process may use them meanwhile. After an error, done lists the files that were rewritten.
	Compact() (done []Compacted, err error)
}

// Compacted is the result of Compact for one file.
type Compacted struct {
	Path          string
	Records       int
	Before, After int64 // its size in bytes
}

// How has the options of [Settings].Open.
type How struct {
	// Now is the clock of this machine.
	Now func() time.Time
	// ReadOnly opens the store for reading. Open creates and changes nothing, and each operation
	// takes at most 4 s: see [How.Patience].
	ReadOnly bool
	// Beside opens the store for a command that runs beside nodes, whose settings may differ from
	// those of the command. What the nodes rely on follows from the settings of nodes alone.
	Beside bool
	// PastShut opens a store that is shut for the command that moves it: see [persist.Shutter].
	PastShut bool
	// Unreached opens the store of a server even if it cannot be reached now: its operations return
	// [persist.ErrUnavailable] until it can.
	Unreached bool
	// Admit is called before every operation of a shared store, unless it is nil. If Admit returns
	// an error, the operation does nothing and returns that error.
	Admit func(context.Context) error
	// Synced is called when a store that is a file has written a transaction to the disk, with how long
	// the writing and its sync took. It may be nil.
	Synced func(took time.Duration)
	// Trace sees the commands that are sent to a server. It may be nil.
	Trace Trace
}

// Patience returns the longest time that an operation may take: timeout, which comes from the
// settings, or at most 4 s if the store is opened for reading.
func (h How) Patience(timeout time.Duration) time.Duration {
	if h.ReadOnly {
		return min(timeout, 4*time.Second)
	}
	return timeout
}

// Trace is called before a command is sent to a server. It returns nil if the command is not traced.
// Otherwise the driver calls done when the command has ended, with a nil error or with an error and
// its kind, a word or a number. The trace shows the kind and not the error, because the text of an
// error may contain the data that was written.
type Trace func(ctx context.Context, c Command) (done func(err error, kind string))

// Command is what a trace shows of a command. It contains none of the data in the store.
type Command struct {
	// System is what OpenTelemetry calls the kind of server, such as postgresql.
	System string
	// Operation is the name of the command.
	Operation string
	// Database and Collection are "" if they are not known.
	Database, Collection string
}

// OrNil returns store, or a nil interface if err is not nil. Without OrNil the interface would hold
// a nil pointer of type S, and would not equal nil.
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
