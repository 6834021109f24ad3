// Package issuer is the engine of seqd. It issues the numbers of biz types by calling their
// strategies and plugins. Of this module it imports package seqd only.
//
// # From a call to its numbers
//
// [Issuer.Issue] issues one call. It finds the seat of the biz type, enters the instance in that
// seat, and makes these steps:
//
//	Before of each plugin → Generate of the strategy → After of each plugin
//
// If a step fails, Issue refuses the call. It calls OnError of the plugins whose Before returned
// nil, then the plugins that are a [seqd.RejectedHandler], and then the rejection handler of the
// biz type. If the step failed because a change replaces the instance, Issue does not refuse: it
// makes the steps again with the next instance.
//
// [Issuer.IssueAll] issues several calls in their order. Neighbours that name the same biz type and
// key become a pipeline. A pipeline makes each step for all its calls before the next step: Before
// of each call, one Generate for the sum of their counts, After of each call. A call without such a
// neighbour goes through Issue. So does a call that cannot share its numbers, because it wants a
// range or a reservation, or because it may be repeated.
//
// # What an Issuer holds
//
//	Issuer              the names of its biz types                       names.go
//	└─ seat             one for each name; it outlives changes           seat.go
//	   └─ instance      one definition at work: strategy and plugins     instance.go, lifecycle.go
//	      └─ chainPlugin   one plugin of the instance                   chain.go
//
// [Issuer.Put], [Issuer.Remove], [Issuer.Disable] and [Issuer.Drop] change what a seat holds, while
// all other seats serve. A change closes the old strategy before it builds the new one, and passes
// on what the old one knows (knowledge.go). Callers wait for a change for at most 2 s. An instance
// is initialised by its first call, or earlier by [Issuer.Init] or Put (open.go).
//
// If the Issuer holds no seat for a name, it lets its [Source] fetch the definition (fetch.go).
//
// # Locks
//
// One function locks a mutex while it holds another: Issuer.settle holds changes.mu while it locks
// and unlocks instance.mu, names.mu and record.mu in turn. While a mutex is held, the package calls
// no strategy, plugin, handler, observer or Source.
package issuer
