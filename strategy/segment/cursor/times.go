package cursor

import (
	"time"

	"github.com/seqd/seqd/persist"
)

// Pauses between two attempts of the same thing: they double from the first to the last.
const (
	FirstPause = 20 * time.Millisecond
	LastPause  = time.Second
	// firstReturn is the pause before the first look at a Redis that was away.
	firstReturn = 100 * time.Millisecond
	// soonPause is the pause before looking again if another node is at work.
	soonPause = 10 * time.Millisecond
)

// How long calls may take.
const (
	// PeekTimeout bounds a look while callers wait. All others last as long as the client lets
	// them: a slow Redis is better than none.
	PeekTimeout = 250 * time.Millisecond
	// FetchDeadline bounds one attempt to get a range, and a question in the background.
	FetchDeadline = 10 * time.Second
	// Hangs is how much longer than the patience of a caller a refill may take before the store
	// counts as hanging.
	Hangs = time.Second
)

// Redis.
const (
	// RedisPatience is how long Redis may fail before the node does without it.
	RedisPatience = 250 * time.Millisecond
	// oldFailure is after how long a failed call to Redis says nothing about the next one. While
	// Redis is away there is one a second, or one that hangs.
	oldFailure = 5 * time.Second
	// manyFailures in a row count as Redis being away, although looks succeed.
	manyFailures = 3
	// claimFor is for how long a refill is left to the node that was asked for it.
	claimFor = time.Second
	// ClaimPatience is how long waiting callers leave it to another node.
	ClaimPatience = 250 * time.Millisecond
	// slowStore is how long a refill may take before the reserve may be used.
	slowStore = 100 * time.Millisecond
)

// Outages.
const (
	// standbyLasts is for how long, at the present rate, the standby range is meant to last.
	standbyLasts = 10 * time.Second
	// LeastStandby is the smallest standby range, or a step if that is less.
	LeastStandby = 100
	// standbyPause is the shortest time between two standby ranges.
	standbyPause = time.Second
	// steady is how long a node must have taken from the cursor for the next outage to count as a
	// new one. One that comes sooner is flapping: each time the node stays on its own for longer,
	// from firstHold to LastHold, so that it does not burn a segment per flap.
	steady    = time.Minute
	firstHold = time.Second
	LastHold  = time.Minute
)

// Epochs.
const (
	// RecheckEpoch is how often the store is asked for the epoch of a counter in use.
	RecheckEpoch = 3 * time.Second
	// TrustEpoch is how old the store's last answer may be for a take to be sent without asking
	// again.
	TrustEpoch = 5 * time.Second
	// hurryBefore is how long before that a question in the background is no longer delayed to share
	// a query with others. A take that has to wait cannot hurry a question that is under way, so the
	// delay must be over by then, and the query should be.
	hurryBefore = 4 * persist.EpochPause
	// askPatience bounds the wait of a take for that answer, and awayPatience that of a node that
	// knows the store to be away.
	askPatience, awayPatience = time.Second, 250 * time.Millisecond
	// SeedPatience is how long the node that drew an epoch is given to install its seed. If seeds
	// alternate an install takes longer, so each adds as much, but no more than mostPatience of
	// them.
	SeedPatience, mostPatience = ClaimPatience, 8
	// ContestedFor is the longest pause between two seeds over live cursors of other epochs that
	// count together, and manySeeds how many of them are reported.
	ContestedFor = time.Minute
	manySeeds    = 3
)
