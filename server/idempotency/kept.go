package idempotency

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// Kept keeps entries in a store that offers [persist.Answers].
type Kept struct{ answers persist.Answers }

var _ Backend = Kept{}

// NewKept returns entries in answers. It touches nothing.
func NewKept(answers persist.Answers) Kept { return Kept{answers} }

// Claim implements [Backend].
func (k Kept) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	held, err = k.answers.Claim(ctx, id, text, lease)
	return held, refusal(err)
}

// Swap implements [Backend].
func (k Kept) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	held, err = k.answers.Swap(ctx, id, old, text, keep)
	return held, refusal(err)
}

// Drop implements [Backend].
func (k Kept) Drop(ctx context.Context, id, old string) error {
	return refusal(k.answers.Drop(ctx, id, old))
}

// Purge removes answers that have ended.
func (k Kept) Purge(ctx context.Context) (purged int, err error) { return k.answers.Purge(ctx) }
