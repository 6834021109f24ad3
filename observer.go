package seqd

// Observer receives what metrics count. It is called on the hot path: it must be safe for
// concurrent use, do no I/O, hold no lock for long and not panic.
type Observer interface {
	// Issued is called when n numbers were issued.
	Issued(bizType string, n int)
	// Rejected is called when a request was refused.
	Rejected(bizType string, code Code)
	// Event is called for rare events in a strategy.
	Event(Event)
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	// EventRefilled: a range was allocated in the store; Numbers is its size.
	EventRefilled EventKind = "refilled"
	// EventRefillFailed: the store did not allocate a range; Err says why.
	EventRefillFailed EventKind = "refill_failed"
	// EventAbandoned: numbers will never be issued; Numbers is how many, Err why. Each number of a
	// segment strategy that was refilled is issued, abandoned, given back or in hand, over all
	// nodes. The sum is off by what nobody can know: a range whose allocation, installation in the
	// cursor or return to the store failed may have been taken all the same (the first was not
	// counted as refilled, the others count as abandoned); numbers in a cursor that Redis lost;
	// those in hand of a process that was killed. If a cursor is moved up, what it held counts as
	// last seen. Numbers of EventGuard had left the cursor before and do not count here.
	EventAbandoned EventKind = "abandoned"
	// EventGivenBack: unused numbers were returned to the store at a clean stop; Numbers is how
	// many.
	EventGivenBack EventKind = "given_back"
	// EventOutOfOrder: the store allocated a range below numbers that this process has seen. It was
	// refused and abandoned; Numbers is its size.
	EventOutOfOrder EventKind = "out_of_order"
	// EventStoreAway: the store no longer allocates ranges; Err says why. EventStoreBack: it does
	// again.
	EventStoreAway EventKind = "store_away"
	EventStoreBack EventKind = "store_back"
	// EventStoreBehind: the maximum in the store was below numbers that were seen, so the store was
	// restored from an older copy. Numbers is the difference.
	EventStoreBehind EventKind = "store_behind"
	// EventStoreFailedOver: the store failed over since the counter was written, and may have lost
	// ranges of it, so numbers continue above a gap. Numbers is how many are skipped.
	EventStoreFailedOver EventKind = "store_failed_over"
	// EventRedisAway: the cursor cannot be used, so the node issues on its own, or refuses; Err
	// says why. EventRedisBack: the node takes from the cursor again.
	EventRedisAway EventKind = "redis_away"
	EventRedisBack EventKind = "redis_back"
	// EventSeeded: a range was installed as a new cursor, because there was none or it no longer
	// counted. EventAdvanced: a cursor was moved above numbers that a node had issued on its own.
	// Numbers is the size of the range.
	EventSeeded   EventKind = "seeded"
	EventAdvanced EventKind = "advanced"
	// EventFenced: the cursor refused a range, which is abandoned; Numbers is its size, Err why.
	EventFenced EventKind = "fenced"
	// EventGuard: the cursor returned numbers that are not above all that this node has issued.
	// They are skipped; Numbers is how many.
	EventGuard EventKind = "guard"
	// EventCursorContested: this node replaced a live cursor of another epoch at least three times,
	// each within a minute of the previous one. Nodes have different Redis servers or orderings in
	// their configurations, or two Redis servers are primaries. Numbers is how many times.
	EventCursorContested EventKind = "cursor_contested"
	// EventMachineIDLost: another node holds a machine ID that this node held, or its record is
	// gone; Err says more.
	EventMachineIDLost EventKind = "machine_id_lost"
	// EventClockRollback: the clock was set back by more than maxWait. Requests are refused until
	// it has passed the last time that was used.
	EventClockRollback EventKind = "clock_rollback"
	// EventReservationExpired: a reservation was neither confirmed nor released in time; Numbers is
	// how many it held.
	EventReservationExpired EventKind = "reservation_expired"
	// EventNearlyExhausted: fewer than a hundredth of all numbers are left; Numbers is how many.
	EventNearlyExhausted EventKind = "nearly_exhausted"
)

// Event is something rare that operators may want to count.
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

// WaitObserver is implemented by an [Observer] that measures how long callers wait for a sequencer.
type WaitObserver interface {
	// Waited is called for each take of numbers from a sequencer, redis or store, with how long the
	// caller that had waited longest had waited when the take was sent.
	Waited(sequencer string, ns int64)
}

// LatencyObserver is implemented by an [Observer] that measures how long calls take. Without one,
// the issuer does not read the clock.
type LatencyObserver interface {
	// Took is called for each request whose name has or had a biz type, issued or refused. strategy is
	// the name of the strategy, "" if no definition issues, and ns how long the call took. It is on
	// the hot path.
	Took(strategy string, ns int64)
}
