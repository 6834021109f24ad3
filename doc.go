// Package seqd issues IDs. A caller names a biz type and gets numbers that nobody else ever gets.
//
// An [Issuer] handles each request in this order:
//
//	Before of each plugin → strategy → After of each plugin
//
// If one of them refuses, the Issuer calls the rejection handlers. A [Strategy] makes the numbers.
// A [Plugin] can refuse a request and change how its numbers are shown. A [RejectedHandler] sees
// the refusals, and an [Observer] counts. One call issues n numbers, as runs of consecutive ones,
// so a batch costs about as much as a single number.
//
// An Issuer has a slot for each name of a biz type. In the slot is an instance: the strategy and
// plugins of the present definition. Definitions can be added, replaced and removed while the
// Issuer serves; the slot remains. See [Issuer.Put].
//
// This package imports no other package of the module. Strategies are in strategy/, stores in
// persist/, plugins in plugin/, and the HTTP service in server/. Uniqueness is kept in persist
// (Counters.Allocate) and in strategy/snowflake (protocol.go). docs/DESIGN.md has the invariants, a
// map of the packages and a list of where to begin.
package seqd
