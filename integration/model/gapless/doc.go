// Package gapless checks, by random schedules, that a gapless counter accounts for every number.
//
// # What is real and what is simulated
//
// Every node drives a [ledger.Machine] of strategy/gapless/ledger: what seqd ships. So are the
// operator's raise ([ledger.State.Apply]) and the account ([ledger.State.Account]). Everything
// around these is simulated, in one goroutine: the store with its standby, its failovers and its
// backups (store.go, operator.go); a network that delays, repeats and loses messages, so that a
// write can land long after its node gave it up (node.go); processes that crash, pause, stop and
// get other definitions; callers who issue, reserve, confirm, release and void, repeat requests
// under keys, give up, and name reservations of long ago (callers.go); clocks, which in some worlds
// are off by up to a day; and hours in which nobody is there (actions.go).
//
// Every write that the store accepts, and every answer to a caller, is checked against what the
// strategy promises: see checker in check.go.
//
// # Worlds and schedules
//
// A world is determined by its seed. It runs about 500 steps. Then all faults end, every node must
// serve again, and after three more days nothing that was due is left. Package worlds says more
// about seeds.
//
//	go test ./model/gapless                             2,000 seeds, and a search for each rule
//	SEQD_TEST_LONG=1 go test ./model/gapless             8,000 seeds, and longer searches
//	go test ./model/gapless -run TestModel -gapless.seeds 100000
//	go test ./model/gapless -run TestModel -gapless.seed 4711 -v
//	go test ./model/gapless -run TestModel -gapless.seed 4711 -gapless.without look-up -v
//	go test ./model/gapless -run TestEveryRule/look-up -gapless.shorten -v
//
// The schedule of one seed has a line for each event: the step, the time in ms, and what happened.
// A line that begins with VIOLATION ends it.
//
// # Rules
//
// Each rule of the machine is taken out once, by its Config.Without, and so is each duty of what is
// around it (rules.go): of the shell, such as telling the machine that a caller gave up, of the
// store, such as comparing fences, and of the operator. Then something must break
// (TestEveryRuleIsNeeded).
//
// # What is not promised
//
// A store that went back, by a restore or a lossy failover, has forgotten what it acknowledged. An
// operator raises the ledger above what callers were told; what was lost becomes void, and may be
// told again to who was told it before. Callers of the model do not confirm what they asked to
// release before the loss, and where clocks are wrong nothing that was reserved before it: what
// became of that reservation in the lost history is known to nobody.
package gapless
