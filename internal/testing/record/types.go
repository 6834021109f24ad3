// Package record defines the record of a run of the fault laboratory, which its checker reads:
// every call with its answer, every fault, the life of every process, and the states that nodes and
// servers reported. It does not depend on seqd.
//
// All times are in nanoseconds on one clock, the monotonic clock of the process that makes the
// load; 0 is the beginning of the run. An end of 0 means that something has not ended.
package record

// World describes a run. It is the first entry of a record.
type World struct {
	Seed  int64  `json:"seed"`
	Store string `json:"store,omitempty"` // for people: what the nodes share
	// OwnStore is whether there is one node, whose clock is the store's too.
	OwnStore bool `json:"ownStore,omitempty"`
	// ns since the Unix epoch at time 0, by the clock that the nodes' clocks are offset from
	Began    int64    `json:"began"`
	Duration int64    `json:"duration"` // the planned duration of faults and load
	Nodes    []string `json:"nodes"`
	// Protocols are those, besides HTTP, by which callers must get numbers.
	Protocols []string  `json:"protocols,omitempty"`
	BizTypes  []BizType `json:"bizTypes"`
}

// BizType has the properties of a biz type that determine what is promised.
type BizType struct {
	Name        string `json:"name"`
	Strategy    string `json:"strategy"`              // Segment, Snowflake or Gapless
	Ordering    string `json:"ordering,omitempty"`    // for segments: Strict or PerNode
	OnRedisDown string `json:"onRedisDown,omitempty"` // for strict segments: Degrade or Reject
	// Sequencer is for strict segments what orders the numbers: Store, or empty for the cursor in
	// Redis.
	Sequencer string `json:"sequencer,omitempty"`
	Reset     string `json:"reset,omitempty"`    // for segments: Daily, or empty for never
	TimeZone  string `json:"timeZone,omitempty"` // for resets; empty for UTC
	Start     int64  `json:"start,omitempty"`    // for segments
	// for segments: the smallest range that is fetched
	Step int64 `json:"step,omitempty"`
	// for segments: the largest range that is fetched, unless a call asks for more
	MaxStep    int64 `json:"maxStep,omitempty"`
	Reserve    int64 `json:"reserve,omitempty"`  // reserveSegments
	MaxAsked   int64 `json:"maxAsked,omitempty"` // the largest count that the load asks for
	RestoreGap int64 `json:"restoreGap,omitempty"`

	// Display is a regular expression (RE2) that every display form matches if a plugin rewrites
	// them. It is empty if they are the number in decimal. Its optional groups number and period
	// are the number in decimal and the day: year, month and day, separated by non-digits.
	Display string `json:"display,omitempty"`

	// For snowflake. Biz types of one Group share machine IDs, and their numbers are distinct.
	Group        string `json:"group,omitempty"`
	Epoch        int64  `json:"epoch,omitempty"` // ms since the Unix epoch
	BitsMachine  int    `json:"bitsMachine,omitempty"`
	BitsSequence int    `json:"bitsSequence,omitempty"`

	// Keys are what callers name if the biz type is keyed: each key counts on its own.
	Keys []string `json:"keys,omitempty"`

	// OnRelease is for gapless: Reuse or Void.
	OnRelease string `json:"onRelease,omitempty"`

	// NoOrder means that order is not checked, because the load changes the biz type in a way that
	// suspends it.
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
	Store     = "store"
	Daily     = "daily"
	Gapless   = "gapless"
	Reuse     = "reuse"
	Void      = "void"
)

// Kinds of calls.
const (
	Single     = "single"     // one number
	Batch      = "batch"      // ?count=
	Idempotent = "idempotent" // POST with a key, one number or several
	Parse      = "parse"      // parsing an ID
	Admin      = "admin"      // a change of a biz type, or a read of one
	Job        = "job"        // all numbers of a job, in no order with others
	Range      = "range"      // a range that its holder issues from later, in no order with others

	// Of gapless biz types.
	Reserve = "reserve" // a reservation, with an idempotency key or without
	Confirm = "confirm" // of a reservation, whose numbers are issued then
	Release = "release" // of a reservation
	Find    = "find"    // reading a reservation
	VoidOne = "void"    // by an administrator, of one number
)

// Protocols of calls, besides that of seqd itself over HTTP, which is empty.
const (
	RESP   = "resp"   // Redis: INCR, INCRBY, SEQ.NEXT, alone and in pipelines
	Leaf   = "leaf"   // HTTP as callers of Leaf
	Tinyid = "tinyid" // HTTP as Tinyid's client: it issues from segments
	CosID  = "cosid"  // HTTP as CosId's client: it issues from segments
	Client = "client" // HTTP by the Go client, whose buffers issue from batches
)

