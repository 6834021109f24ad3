package driver

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Level is how much a finding matters.
type Level int

// The levels, ascending. Info is worth knowing and may be intended. Warn is legal and dangerous.
// Fail keeps seqd from working.
const (
	OK Level = iota
	Info
	Warn
	Fail
)

var levels = [...]string{"ok", "info", "warn", "FAIL"}

// String returns the level as a report shows it.
func (l Level) String() string { return levels[l] }

// MarshalText implements [encoding.TextMarshaler].
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Examination is what a driver reports to when seqd doctor looks at its store, and what it can
// ask.
type Examination struct {
	// Add reports what was found. subject is a key of the configuration, or whatever else was
	// examined. change says what to change; it is "" for nothing.
	Add func(level Level, subject, change, found string, args ...any)
	// Section is the key of the driver's section, and Key that of the setting that says where the
	// store is: store.mongo and store.mongo.uri.
	Section, Key string
	// Store was opened with these settings to be looked at. Err is why it could not be opened. A file
	// exists.
	Store persist.Store
	Err   error
	// Clock notes the clock of a server: how far it is ahead, accurate to half of roundTrip.
	Clock func(whose string, offset, roundTrip time.Duration)
	// Nodes returns how many nodes run on the store now, at least 1.
	Nodes func(ctx context.Context) int
	// Ask asks the node that runs with this configuration how it is, and returns a line about it.
	// The error is why it is not alive.
	Ask func(ctx context.Context) (said string, err error)
}

// slow is the time of an answer that is reported.
const slow = 50 * time.Millisecond

// Answers reports how fast a server answers, and notes its clock.
func (e Examination) Answers(product, version string, offset, roundTrip time.Duration) {
	e.Clock("the "+product+" server", offset, roundTrip)
	level, change := OK, ""
	if roundTrip > slow {
		level, change = Warn, "put it nearer: each segment takes one or two answers"
	}
	e.Add(level, e.Key, change, "%s %s answers in %s", product, version, roundTrip.Round(10*time.Microsecond))
}

// OK reports that something is as it should be.
func (e Examination) OK(subject, found string, args ...any) { e.Add(OK, subject, "", found, args...) }
