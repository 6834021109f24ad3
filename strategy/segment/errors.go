package segment

import (
	"errors"

	"github.com/seqd/seqd/strategy/segment/cursor"
)

var (
	errStopping = cursor.ErrStopping
	errLeft     = errors.New("the node issues from the cursor again")
	errTaken    = errors.New("others have taken numbers above them since")
	errPurged   = cursor.ErrPurged
	errBehind   = errors.New("the store is behind what this node has seen")
)

// refusal gives an error of the store the form that callers see, and nil for nil.
func refusal(err error) error {
	if err == nil {
		return nil
	}
	return cursor.StoreError(err)
}