// Run is Count numbers at equal distances: First, First+Step, …
type Run struct{ First, Count, Step int64 }

// Last returns the last number of a run.
func (r Run) Last() int64 { return r.First + (r.Count-1)*r.Step }

// Runs are written as [[first,count,step],…].
type Runs []Run

// AppendNumber adds a number at the end: to the last run if it continues that run, and otherwise as
// a new run.
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

// Numbers returns how many numbers there are.
func (rs Runs) Numbers() (n int64) {
	for _, r := range rs {
		n += r.Count
	}
	return n
}

// Call is a request and its outcome.
type Call struct {
	Start   int64  `json:"s"` // just before the request was sent
	End     int64  `json:"e"` // just after the whole answer was read, or the call was given up
	Node    string `json:"n"`
	Life    int    `json:"l"` // of the process that was called; 0 if unknown
	BizType string `json:"b"`
	Kind    string `json:"k"`
	// Protocol is how the node was called; empty for HTTP
	Protocol string `json:"pr,omitempty"`
	// the idempotency key; for Admin the change, such as "PATCH start=700000"
	Key string `json:"key,omitempty"`
	// Of is the key that a keyed biz type counts for.
	Of string `json:"of,omitempty"`
	// Caller is who called, if several have tokens; empty for the usual one.
	Caller string `json:"by,omitempty"`
	Asked  int    `json:"a,omitempty"`  // how many numbers; 1 for Single
	Status int    `json:"st,omitempty"` // of HTTP; 0 for no answer or an incomplete one
	// of an error answer; without an answer the reason, such as timeout, refused, reset, canceled
	Code string `json:"c,omitempty"`
	// Runs are the numbers of an answer, in its order, if they are shown in decimal. An answer that
	// was cut off has them too, with status 0. For Parse: the number of the ID.
	Runs Runs `json:"r,omitempty"`
	// Texts are the display forms of an answer, in its order, if a plugin rewrites them. For Parse:
	// always the ID in the request.
	Texts     []string `json:"t,omitempty"`
	Replayed  bool     `json:"rp,omitempty"` // the answer is marked as a replay
	Cancelled bool     `json:"x,omitempty"`  // the caller disconnected half-way
	Parsed    *Parsed  `json:"p,omitempty"`  // for Parse, with status 200
	// Reservation is the name of one: what Reserve got, or what the others asked for.
	Reservation string `json:"rs,omitempty"`
	State       string `json:"sta,omitempty"` // of the reservation in an answer
	Expires     int64  `json:"exp,omitempty"` // likewise, ms since the Unix epoch
}

// Parsed is a node's answer about an ID, without its number.
type Parsed struct {
	Valid    bool   `json:"valid,omitempty"`
	Time     int64  `json:"time,omitempty"` // ms since the Unix epoch
	Machine  int64  `json:"machine,omitempty"`
	Sequence int64  `json:"sequence,omitempty"`
	Period   string `json:"period,omitempty"`
}

// Life is one process of a node. It is recorded when it begins and after every change; the last
// entry counts.
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

// Fault is a fault. It is recorded when it begins and again when it ends; the last entry counts.
type Fault struct {
	ID     int    `json:"id"` // counted from 1
	Class  string `json:"class"`
	Target string `json:"target"`           // node, server, or pair of hosts
	Detail string `json:"detail,omitempty"` // for people
	Begin  int64  `json:"begin"`
	End    int64  `json:"end,omitempty"`
	// The effects of the fault. The checker uses these and not the names of classes.
	Redis bool `json:"redis,omitempty"` // Redis may be away for nodes during the fault
	// Redis may lose data, during the fault or at its end
	LosesKeys bool `json:"losesKeys,omitempty"`
	// the store may be away for nodes, or its answers may be lost
	Store  bool `json:"store,omitempty"`
	Paused bool `json:"paused,omitempty"` // Target is a node, and is paused
	// an older copy of the store is restored while all nodes are stopped
	StoreBack bool `json:"storeBack,omitempty"`
	// the store may lose writes that it has acknowledged, while nodes run
	StoreLost bool `json:"storeLost,omitempty"`
	// Unordered is the biz type whose order over nodes is suspended during the fault, or Every for
	// all of them.
	Unordered string `json:"unordered,omitempty"`
	// IfRedis means that Unordered holds only if Redis was broken during the fault.
	IfRedis bool `json:"ifRedis,omitempty"`
}

// Every stands for all biz types.
const Every = "*"

