// Package sim runs whole nodes in simulation: three real services, with real Redis clients, on a store,
// a Redis and a network in memory, under faults, the actions of operators, and the load of the fault
// laboratory. An hour passes in seconds, and no result depends on how fast the machine is.
//
// # What is real and what is simulated
//
// Each life of a node is a [github.com/seqd/seqd/server.Server], as seqd runs it, in a bubble of
// testing/synctest, where time passes when everybody waits. Package internal/seams connects it with
//
//   - sim/netsim: ports and connections that are cut, slowed down, reset, swallowed or left half open
//   - sim/storesim: a database that is slow, hangs, loses replies, fails over or is restored
//   - sim/redissim: servers of Redis that run the product's scripts, replicate, fail over, and lose data
//
// A world with Options.Bolt has one node, on real files of bolt: sim/boltsim copies what a kill leaves
// of them.
//
// Callers are those of the laboratory (internal/testing/load): HTTP, pipelines of the Redis protocol,
// Idempotency-Keys repeated at other nodes, reservations, drop-ins, callers that leave, changes of
// definitions. Programs lease worker IDs, and use the times of their leases, by clocks that are right,
// ahead or behind; some do so by the protocol of CosId. Somebody orders jobs, and downloads their results
// at the end. What they got is checked by the checker of the laboratory (internal/testing/check).
//
// With every fourth seed subscriptions send the events of gapless biz types to a receiver, which now and
// then fails, is gone or answers too late (receivers.go).
//
// With every fifth seed nodes do works under terms (package server/terms): no two may do one at once.
//
// # Seeds
//
// A seed determines what a world has (OfSeed), the plan of its faults (plan.go), what happens to each
// operation of the store, how long the network takes, and what callers ask for. Each of these draws
// from its own generator, so that none depends on how many draws others made. A seed does not determine
// the order in which Go runs goroutines that can run at the same instant: the same seed has the same
// faults, and fails again often, but not always.
//
// With every fifth seed callers need tokens. Two owners then use the same Idempotency-Keys and try
// each other's reservations, while their secrets are replaced and their tokens deleted and made
// again.
//
// Machine IDs are leased in the store and, with every eighth seed, in Redis. There are few of them, so
// that nodes take over those of others.
//
// # Scripts
//
// A world can have a Script instead of a plan and random load: faults and calls, step by step, at times
// of the world. So a bug that was found once has a schedule that shows it in a tenth of a second
// (bugs_test.go). Its world has only the biz types that it names. Between a node and the store a script
// decides about single operations (meet), and between hosts about how long the network takes (slow).
//
// # What it does not show
//
// A node that is paused sends and receives nothing, but its timers go on: what they do arrives when it
// resumes. A node that is killed does not end in the middle of a computation, but nothing that it does
// afterwards reaches anybody. Real servers, disks and processes are tested in integration/.
//
// Nodes learn of changes by polling the store, not over Redis: see seams.Seams.
//
// # Where to add something
//
// A fault or an action of an operator is a line in a list of kinds: its name, how often, what it
// holds, how long it lasts, its effects for the checker, and the functions that begin and end it. The
// type kind in plan.go explains these. The lists are in faults.go (nodes, clocks, the way to the
// store), redis.go, otherredis.go, failover.go, restore.go, definitions.go (an operator changes or
// raises a biz type), workers.go (pools of worker IDs), terms.go (suspension of a machine, and the
// works that nodes do) and operate.go (restarts, ordering, sequencer). If the store shall fail in a new
// way, first add a State in storesim/view.go. What callers do is added to internal/testing/load, and
// then the laboratory does it too.
package sim
