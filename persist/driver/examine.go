package driver

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Level says how serious a finding is.
type Level int

// The levels, ascending. An Info finding may be intended. seqd works despite a Warn finding, but the
// finding is dangerous. With a Fail finding seqd does not work.
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

// Examination is what [Settings].Examine gets from seqd doctor: functions that report findings, and
// functions that answer questions about the cluster.
type Examination struct {
	// Add reports a finding. subject is the key of a setting, or the name of what was examined. change
	// says what the operator should change; "" for nothing. found and args are as for fmt.Sprintf.
	Add func(level Level, subject, change, found string, args ...any)
	// Section is the key of the section with the driver's settings, such as store.mongo. Key is the
	// key of the setting that says where the store is, such as store.mongo.uri.
	Section, Key string
	// Store is the store, opened with these settings for reading. If it could not be opened, Err says
	// why. If the store is a file, the file exists.
	Store persist.Store
	Err   error
	// Clock notes by how much the clock of a server is ahead of the clock of this machine. offset is
	// accurate to half of roundTrip.
	Clock func(whose string, offset, roundTrip time.Duration)
	// Nodes returns how many nodes use the store now, at least 1.
	Nodes func(ctx context.Context) int
	// Ask asks the node that runs with this configuration for its state, and returns a line about
	// it. The error says why the node is not alive.
	Ask func(ctx context.Context) (said string, err error)
}

// slow is the round trip above which Answers warns.
const slow = 50 * time.Millisecond

// Answers reports the round trip to a server, and notes the clock of the server.
func (e Examination) Answers(product, version string, offset, roundTrip time.Duration) {
	e.Clock("the "+product+" server", offset, roundTrip)
	level, change := OK, ""
	if roundTrip > slow {
		level, change = Warn, "put it nearer: each segment takes one or two answers"
	}
	e.Add(level, e.Key, change, "%s %s answers in %s", product, version, roundTrip.Round(10*time.Microsecond))
}

// OK reports that subject has no problem.
func (e Examination) OK(subject, found string, args ...any) { e.Add(OK, subject, "", found, args...) }
