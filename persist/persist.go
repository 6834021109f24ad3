package persist

import (
	"context"
	"errors"
	"time"
)

// FormatVersion is written into every record. A record with a larger version was written by a newer
// seqd and is refused.
const FormatVersion = 1

// MaxNumber is the highest number a range may hold: 2^53 − 1, exact in JavaScript and in Lua.
const MaxNumber int64 = 1<<53 - 1

// Errors that every driver returns, wrapped with the name of the record.
var (
	// ErrNotFound is returned if there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrExists is returned by Create if there is such a record.
	ErrExists = errors.New("exists already")
	// ErrConflict is returned by Update and Delete of [Documents] if the document has another
	// revision.
	ErrConflict = errors.New("another revision")
	// ErrExhausted is returned by Allocate if the range would end above MaxNumber. Nothing has
	// changed.
	ErrExhausted = errors.New("exhausted")
	// ErrInvalid is returned if an argument is outside its range or a record is damaged.
	ErrInvalid = errors.New("invalid")
	// ErrNewer is returned if a record has a newer format than this build knows.
	ErrNewer = errors.New("written by a newer version")
	// ErrOlder is returned if a store has format 1, which only builds before the first release
	// wrote. It must not be taken for an empty store.
	ErrOlder = errors.New("it has format 1 of builds before the first release, which this build cannot read: " +
		"start a build of November 2026 on it once, which makes it format 2; see docs/operations/upgrade.md")
	// ErrEpoch is returned by Allocate if the range is for a cursor and the counter has another
	// epoch. Nothing has changed.
	ErrEpoch = errors.New("the counter has another sequencer epoch")
	// ErrFailedOver is returned by Create of [Counters] if the store may have lost counters, until
	// an operator has confirmed it; see [Fenced]. Nothing has changed.
	ErrFailedOver = errors.New("the store failed over and may have lost counters")
	// ErrUnavailable is returned if the store cannot be used now but may be later: it cannot be
	// reached, or has no space left.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed is returned by every operation after Close.
	ErrClosed = errors.New("store closed")
)

// Clock is the clock of a store, which all who share the store have in common.
type Clock interface {
	// Now returns the time of the store at some moment during the call.
	Now(ctx context.Context) (time.Time, error)
}

// Pooled is implemented by a [Store] that has a pool of connections.
type Pooled interface {
	// Pool returns the present state of the pool. It waits for nothing.
	Pool() Pool
}

// Pool is the state of a pool of connections. Waits and Waited are totals: how often an operation waited
// for a connection, and for how long.
type Pool struct {
	InUse, Most int
	Waits       int64
	Waited      time.Duration
}

// Store is one place where everything is kept. It is safe for concurrent use.
type Store interface {
	// Clock is the clock of the store. A store of one process may use that of the process.
	Clock
	// Counters holds the counters that ranges are allocated from.
	Counters() Counters
	// Documents holds what administrators change at run time, what nodes tell one another, and the
	// small records of package persist: see [ClusterID], [ShapesIn] and [PurgedKind].
	Documents() Documents
	// Slots holds the registries of machine IDs.
	Slots() SlotStore
	// History holds what was issued to whom, for the biz types that keep it.
	History() HistoryStore
	// Whole is what a snapshot needs beside the parts.
	Whole
	// Shared reports whether other processes can allocate from the same store while this one does.
	Shared() bool
	// Lossy reports whether a failover can lose changes that the store has acknowledged. Then the
	// store is a [Fenced].
	Lossy() bool
	// Describe says in a sentence what the store promises, for the log at start.
	Describe() string
	// Close ends all use. It waits for writes under way. Afterwards every operation returns
	// ErrClosed.
	Close() error
}
