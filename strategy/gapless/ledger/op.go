package ledger

// Kind is what an operation does. Another one needs its case in [State.Apply], in Op's check if not
// all of its fields may have any value, in [State.Needs] if it must know what has left the
// document, and in what the machine does if the outcome of its write stays unknown (unknown in
// run.go). Kinds are compared: Reserve to Release have an ID, and Find to Release are about a
// reservation that exists.
type Kind uint8

// The operations.
const (
	// Issue hands out Count numbers, the lowest released ones first.
	Issue Kind = iota
	// Reserve hands out Count numbers until the TTL has passed, as the reservation ID.
	Reserve
	// Find returns the reservation ID. It changes nothing.
	Find
	// Confirm makes the numbers of the reservation ID issued.
	Confirm
	// Release ends the reservation ID without issuing its numbers.
	Release
	// Void makes Number void.
	Void
	// Return gives the numbers Runs back, which Issue handed out without Once, and which nobody
	// has been told. It must be submitted once for the same numbers.
	Return
	// Reclaim ends what is due: reservations, and released numbers at the end of the period.
	Reclaim
	// Raise continues above To after a failover or a restore. It also opens a period that was
	// closed and has not ended.
	Raise
	// Reopen opens a period that was closed and has not ended. Whoever asks for it has to know that
	// no request with Once can have got a number of a later period that it would not find there.
	Reopen
	// Begin creates the ledger without numbers if there is none.
	Begin
)

// Op is an operation. It is not changed while it is under way.
type Op struct {
	Kind Kind
	// Count is how many numbers Issue and Reserve hand out, at least 1.
	Count int64
	// ID is a reservation: 20 hexadecimal digits. For Reserve it is drawn at random.
	ID string
	// TTL is for how long Reserve reserves, in ms, 0 for [Policy.TTL].
	TTL int64
	// Once identifies a request of Issue or Reserve that may be repeated: at most 64 visible ASCII
	// characters, "" for none.
	Once string
	// NoAnswer is why Issue and Reserve must not begin to keep an answer for Once, nil if they may.
	NoAnswer error
	// Recall makes Issue and Reserve only find what Once was given before. If that is nothing and
	// Close is set, the ledger is closed: it carries out no request with Once any more. Close is
	// for a period that ended.
	Recall, Close bool
	// Caller is the owner of what Issue and Reserve make and Return gives back, or who makes numbers
	// void. Admin allows Confirm and Release for what others reserved.
	Caller string
	Admin  bool
	// Number is what Void is for.
	Number int64
	// Reason is why numbers become void, for Void and Raise: 1 to 200 characters.
	Reason string
	// Runs are the numbers of Return, ascending, as in [Result], and Since is that of the Result.
	Runs  []Run
	Since Since
	// To is what Raise raises Last to, at least. Fence is that of the server, confirmed by an
	// operator.
	To    int64
	Fence string
}

// Since says which write handed out numbers.
type Since struct{ Era, Revision int64 }

// Policy is what the definition and the shell say about a counter. It may change.
type Policy struct {
	// Start is the first number, and Floor the highest number that another strategy has issued
	// under this name, 0 for none. A new ledger begins above Floor and not below Start.
	Start, Floor int64
	// Limit is the largest number that may be handed out, 0 for [seqd.MaxNumber].
	Limit int64
	// TTL is for how long numbers are reserved by default, and Keep how long answers are kept, in
	// ms.
	TTL, Keep int64
	// Ahead is how far the latest of the clocks is ahead of the store's, in ms. What becomes a
	// record is kept for as much longer: so a clock of the store that is behind ends none early.
	Ahead int64
	// Doubt is by how much the store's clock may be ahead of what the shell takes for it, in ms.
	// Numbers are reserved for as much longer: so nobody whose clock is right reclaims them early.
	Doubt int64
	// Forward is by how much the store's clock was set forward of late, in ms. Nothing is due before
	// as much more has passed.
	Forward int64
	// MaxReserved is how many numbers may be reserved.
	MaxReserved int64
	// MaxReservedPerCaller is how many of them one caller may have reserved, 0 for all of them.
	MaxReservedPerCaller int64
	// Void is whether numbers that come back become void instead of released.
	Void bool
	// Told is whether events are made of what happens.
	Told bool
	// Ends is when the period ends, in ms since the Unix epoch, 0 for never.
	Ends int64
	// Awake is since when nodes were awake without a long pause, in ms since the Unix epoch. A
	// reservation that was made before is reclaimed no earlier than Awake plus its TTL.
	Awake int64
}

// Result is what an operation did.
type Result struct {
	// Runs are the numbers of Issue, Reserve, Find and Confirm, ascending.
	Runs []Run
	// Made is when they were made, in ms since the Unix epoch.
	Made int64
	// Caller is who made the reservation that Find, Confirm or Release is about.
	Caller string
	// ID, Due and End are those of the reservation. Due is before when it is not reclaimed, in ms
	// since the Unix epoch, and End is Open while it is reserved.
	ID  string
	Due int64
	End End
	// Replayed is whether the same numbers were handed out before, for the same Once.
	Replayed bool
	// Changed is whether the state has changed, also if the operation is refused.
	Changed bool
	// Since is for Return.
	Since Since
	// Expired are the reservations that were reclaimed.
	Expired []*Entry

	known bool // the outcome stays true whatever others write, unless a failover loses it
}