// Sample is a node's answer to /readyz.
type Sample struct {
	At     int64  `json:"at"`
	Node   string `json:"node"`
	Life   int    `json:"life,omitempty"`
	Status int    `json:"status"` // of HTTP, 0 for no answer
	// code by biz type, for biz types that are not well
	States map[string]string `json:"states,omitempty"`
}

// Server is the state of a Redis server, read without faults of the network. It is recorded when it
// changes, and at least twice a second.
type Server struct {
	At   int64  `json:"at"`
	Name string `json:"name"`
	// Primary, Replica, Silent (it runs and does not answer; its last role still holds) or Gone (no
	// process)
	Role   string `json:"role"`
	Replid string `json:"replid,omitempty"`
	// Scripts is how many scripts it has run for clients since its start, from INFO commandstats;
	// -1 if it does not answer. A primary that runs no scripts serves no node.
	Scripts int64 `json:"scripts,omitempty"`
}

// Roles of a server.
const (
	Primary = "primary"
	Replica = "replica"
	Silent  = "silent"
	Gone    = "gone"
)

// Line is a line of a node's log that matters to the checker.
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

// The meanings of lines.
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
	// Unheard is not in a log: the store gave First to Last, and the answer was lost. Only a
	// simulated store knows that.
	Unheard = "unheard"
	Other   = "other" // any other line of level error
)

// Offset is a new offset of a node's clock from World.Began + At. Without a node it is the offset
// of the wall clock itself, because something adjusts it; the clocks of all nodes are off by that
// much more. It is recorded after each change of a millisecond.
type Offset struct {
	At          int64  `json:"at"`
	Node        string `json:"node"`
	Nanoseconds int64  `json:"ns"`
}

// Finding is a defect that only the laboratory can see, such as a node that ended by itself.
type Finding struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// Account is what a node says became of the numbers of a gapless counter: one page of it, which
// covers the numbers above After, up to Next or, on the last page, Last.
type Account struct {
	Start       int64  `json:"s"` // as in Call
	End         int64  `json:"e"`
	Node        string `json:"n"`
	BizType     string `json:"b"`
	Of          string `json:"of,omitempty"`
	Period      string `json:"p,omitempty"` // year, month and day
	After       int64  `json:"after,omitempty"`
	First, Last int64
	Issued      int64 `json:"issued"`
	Gaps        []Gap `json:"gaps,omitempty"`
	Next        int64 `json:"next,omitempty"`
	// Final means that the account was read after all faults and all calls, which is done for every
	// counter.
	Final bool `json:"final,omitempty"`
}

// Gap is numbers that are not issued.
type Gap struct {
	From        int64  `json:"f"`
	To          int64  `json:"t"`
	State       string `json:"s"` // released, void or reserved
	Reason      string `json:"r,omitempty"`
	By          string `json:"by,omitempty"`
	Reservation string `json:"rs,omitempty"`
}

// The states of a Gap, except [Void].
const (
	Released = "released"
	Reserved = "reserved"
)

// Use is that a program made IDs with a worker ID that it had leased, with all times from First to
// Last.
type Use struct {
	At      int64  `json:"at"`
	Pool    string `json:"pool"`
	Worker  int64  `json:"worker"`
	Program string `json:"program"`
	Lease   int    `json:"lease"` // counted from 1 for each program
	First   int64  `json:"first"` // ms since the Unix epoch
	Last    int64  `json:"last"`
}

// Duty is that the session of a node worked on what only so many sessions may at a time, all the time
// from From to Until.
type Duty struct {
	From    int64  `json:"from"`
	Until   int64  `json:"until"`
	Work    string `json:"work"`
	Most    int    `json:"most"` // how many sessions may work on it
	Session string `json:"session"`
	Term    int64  `json:"term"`
	// First and Last are the numbers that it wrote into the document of the work, one after the other;
	// 0 for none.
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Entry is one line of a record. Exactly one field is set.
type Entry struct {
	World   *World   `json:"world,omitempty"`
	Call    *Call    `json:"call,omitempty"`
	Life    *Life    `json:"life,omitempty"`
	Fault   *Fault   `json:"fault,omitempty"`
	Sample  *Sample  `json:"sample,omitempty"`
	Server  *Server  `json:"server,omitempty"`
	Line    *Line    `json:"line,omitempty"`
	Offset  *Offset  `json:"offset,omitempty"`
	Account *Account `json:"account,omitempty"`
	Use     *Use     `json:"use,omitempty"`
	Duty    *Duty    `json:"duty,omitempty"`
	Finding *Finding `json:"finding,omitempty"`
	Done    *Done    `json:"done,omitempty"`
}

// Done is the last entry in the record of a complete run.
type Done struct {
	At int64 `json:"at"`
}
