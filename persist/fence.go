package persist

import "context"

// Fence says which server takes the writes of a store now, and which one an operator has confirmed.
// A fence is a text, such as a system identifier and a timeline. It changes at each failover. Only
// the driver knows its parts: others compare it for equality.
type Fence struct {
	// Current is the fence of the server that takes the writes now.
	Current string
	// Confirmed is the fence that was current when the store was created, or when an operator
	// confirmed it last. If other nodes rely on failovers that lose nothing, and this process was told
	// something else, it is a text that is never current.
	Confirmed string
}

// FailedOver reports whether the store may have lost records that an operator does not know of yet.
func (f Fence) FailedOver() bool { return f.Current != f.Confirmed }

// Fenced is a [Store] that can lose changes that it has acknowledged: if a failover promotes a
// standby that has not received all of them.
//
// Its driver keeps with each counter the fence under which the counter was written last. While that
// is not the current fence, [Counter.FailedOver] is true, and the next range begins above what may
// have been lost ([Request.FailoverGap]). This does not help if a whole counter was lost, because
// that counter looks new. So no counter is created (ErrFailedOver) until an operator has raised
// what may be missing and confirmed the current fence.
//
// If the driver is told that no failover loses anything, Current stays what it was when a node was
// first told so, whatever server takes the writes. What was written under another fence may have
// been followed by something that an earlier failover has lost. If that one was not confirmed,
// Confirmed differs until it is.
type Fenced interface {
	// Fence reads the present fence.
	Fence(ctx context.Context) (Fence, error)
	// ConfirmFence records that an operator has dealt with the failover to the server with the
	// fence current: counters are created again. It returns ErrConflict if the current fence is
	// another one by now.
	ConfirmFence(ctx context.Context, current string) error
	// CreateLost does what Create of [Counters] does, also while the store has failed over. It is
	// for a counter whose maximum an operator has named, because the store may have lost it.
	CreateLost(ctx context.Context, c Counter) error
	// CreateFenced does what Create of [Documents] does, if fence is the current fence when the
	// document is written: the statement that writes it compares the fence. Otherwise it stores
	// nothing and returns ErrFailedOver. Whoever creates what a failover may have lost gives a fence
	// that is confirmed.
	CreateFenced(ctx context.Context, d Document, fence string) error
	// UpdateFenced does what Update of [Documents] does, under the condition of CreateFenced. If
	// the document has another revision, it may return ErrConflict although the fence differs too.
	UpdateFenced(ctx context.Context, d Document, fence string) error
}

// PutFenced is [Put] with CreateFenced and UpdateFenced.
func PutFenced(ctx context.Context, fenced Fenced, d Document, fence string) error {
	if d.Revision == 1 {
		return fenced.CreateFenced(ctx, d, fence)
	}
	return fenced.UpdateFenced(ctx, d, fence)
}
