package persist

import (
	"context"
	"time"
)

// Answers keeps one text for each ID: a claim for a short time, then in its place the answer. It is
// safe for concurrent use, and of two that write at once one wins. IDs and texts are not empty.
//
// A store that is not shared offers it to keep answers apart from its other records. It has one
// clock, which runs only while the store is open and which nobody sets: time in which the store is
// closed does not end an answer.
type Answers interface {
	// Claim keeps a claim for lease if nothing is kept under the ID, and returns "". Otherwise it
	// changes nothing and returns what is kept. A claim need not survive the process.
	Claim(ctx context.Context, id, claim string, lease time.Duration) (held string, err error)
	// Swap keeps text in place of the claim old, also if nothing is kept any more, and returns "".
	// Otherwise it changes nothing and returns what is kept. If text is old it renews the claim for
	// keep. Otherwise text is the answer: it is durable when Swap returns, and kept for keep at
	// least. After an error it may be kept, or may be later.
	Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error)
	// Drop ends a claim. It does nothing if another claim or an answer is kept.
	Drop(ctx context.Context, id, claim string) error
	// Purge removes answers whose time has passed and returns how many, as far as that is known.
	// Until then they are kept.
	Purge(ctx context.Context) (purged int, err error)
}

// Answerer is a [Store] that offers [Answers].
type Answerer interface {
	Answers() Answers
}
