// Package record is what the fault laboratory writes down while it runs, and what its checker
// reads: every call with its answer, every fault, the life of every process, and what nodes and
// servers said of themselves. It knows nothing of seqd.
//
// All times are nanoseconds on one clock, the monotonic one of the process that makes the load; 0
// is when the run began. A time of 0 where something ends means that it has not ended.
package record

// World is what a run is made of. It is the first thing in a record.
type World struct {
	Seed int64 `json:"seed"`
	// ns since the Unix epoch at time 0, by the clock that the nodes' clocks are offset from
	Began    int64     `json:"began"`
	Duration int64     `json:"duration"` // how long faults and load were meant to last
	Nodes    []string  `json:"nodes"`
	BizTypes []BizType `json:"bizTypes"`
}

// BizType is what the checker must know of a biz type to tell what was promised.
type BizType struct {
	Name        string `json:"name"`
	Strategy    string `json:"strategy"`              // Segment or Snowflake
	Ordering    string `json:"ordering,omitempty"`    // of segments: Strict or PerNode
	OnRedisDown string `json:"onRedisDown,omitempty"` // of strict segments: Degrade or Reject
	Reset       string `json:"reset,omitempty"`       // of segments: empty for never, or Daily
	TimeZone    string `json:"timeZone,omitempty"`    // of resets, empty for UTC
	Start       int64  `json:"start,omitempty"`       // of segments
	// of segments: the smallest range that is fetched
	Step int64 `json:"step,omitempty"`
	// of segments: the largest range that is fetched, unless a call asks for more
	MaxStep    int64 `json:"maxStep,omitempty"`
	Reserve    int64 `json:"reserve,omitempty"`  // reserveSegments
	MaxAsked   int64 `json:"maxAsked,omitempty"` // the largest count that the load asks for
	RestoreGap int64 `json:"restoreGap,omitempty"`

	// Display is a regular expression (RE2) that every display form matches where a plugin rewrites
	// them, empty where they are the number in decimal. Its groups named number and period, where
	// it has them, are the number in decimal and the day: year, month, day, with anything but
	// digits between them.
	Display string `json:"display,omitempty"`

	// Of snowflake. Biz types of one Group share machine IDs, and no number appears twice among
	// them.
	Group        string `json:"group,omitempty"`
	Epoch        int64  `json:"epoch,omitempty"` // ms since the Unix epoch
	BitsMachine  int    `json:"bitsMachine,omitempty"`
	BitsSequence int    `json:"bitsSequence,omitempty"`

	// NoOrder says that what is promised of order is not to be checked, because the load changes
	// the biz type in a way that suspends it.
	NoOrder bool `json:"noOrder,omitempty"`
}

// Values of BizType.
const (
	Segment   = "segment"
	Snowflake = "snowflake"
	Strict    = "strict"
	PerNode   = "per-node"
	Degrade   = "degrade"
	Reject    = "reject"
	Daily     = "daily"
)

// Kinds of calls.
const (
	Single     = "single"     // one number
	Batch      = "batch"      // ?count=
	Idempotent = "idempotent" // POST with a key, one number or several
	Parse      = "parse"      // what an ID says
	Admin      = "admin"      // a change of a biz type, or a look at one
)

// Run is numbers at equal distances: First, First+Step, …, Count of them.
type Run struct{ First, Count, Step int64 }

// Last is the last number of a run.
func (r Run) Last() int64 { return r.First + (r.Count-1)*r.Step }

// Runs are written as [[first,count,step],…].
type Runs []Run

// AppendNumber adds a number at the end: to the last run where it continues it, else as a run of
// its own.
func (rs Runs) AppendNumber(n int64) Runs {
	if len(rs) == 0 {
		return append(rs, Run{n, 1, 1})
	}
	last := &rs[len(rs)-1]
	switch {
	case last.Count == 1 && n > last.First:
		last.Step, last.Count = n-last.First, 2
	case last.Count > 1 && n == last.Last()+last.Step:
		last.Count++
	default:
		return append(rs, Run{n, 1, 1})
	}
	return rs
}

// Numbers is how many numbers there are.
func (rs Runs) Numbers() (n int64) {
	for _, r := range rs {
		n += r.Count
	}
	return n
}

// Call is a request and what came of it.
type Call struct {
	Start   int64  `json:"s"` // just before the request was sent
	End     int64  `json:"e"` // just after all of the answer was read, or the call was given up
	Node    string `json:"n"`
	Life    int    `json:"l"` // of the process that was asked; 0 where nobody knows
	BizType string `json:"b"`
	Kind    string `json:"k"`
	// the idempotency key; of Admin what was done, such as "PATCH start=700000"
	Key    string `json:"key,omitempty"`
	Asked  int    `json:"a,omitempty"`  // how many numbers; 1 for a single one
	Status int    `json:"st,omitempty"` // of HTTP, 0 for no answer, or none that is whole
	// of a refusal; of a call without an answer: why, such as timeout, refused, reset, canceled
	Code string `json:"c,omitempty"`
	// Runs are the numbers of an answer, in its order, where they are shown in decimal; also of one
	// that broke off, whose status is 0. Of Parse: the number that the ID was said to have.
	Runs Runs `json:"r,omitempty"`
	// Texts are the display forms of an answer, in its order, where a plugin rewrites them. Of
	// Parse: the ID that was asked about, always.
	Texts     []string `json:"t,omitempty"`
	Replayed  bool     `json:"rp,omitempty"` // the answer says that it was given before
	Cancelled bool     `json:"x,omitempty"`  // the caller went away half-way
	Parsed    *Parsed  `json:"p,omitempty"`  // of Parse, with status 200
}

