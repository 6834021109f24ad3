// Package storetake is the state machine of a node that takes the numbers of one counter from the
// store itself, in strict order over all nodes. The counter is its own cursor: its sequencer epoch
// is [persist.StoreEpoch], and each take is one Allocate for the callers who share it.
//
// Like that of package cursor, a [Machine] is pure: it has no goroutine, no lock, no clock and does
// no I/O. Methods tell it what happened and when. The shell around it (Stored in package segment)
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
//	    one read is under way at a time, and the pause between two doubles from 20 ms to 1 s. A take
//	    is sent again after a read has succeeded.
//	  - [Closing]: callers are refused.
//
// # Order
//
// Allocate raises the counter's maximum in one atomic step, and a take is sent after its callers
// arrived. So a call that begins after another ended gets larger numbers, on every node: nothing
// else needs to be trusted. Because each take names the epoch, no take succeeds after a cursor in
// Redis has taken over ([RuleNamesEpoch]).
//
// # Taking over
//
// A take replaces an empty epoch, which says that nobody sequences the counter. With [TakeOver] it
// also replaces the epoch of a cursor in Redis, but only until the store sequences the counter
// ([RuleOnce]): if a cursor takes over later, another node has a newer definition than this one.
// The cursor is removed first, if this node has Redis ([RuleRetireFirst]): otherwise a node that
// still believes in it could issue lower numbers for some seconds.
package storetake
