// Package cursor is the state machine of a node that takes the numbers of one counter from a cursor
// in Redis. All nodes share the cursor, so numbers increase strictly over all of them.
//
// A [Machine] is pure: it has no goroutine, no lock, no clock and does no I/O. Methods tell it what
// happened and when, and [Machine.Commands] returns what to do about it. The shell around it
// (shared in package segment) holds the lock, lets callers share takes and executes the commands.
// Tests and the model of integration/model drive the same machine with other shells.
//
// # Modes
//
// A machine is in one of four modes. Only the method enter changes it.
//
//   - [Online]: callers take from the cursor. It ends when a take fails or brings too few numbers.
//   - [Mending]: callers wait while the task mend looks at the cursor and does what it lacks
//     (remedy.go), until the cursor has numbers above all that this node has issued. If Redis fails
//     for longer than [RedisPatience], the node leaves it: it goes to Alone, or refuses callers.
//   - [Alone]: callers take from the node's own buffer, because Redis is away. The task comeback
//     looks at Redis and returns to Mending when the cursor can be used again.
//   - [Closing]: callers are refused. It is final.
//
// # Files
//
//   - machine.go: the state, the modes, the beginning and the end
//   - take.go: a take for callers, before and after it is sent
//   - task.go: tasks, each a small state machine in the background, and the results they wait for
//   - mend.go, remedy.go: mending, and what a cursor lacks
//   - refill.go, spare.go: ranges for the cursor, while it works and to begin it with
//   - outage.go, comeback.go: leaving Redis and returning to it; the standby range
//   - belief.go: which sequencer epoch the node believes in (U3b)
//   - numbers.go: the highest numbers that the node knows, and the guard
//   - redis.go, watch.go: whether Redis and the store work; health
//   - command.go, outbox.go: what the shell is to do
//   - rules.go: the rules that tests can take out
//   - testdata: scenarios that show all this, step by step
//
// # Invariants
//
// Each rule that keeps one of these is in one small function. [Config.Without] takes it out, and
// tests show that something fails then. See [Rule].
//
//   - U1: a range leaves the store once. The store keeps this. The machine names the floor that the
//     range must begin above ([RuleFloor]).
//   - U2: a range goes to one target and is offered there once. It is abandoned if it is refused or
//     if the outcome is unknown ([RuleAbandonUnknown]).
//   - U3: Redis is trusted only under the replication ID that the cursor was written under. The
//     scripts keep this. The machine installs a range only under the gen of the cursor that was
//     seen before the range was allocated ([RuleYoungSpare]).
//   - U3b: numbers are taken only from the cursor whose sequencer epoch the store holds
//     ([RuleAskToAdopt], [RuleBeliefsAge], [RuleDrawnAnew] and others).
//   - The guard: a node never issues a number that is not above all it has issued ([RuleGuard]).
package cursor
