// Package storeerror says to callers what went wrong with the store.
package storeerror

import (
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Of returns the error for a caller who asked for something in the store, nil for nil. An error of seqd
// stays as it is. what names what was read, such as "the job", and asked what the store was asked for,
// such as "jobs".
func Of(err error, what, asked string) error {
	known, ok := errors.AsType[*seqd.Error](err)
	switch {
	case err == nil:
		return nil
	case ok:
		return known
	case errors.Is(err, persist.ErrNewer), errors.Is(err, persist.ErrInvalid):
		return seqd.Errorf(seqd.CodeConflict, "what the store has of %s cannot be used: %v", what, err)
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: fmt.Sprintf("the store cannot be asked for %s", asked), RetryAfter: time.Second, Err: err}
}
