package persist

import (
	"context"
	"time"
)

// Answers keeps one text for each ID: first a claim, for a short time, and then the answer that
// replaces it. It is safe for concurrent use: of concurrent writes one wins. IDs and texts are not
// empty.
//
// A store that is not shared offers it to keep answers apart from its other records. Its clock runs
// only while the store is open, and nobody can set it: no answer ends because the store was closed.
type Answers interface {
	// Claim keeps a claim for the time lease if nothing is kept under the ID, and returns "".
	// Otherwise it changes nothing and returns what is kept. A claim need not survive the process.
	Claim(ctx context.Context, id, claim string, lease time.Duration) (held string, err error)
	// Swap replaces the claim old by text, and returns "". Otherwise it changes nothing and returns
	// what is kept, or [ErrNotFound] if nothing is. A claim that has ended may still be replaced if
	// nobody has claimed the ID since. If text equals old, the claim is renewed for the time keep.
	// Otherwise text is the answer: it is durable when Swap returns, and is kept for at least the time
	// keep. After another error it may be kept, now or later.
	Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error)
	// Drop ends a claim. It does nothing if another claim or an answer is kept.
	Drop(ctx context.Context, id, claim string) error
	// Purge removes answers whose time has passed and returns how many, as far as it knows. Until
	// then they are kept.
	Purge(ctx context.Context) (purged int, err error)
}

// Answerer is a [Store] that offers [Answers].
type Answerer interface {
	Answers() Answers
}

// AnswerLister is implemented by [Answers] that can be moved to another store.
type AnswerLister interface {
	// List calls f for each answer, with how much longer it is kept. It returns the error of f as it is.
	List(ctx context.Context, f func(id, text string, left time.Duration) error) error
}

// KeptAnswerKind is the kind of the documents in which a store without [Answers] keeps them: the key is
// the ID, and the body the text. It is the form of answers in an export, too.
const KeptAnswerKind = "answer"
