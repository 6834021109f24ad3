package seqd

// Observer is what metrics hook into. It is called on the hot path: safe for concurrent use, no
// I/O, no locks held for long, and no panics.
type Observer interface {
	// Issued counts n numbers that were handed to a caller.
	Issued(bizType string, n int)
	// Rejected counts a refused request.
	Rejected(bizType string, code Code)
	// Event reports something rare inside a strategy.
	Event(Event)
}

// EventKind says what an [Event] is about.
type EventKind string

// The kinds of events.
const (
	// EventRefilled: a range was fetched from the store; Numbers is its size.
	EventRefilled EventKind = "refilled"
	// EventRefillFailed: the store did not give a range; Err says why.
	EventRefillFailed EventKind = "refill_failed"
	// EventAbandoned: numbers that will never be issued; Numbers is how many, Err why. Every number
	// of a segment strategy that was refilled is issued, abandoned, given back or in hand, over all
	// nodes. The sum is off by what nobody can know: a range whose allocation, installation in the
	// cursor or return to the store failed may have been taken all the same (the first was not
	// counted as refilled, the others count as abandoned); numbers in a cursor that Redis lost;
	// those in hand of a process that was killed. Where a cursor is moved up, what it held counts
	// as it was last seen. EventGuard is of numbers that had left the cursor before, and counts
	// nothing here.
	EventAbandoned EventKind = "abandoned"
	// EventGivenBack: unused numbers were returned to the store at a clean stop; Numbers is how
	// many.
	EventGivenBack EventKind = "given_back"
	// EventOutOfOrder: the store gave a range below numbers this process has seen; the range was
	// refused. Numbers is its size, which is abandoned.
	EventOutOfOrder EventKind = "out_of_order"
	// EventStoreAway: the store stopped giving ranges; Err says why. EventStoreBack: it gives them
	// again.
	EventStoreAway EventKind = "store_away"
	EventStoreBack EventKind = "store_back"
	// EventStoreBehind: the store's maximum was below numbers that were seen: it was restored from
	// an older copy. Numbers is by how much.
	EventStoreBehind EventKind = "store_behind"
	// EventRedisAway: Redis stopped serving the cursor and the node issues on its own, or rejects;
	// Err says why. EventRedisBack: the node takes from the cursor again.
	EventRedisAway EventKind = "redis_away"
	EventRedisBack EventKind = "redis_back"
	// EventSeeded: a cursor that was lost, is new, or does not count any more was begun with a
	// range. EventAdvanced: a cursor was moved above numbers that a node had issued on its own.
	// Numbers is the size of the range.
	EventSeeded   EventKind = "seeded"
	EventAdvanced EventKind = "advanced"
	// EventFenced: the cursor refused a range; Numbers is its size, which is abandoned, Err why.
	EventFenced EventKind = "fenced"
	// EventGuard: the cursor offered numbers that are not above all that this node has issued; they
	// are skipped. Numbers is how many.
	EventGuard EventKind = "guard"
	// EventCursorContested: this node began a cursor over a live one of another epoch at least
	// three times, each within a minute of the one before: nodes are configured with different
	// Redis servers or orderings, or two Redis servers are primaries. Numbers is how many times.
	EventCursorContested EventKind = "cursor_contested"
	// EventMachineIDLost: a machine ID that this node held is held by another one, or its record is
	// gone; Err says more.
	EventMachineIDLost EventKind = "machine_id_lost"
	// EventClockRollback: the clock was set back further than maxWait; requests are refused until
	// it has passed the last time that was used.
	EventClockRollback EventKind = "clock_rollback"
	// EventNearlyExhausted: fewer than a hundredth of all numbers are left; Numbers is how many.
	EventNearlyExhausted EventKind = "nearly_exhausted"
)

// Event is something rare that an operator may want counted.
type Event struct {
	BizType string
	Kind    EventKind
	Numbers int64
	Err     error
}

// NopObserver ignores everything.
type NopObserver struct{}

// Issued does nothing.
func (NopObserver) Issued(string, int) {}

// Rejected does nothing.
func (NopObserver) Rejected(string, Code) {}

// Event does nothing.
func (NopObserver) Event(Event) {}

var _ Observer = NopObserver{}
