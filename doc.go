// Package seqd has the words of seqd, which issues IDs: a caller names a biz type and gets numbers
// that nobody else ever gets.
//
// A [Call] asks for numbers of a [BizType]. A [Strategy] makes them, as runs of consecutive ones in
// a [Sequence], so a batch costs about as much as a single number. A [Plugin] can refuse a request
// and change how its numbers are shown. A [RejectedHandler] sees the refusals, each an [Error] with
// a [Code], and an [Observer] counts. What a strategy or a plugin can do beyond that, it says by
// implementing more: see strategy.go, settings.go and plugin.go.
//
// This package imports no other package of the module. The engine that calls strategies and plugins
// is in issuer/, strategies are in strategy/, stores in persist/, plugins in plugin/, and the HTTP
// service in server/. Uniqueness is kept in persist (Counters.Allocate) and in
// strategy/snowflake/machineid. docs/DESIGN.md has the invariants, a map of the packages and a list
// of where to begin.
package seqd
