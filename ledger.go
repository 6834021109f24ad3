package seqd

import (
	"context"
	"time"
)

// Ledger is implemented by strategies that account for every number: each number up to the highest
// one handed out is issued, reserved, released or void. Its methods are safe for concurrent use,
// and return an [Error] for what cannot be done. A caller gets numbers only after their state is
// durable.
type Ledger interface {
	Strategy
	// HandOut adds the numbers of an order to seq, which is empty except for its key. It sets the
	// period of seq and the time at which they were made. If the same order was carried out before
	// ([Order].Once), it adds the same numbers again and replayed is true. It returns no
	// reservation if the order issues.
	HandOut(ctx context.Context, o Order, seq *Sequence) (r Reservation, replayed bool, err error)
	// Return gives back numbers that HandOut or Generate issued without [Order].Once, and that
	// nobody has been told: they are released. It does not wait, and may be called after Close.
	Return(numbers *Sequence, why error)
	// Find returns a reservation and adds its numbers to seq. One that ended is remembered for 24
	// hours; otherwise the code is [CodeUnknownReservation].
	Find(ctx context.Context, id string, seq *Sequence) (Reservation, error)
	// Confirm makes the numbers of a reservation issued and adds them to seq. It can be repeated.
	Confirm(ctx context.Context, s Settlement, seq *Sequence) (Reservation, error)
	// Release ends a reservation without issuing its numbers. It can be repeated.
	Release(ctx context.Context, s Settlement) error
	// Void makes a reserved, released or issued number void: it is never handed out again. It can
	// be repeated. A number that is void already keeps its first reason.
	Void(ctx context.Context, v Voiding) error
	// Account returns what became of the numbers of one counter.
	Account(ctx context.Context, q AccountQuery) (Account, error)
	// Reclaim ends the reservations of a counter whose time is over. Period is 0 if the numbers
	// never reset.
	Reclaim(ctx context.Context, key string, period Period) error
	// OnExpired sets what is called, in a goroutine of its own, for each reservation that this
	// process found to be expired. It is called once, before Init.
	OnExpired(tell func(Expiry))
}

// Order is what a [Ledger] is to hand out.
type Order struct {
	// Count is how many numbers, 1 to [MaxCount].
	Count int
	// Reserve reserves the numbers for the time TTL, or the biz type's own if TTL is 0, instead of
	// issuing them.
	Reserve bool
	TTL     time.Duration
	// Once identifies the request of a caller that may be repeated: at most 64 visible ASCII
	// characters; "" for none. Numbers and answer are kept by one write, so a lost answer makes no
	// gap. The code is [CodeIdempotencyKeyReused] if the order that was carried out under it has
	// another Count, TTL or Reserve.
	Once string
	// NoAnswer is why nothing may be carried out under Once, nil if it may be. What was carried out
	// before is answered nevertheless.
	NoAnswer error
	// Caller is who asked.
	Caller Caller
}

// ReservationState is what became of a reservation.
type ReservationState string

// The states of a reservation.
const (
	Reserved  ReservationState = "reserved"
	Confirmed ReservationState = "confirmed"
	Released  ReservationState = "released"
	Expired   ReservationState = "expired"
)

// Reservation is numbers that are handed out for a while.
type Reservation struct {
	// ID names the reservation, with its key and period. It contains letters, digits, '.', '_' and
	// '-'. Without a period and a key it has no dot; see [ReservationKey].
	ID    string
	Key   string
	State ReservationState
	// Owner is the [Caller.OwnerID] of who reserved.
	Owner string
	// ExpiresAt is until when the numbers are not reclaimed, by the clock of the store. They stay
	// reserved for longer if all nodes were away.
	ExpiresAt time.Time
}

// Settlement ends a reservation.
type Settlement struct {
	ID string
	// Caller must have the owner of the caller who reserved, unless Admin is set. Otherwise the code
	// is [CodeForbidden].
	Caller Caller
	Admin  bool
}

// Voiding makes a number void.
type Voiding struct {
	// Key and Period name the counter. Period 0 is the present one, if the numbers reset.
	Key    string
	Period Period
	Number int64
	// Reason is 1 to 200 characters without control characters.
	Reason string
	// Caller is who asked.
	Caller Caller
}

// AccountQuery asks for a part of an account.
type AccountQuery struct {
	// Key and Period name the counter. Period 0 is the present one, if the numbers reset.
	Key    string
	Period Period
	// After is the number after which the gaps begin, 0 for the first page.
	After int64
	// Limit is the largest number of gaps to return, at least 1.
	Limit int
}

// Account is what became of the numbers First to Last, as of one moment. Issued is how many of them
// are issued. Gaps are all the others, ascending, without overlap. If none was handed out, Last is
// First − 1.
type Account struct {
	Period      Period
	First, Last int64
	Issued      int64
	Gaps        []NumberGap
	// Next is the After of the next page, 0 if there is none.
	Next int64
}

// The states of a [NumberGap].
const (
	GapReleased = "released"
	GapVoid     = "void"
	GapReserved = "reserved"
)

// NumberGap is numbers that are not issued.
type NumberGap struct {
	From, To int64
	// FromID and ToID are how callers see From and To. An issuer sets them.
	FromID, ToID string
	// State is one of GapReleased, GapVoid and GapReserved.
	State string
	// At is since when the numbers are released or void.
	At time.Time
	// Reason and By say why the numbers are void and who said so. By is "" if it was the service.
	Reason, By string
	// Reservation and ExpiresAt are those of reserved numbers.
	Reservation string
	ExpiresAt   time.Time
}

// KeyLister is implemented by strategies that can count for each key.
type KeyLister interface {
	// Keys returns at most limit keys that have a counter, in byte order, or if numbers reset in that
	// of the names of counters. They begin behind after.
	Keys(ctx context.Context, after string, limit int) ([]string, error)
}

// Expiry is a reservation that was neither confirmed nor released in time.
type Expiry struct {
	Reservation
	// Count is how many numbers it held, and Caller the name of the caller who reserved them.
	Count  int
	Caller string
}

// Recaller does what [Ledger.HandOut] does for an order that was carried out before under the same
// [Order].Once, in whatever shape. Otherwise it returns replayed = false and changes nothing.
type Recaller func(ctx context.Context, o Order, seq *Sequence) (r Reservation, replayed bool, err error)
