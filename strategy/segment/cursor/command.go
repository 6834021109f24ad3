package cursor

import (
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Command is what the shell is to do: one of the types of this file.
type Command interface{ command() }

// Take runs the take script for a task. A Count of 0 only looks; otherwise the numbers are skipped.
// The result goes to [Machine.Looked].
type Take struct {
	Task Task
	Take rediscursor.Take
	// Timeout bounds the call; 0 means that only the client's own timeout does.
	Timeout time.Duration
}

// Install runs the install script for a task, once (invariant U2). The result goes to
// [Machine.Installed].
type Install struct {
	Task    Task
	Install rediscursor.Install
}

// Allocate takes a range from the store. The result goes to [Machine.Allocated].
type Allocate struct {
	Task Task
	// To is where the range goes.
	To persist.Target
	// Want is how many numbers waiting callers lack.
	Want int64
	// Floor is the number that the range must begin above.
	Floor int64
	Why   Reason
}

// Question asks the store which cursor counts. The result goes to [Machine.Asked].
type Question struct {
	Task    Task
	Timeout time.Duration
	// Unhurried means that nobody waits for the answer yet.
	Unhurried bool
}

// ReadStore reads the counter, to find out whether the store answers. The result goes to
// [Machine.Read].
type ReadStore struct {
	Task    Task
	Timeout time.Duration
}

// OpenLocal opens the local buffer with some ranges, ascending. Ranges that it fetches must be
// above Floor. The mode is Alone from now on.
type OpenLocal struct {
	Ranges []persist.Range
	Floor  int64
}

// CloseLocal closes the local buffer and drops what is left in it. The result goes to
// [Machine.Closed].
type CloseLocal struct{}

// Wake wakes all waiting callers, who then check the mode again.
type Wake struct{}

// Resume lets the shell send the take that [Machine.Send] held back.
type Resume struct{}

// Event is to be reported to the observer.
type Event struct{ seqd.Event }

// Log is to be logged.
type Log struct {
	Level slog.Level
	Text  string
	Args  []any
}

// StoreAnswers says that the store is no longer known to be away: another node got a range from it,
// or it was read.
type StoreAnswers struct{}

// Yield says that callers are refused because the store itself sequences the counter. It is emitted
// again and again while that is so.
type Yield struct{}

func (Take) command()         {}
func (Install) command()      {}
func (Allocate) command()     {}
func (Question) command()     {}
func (ReadStore) command()    {}
func (OpenLocal) command()    {}
func (CloseLocal) command()   {}
func (Wake) command()         {}
func (Resume) command()       {}
func (Event) command()        {}
func (Log) command()          {}
func (StoreAnswers) command() {}
func (Yield) command()        {}

// Reason is why a range is allocated.
type Reason uint8

// The reasons.
const (
	// Filling: a buffer gets its first range, which says nothing about consumption.
	Filling Reason = iota
	// Consumed: buffer 1 was used up to its mark.
	Consumed
	// Retrying: an attempt failed. Its range may have left the store all the same, or was lost on
	// its way to Redis.
	Retrying
	// Standing: the range is kept for an outage. It has exactly as many numbers as wanted.
	Standing
)
