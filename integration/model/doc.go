// Package model checks, by random schedules, the protocol by which the nodes of a cluster issue the
// numbers of one counter in one order.
//
// # What is real and what is simulated
//
// The decisions are the product's. Every node drives a [cursor.Machine] of strategy/segment/cursor
// or, if the store itself sequences the counter, a [storetake.Machine] of
// strategy/segment/storetake: what seqd ships. The scripts in Redis are the product's Lua files,
// run by an interpreter, and called through the product's own client, package rediscursor. The
// arithmetic of the store is that of [persist.Counter].
//
// Everything around these is simulated, in one goroutine: the servers of Redis with replicas,
// promotions and snapshots (redis.go, faults.go); the store with its backups, and with a standby
// that takes over without the last writes (store.go, restore.go, failover.go); a network that
// delays, reorders and loses messages (network.go); configurations that differ between nodes, and
// change while they run (regime.go); and time, which passes as the schedule says. A node (node.go)
// is a shell around its machine. It does what the strategy in package segment does: callers share
// takes, and commands become messages (shell.go, stored.go); a node on its own issues from a queue
// of ranges (local.go). Each also hands out ranges that callers issue from later (handout.go).
//
// What callers get is checked against what the design promises: see checker in check.go.
//
// # Worlds and schedules
//
// A world is determined by its seed: which faults it has, how often, and every choice. A world runs
// about 1100 steps (actions.go has the kinds). Then all faults end, and within 3000 further steps
// every node must issue again. Package worlds says more about seeds.
//
//	go test ./model                             1,000 seeds, and a search for each rule
//	SEQD_TEST_LONG=1 go test ./model             3,000 seeds, and longer searches
//	go test ./model -run TestModel -model.seeds 100000
//	go test ./model -run TestModel -model.seed 4711 -v
//
// The last one prints the schedule of one seed. Each line begins with the number of the step:
//
//	136 A: mend of N3 [r3.10 1 10 seed 0 …06 ]: [ok r12.10 1]
//	143 N3: the cursor was begun [first 1 last 10]
//	146 store: 11 to 20 for the refill of N3, floor 10, epoch e6
//	149 N1: a caller wants 1
//
// At step 136 a script ran on server A for the task "mend" of node N3. The first brackets hold the
// arguments that follow the random text, as the heads of the Lua files list them, the second ones
// the reply. At step 143 N3 received it. Then the store gave a range to N3's refill, whose answer
// is on its way. A line that begins with VIOLATION ends the schedule.
//
// # Rules
//
// A protocol that is checked only with all its rules may pass because the model is blind. So each
// rule is taken out once (rules.go): those of the machine by its Config.Without, those of the
// scripts by their comments "without NAME", and those of the environment in the model itself. Then
// something must break in random schedules, which are shortened and printed
// (TestEveryRuleIsNeeded). Rules that are needed only after several faults in one order are in
// scheduled (model_test.go): scenarios of the packages and schedules of internal/testing/sim show
// what they are for.
//
// To add a rule to the machine or to a script, give it a name there, add a constant to rules.go,
// and an entry of ofMachine or ofScripts. If random schedules rarely meet what it is for, raise the
// odds in temptations (temptations.go), or add the rule to scheduled.
package model
