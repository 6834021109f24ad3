// Package cursor decides for a node that issues the numbers of one counter from a cursor that it
// shares with other nodes, in strictly increasing order over all of them.
//
// A [Machine] is pure: it has no goroutine, no lock, no clock and does no I/O. Methods tell it what
// happened, with the time at which it happened, and [Machine.Commands] returns what to do about it.
// The strategy around it (package segment) holds the lock, lets callers share takes and executes
// the commands. Tests and the model drive the same machine without any of that.
//
// # Invariants
//
// Each rule that keeps one of these stands in one small function, and can be taken out by
// [Config.Without] to show that it is needed. See [Rule].
//
//   - U1: a range leaves the store once. The store keeps that; the machine names the floor that the
//     range must begin above ([RuleFloor]).
//   - U2: a range goes to one place, is offered there once, and is abandoned if it is refused or if
//     the outcome is unknown ([RuleAbandonUnknown]).
//   - U3: Redis is trusted only under the replication ID that the cursor was written under. The
//     scripts keep that; the machine installs a range only into the beginning of the cursor (gen)
//     that it was allocated for ([RuleYoungSpare]).
//   - U3b: a cursor counts only under the sequencer epoch that the store holds ([RuleAskToAdopt],
//     [RuleBeliefsAge], [RuleDrawnAnew] and others).
//   - The guard: a node never issues a number that is not above all it has issued ([RuleGuard]).
package cursor
