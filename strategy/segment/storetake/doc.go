// Package storetake is the state machine of a node that takes the numbers of one counter from the
// store itself, in strict order over all nodes. The counter is its own cursor: its sequencer epoch
// is [persist.StoreEpoch], and each take is one Allocate for the callers who share it.
//
// Like that of package cursor, a [Machine] is pure: it has no goroutine, no lock, no clock and does
// no I/O. Methods tell it what happened and when. The shell around it (stored in package segment)
// holds the lock, lets callers share takes, and executes takes and reads.
//
// # Modes
//
//		       the counter was read, and the store sequences it or may begin to
//		Mending ────────────────────────────────────────────────────────────────► Online
//		        ◄────────────────────────────────────────────────────────────────
//		       a take failed, or another sequencer has taken over
//
//		any ──► Closing, which is final
//
//	  - [Online]: callers take. One take is under way at a time.
//	  - [Mending]: callers wait, or get a refusal, while the counter is read again and again. Only
//	    one read is under way at a time, and the pause between two doubles from 20 ms to 1 s. After
//	    a read that succeeds, callers take again. The take that failed is never sent again.
//	  - [Closing]: callers are refused.
//
// [Machine.Read] and [Machine.Took] are all that changes between Mending and Online.
//
// # Order
//
// Allocate raises the counter's maximum in one atomic step, and a take is sent after its callers
// arrived. So a call that begins after another ended gets larger numbers, on whichever node. No
// clock, buffer or message between nodes is needed. Because each take names the epoch, no take
// succeeds after a cursor in Redis has taken over ([RuleNamesEpoch]).
//
// # Taking over
//
// An empty epoch says that nobody sequences the counter. Then the next take writes the epoch of the
// store. With [TakeOver] a take also replaces the epoch of a cursor in Redis. It does so only until
// the store has sequenced the counter once ([RuleOnce]): if a cursor takes over after that, some
// node has a newer definition than this one.
//
// If this node has Redis, it removes the cursor before it takes over ([RuleRetireFirst]). Otherwise
// a node that still believes in the cursor could issue lower numbers for some seconds.
//
// # Failover and restore
//
// After a failover of the store, the epoch reads as empty. So a take fails with ErrEpoch, the
// counter is read, and the next take takes over above a gap. If the store was restored from an
// older copy, the floor of a take makes it begin above a gap too ([RuleTakeFloor]).
//
// The folder testdata has scenarios that show all this, step by step.
package storetake
