package segment

import (
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

var (
	errStopping = cursor.ErrStopping
	errLeft     = errors.New("the node issues from the cursor again")
	errTaken    = errors.New("others have taken numbers above them since")
	errBehind   = errors.New("the store is behind what this node has seen")
)

func isNotFound(err error) bool { return errors.Is(err, persist.ErrNotFound) }

func isExists(err error) bool { return errors.Is(err, persist.ErrExists) }

// storeError returns the error that callers get for an error of the store, and nil for nil.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return cursor.StoreError(err)
}
