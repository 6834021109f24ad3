package admin

import (
	"context"
	"errors"
	"time"
)

// Workers leases worker IDs to other programs, which make numbers with them. It is safe for
// concurrent use. Its errors are of type [*seqd.Error].
type Workers interface {
	Machines
	// Pools returns at most limit pools whose names are greater than after, in byte order of their
	// names.
	Pools(ctx context.Context, after string, limit int) (list []WorkerPool, more bool, err error)
	// Pool returns a pool, or [seqd.CodeUnknownPool].
	Pool(ctx context.Context, name string) (WorkerPool, error)
	// Holders returns who holds worker IDs of a pool, ascending by ID, and how many requests stand by
	// at this node.
	Holders(ctx context.Context, name string) (holders []WorkerHolder, standingBy int64, err error)
	// SetPool changes a pool. edit gets it as it is, without a revision if there is none.
	SetPool(ctx context.Context, name string, edit func(*WorkerPool) error) (WorkerPool, error)
	// DeletePool deletes a pool if may returns nil. It returns [seqd.CodeConflict] while worker IDs are
	// held, unless force.
	DeletePool(ctx context.Context, name string, force bool, may func(*WorkerPool) error) (WorkerPool, error)
	// Lease leases a worker ID to an instance, which is the name of a program. The instance gets the
	// worker ID that it had before, if that is free. While all worker IDs are held, Lease waits for at
	// most wait.
	Lease(ctx context.Context, pool, instance string, wait time.Duration) (WorkerLease, error)
	// Renew extends a lease, or returns [seqd.CodeLeaseLost].
	Renew(ctx context.Context, pool, lease string) (WorkerLease, error)
	// Release ends a lease, or returns [seqd.CodeLeaseLost]. last is the highest time that was used
	// with it; zero if that is not known.
	Release(ctx context.Context, pool, lease string, last time.Time) error
}

// Machines leases worker IDs to programs that keep nothing but the name of their instance, which are
// clients of CosId. It is safe for concurrent use. Its errors are of type [*seqd.Error].
type Machines interface {
	// Distribute leases a worker ID to an instance for so long, and returns it and the first time that
	// may be used with it. While the instance has one, it extends that lease. bits is how many bits of
	// a number the program leaves for a worker ID. The error is an [ErrAllHeld] if none is free.
	Distribute(ctx context.Context, pool string, bits int, instance string, reach time.Duration) (id int64, begin time.Time, err error)
	// Guard extends the lease of an instance, or returns [seqd.CodeLeaseLost].
	Guard(ctx context.Context, pool, instance string, reach time.Duration) error
}

// ErrAllHeld means that other programs hold every worker ID of a pool.
var ErrAllHeld = errors.New("all worker IDs of the pool are held")

// WorkerPool defines worker IDs that programs lease, and what numbers they make with them.
type WorkerPool struct {
	Name string
	// BitsMachine and BitsSequence are how many bits of a number the worker ID and the sequence have.
	// The time has the rest of 63 bits.
	BitsMachine, BitsSequence int
	// Epoch is the time that numbers count from, in whole milliseconds.
	Epoch time.Time
	// TTL is how far ahead a lease reaches: 1 s to 1 h.
	TTL time.Duration
	// Revision and Updated are the version of the definition and when it was written.
	Revision int64
	Updated  time.Time
}

// WorkerLease is the right to make numbers with a worker ID, with times in (After, Until].
type WorkerLease struct {
	WorkerPool
	ID int64
	// Lease is the text that renews and releases the lease.
	Lease        string
	After, Until time.Time
}

// WorkerHolder is a program that holds a worker ID.
type WorkerHolder struct {
	ID       int64
	Instance string
	Until    time.Time
}

// DefaultWorkerPool returns a pool with the default of each setting.
func DefaultWorkerPool(name string) WorkerPool {
	return WorkerPool{
		Name: name, BitsMachine: 10, BitsSequence: 12, Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), TTL: 30 * time.Second,
	}
}
