// Package seqd issues IDs: a caller names a biz type and gets numbers that nobody else ever gets.
//
// An [Issuer] handles each request in this order:
//
//	Before of each plugin → strategy → After of each plugin
//
// and, if one of them refuses, calls the rejection handler. A [Strategy] makes the numbers. A
// [Plugin] can refuse a request and change how its numbers are shown. A [RejectedHandler] sees the
// refusals, an [Observer] counts. One call issues n numbers, as runs of consecutive ones, so a
// batch costs about as much as a single number.
//
// An Issuer has a slot for each name, which outlives the definitions of that name, and in the slot
// an instance: one definition at work. Definitions can be added, replaced and removed while the
// Issuer serves. See [Issuer.Put].
//
// This package imports nothing else of the module. Strategies are in strategy/, stores in persist/,
// the HTTP service in server/.
package seqd
