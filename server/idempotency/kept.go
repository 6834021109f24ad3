package idempotency

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
)

// Kept is a [Backend] in a store that implements [persist.Answers].
type Kept struct{ answers persist.Answers }

var _ Backend = Kept{}

// NewKept returns a backend in answers.
func NewKept(answers persist.Answers) Kept { return Kept{answers} }

// Claim implements [Backend].
func (k Kept) Claim(ctx context.Context, id, text string, lease time.Duration) (held string, err error) {
	held, err = k.answers.Claim(ctx, id, text, lease)
	return held, requestError(err)
}

// Swap implements [Backend].
func (k Kept) Swap(ctx context.Context, id, old, text string, keep time.Duration) (held string, err error) {
	held, err = k.answers.Swap(ctx, id, old, text, keep)
	if errors.Is(err, persist.ErrNotFound) {
		return "", errEnded
	}
	return held, requestError(err)
}

// Drop implements [Backend].
func (k Kept) Drop(ctx context.Context, id, old string) error {
	return requestError(k.answers.Drop(ctx, id, old))
}

// Purge removes answers that have ended.
func (k Kept) Purge(ctx context.Context) (purged int, err error) { return k.answers.Purge(ctx) }