// Parsed is what a node said of an ID, besides its number.
type Parsed struct {
	Valid    bool   `json:"valid,omitempty"`
	Time     int64  `json:"time,omitempty"` // ms since the Unix epoch
	Machine  int64  `json:"machine,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	Period   string `json:"period,omitempty"`
}

// Life is one process of a node. It is recorded when it begins and again whenever something of it
// changes; what was recorded last counts.
type Life struct {
	Node  string `json:"node"`
	Life  int    `json:"life"` // counted from 1 for each node
	Begin int64  `json:"begin"`
	Ready int64  `json:"ready,omitempty"` // the first 200 of /readyz; 0 for never
	End   int64  `json:"end,omitempty"`
	How   string `json:"how,omitempty"` // Killed, Stopped or Failed once it has ended
}

// How a life ended.
const (
	Killed  = "killed"  // by kill -9
	Stopped = "stopped" // by SIGTERM, and it ended by itself
	Failed  = "failed"  // by itself
)

// Fault is something that was done to the system. It is recorded when it begins and again when it
// ends; what was recorded last counts.
type Fault struct {
	ID     int    `json:"id"` // counted from 1
	Class  string `json:"class"`
	Target string `json:"target"`           // node, server, or pair of hosts
	Detail string `json:"detail,omitempty"` // for people
	Begin  int64  `json:"begin"`
	End    int64  `json:"end,omitempty"`
	// What the fault does beyond itself. The checker goes by these and not by the names of classes.
	Redis bool `json:"redis,omitempty"` // nodes may find Redis away while it lasts
	// Redis may lose what it held, while it lasts or at its end
	LosesKeys bool `json:"losesKeys,omitempty"`
	// nodes may find the store away, or lose its answers
	Store  bool `json:"store,omitempty"`
	Paused bool `json:"paused,omitempty"` // Target is a node, and stands still
	// the store is put back to an older copy, while all nodes are stopped
	StoreBack bool `json:"storeBack,omitempty"`
	// Unordered is the biz type whose order over nodes is suspended while the fault lasts, Every
	// for all of them.
	Unordered string `json:"unordered,omitempty"`
}

// Every stands for all biz types.
const Every = "*"

// Sample is what a node answered to /readyz, or what a Redis server said of itself.
type Sample struct {
	At     int64  `json:"at"`
	Node   string `json:"node"`
	Life   int    `json:"life,omitempty"`
	Status int    `json:"status"` // of HTTP, 0 for no answer
	// code by biz type, of those that are not well
	States map[string]string `json:"states,omitempty"`
}

// Server is what a Redis server said of itself, asked past all faults of the network. It is
// recorded when it changes, and at least twice a second.
type Server struct {
	At   int64  `json:"at"`
	Name string `json:"name"`
	// Primary, Replica, Silent (it runs and does not answer: what it said last still holds) or Gone
	// (no process)
	Role   string `json:"role"`
	Replid string `json:"replid,omitempty"`
	// Scripts is how many scripts it has run for clients since it was started, from INFO
	// commandstats; -1 where it does not answer. A primary that runs none serves nobody.
	Scripts int64 `json:"scripts,omitempty"`
}

// Roles of a server.
const (
	Primary = "primary"
	Replica = "replica"
	Silent  = "silent"
	Gone    = "gone"
)

// Line is a line of a node's log that tells the checker something.
type Line struct {
	At      int64  `json:"at"` // when it was read
	Node    string `json:"node"`
	Life    int    `json:"life"`
	BizType string `json:"bizType,omitempty"`
	What    string `json:"what"` // OnItsOwn, Back, …, or Other
	First   int64  `json:"first,omitempty"`
	Last    int64  `json:"last,omitempty"`
	Machine int64  `json:"machine,omitempty"`
	Text    string `json:"text,omitempty"` // the message
	Error   bool   `json:"error,omitempty"`
}

// What a line says.
const (
	OnItsOwn    = "on its own"   // "Redis does not serve the cursor; the node issues on its own"
	Back        = "back"         // "Redis serves the cursor again; the node takes from it"
	Begun       = "begun"        // "the cursor was begun", with First and Last
	MovedUp     = "moved up"     // "the cursor was moved up", likewise
	GotMachine  = "got machine"  // "machine ID", with Machine
	LostMachine = "lost machine" // "the machine ID was lost; …", with Machine
	// "the cursor offered numbers that are not above all this node has issued; they are skipped"
	Guarded  = "guarded"
	Restored = "restored" // "the store was restored from an older copy: …"
	Other    = "other"    // any other line of level error
)

// Offset is how far a node's clock is off from now on, against World.Began + At. Without a node it
// is how far the wall clock has come off that itself, because something sets it right: all nodes'
// clocks are off by that much more. It is recorded when it has changed by a millisecond.
type Offset struct {
	At          int64  `json:"at"`
	Node        string `json:"node"`
	Nanoseconds int64  `json:"ns"`
}

// Finding is something that must not be and that only the laboratory can see, such as a node that
// ended by itself.
type Finding struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// Entry is one line of a record: exactly one field is set.
type Entry struct {
	World   *World   `json:"world,omitempty"`
	Call    *Call    `json:"call,omitempty"`
	Life    *Life    `json:"life,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Sample  *Sample  `json:"sample,omitempty"`
	Server  *Server  `json:"server,omitempty"`
	Line    *Line    `json:"line,omitempty"`
	Offset  *Offset  `json:"offset,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
	Done    *Done    `json:"done,omitempty"`
}

// Done is the last thing in a record of a run that came to its end.
type Done struct {
	At int64 `json:"at"`
}
