package sqlstore

import (
	"errors"
	"fmt"

	"github.com/seqd/seqd/persist"
)

// Refused is the error for a server that must not be used as it is set up: it could lose what it
// acknowledged, or cannot do what seqd needs. The text names the setting and says what to change.
// Waiting does not help, so drivers return it as it is, not as persist.ErrUnavailable.
type Refused string

// Error implements [error].
func (r Refused) Error() string { return string(r) }

// Refusef returns a Refused with the formatted text.
func Refusef(format string, args ...any) error { return Refused(fmt.Sprintf(format, args...)) }

// Full is the error for a connection that the server, or a pooler, refuses because the user, the
// database or the server has as many as it may have. Nothing was sent. It is
// persist.ErrUnavailable.
type Full string

// Error implements [error].
func (f Full) Error() string { return persist.ErrUnavailable.Error() + ": " + string(f) }

// Unwrap makes it persist.ErrUnavailable.
func (Full) Unwrap() error { return persist.ErrUnavailable }

// IsFull reports whether an error is a Full.
func IsFull(err error) bool {
	_, ok := errors.AsType[Full](err)
	return ok
}

// translations are what drivers turn the errors of their databases into, besides Refused.
var translations = []error{
	persist.ErrNotFound, persist.ErrExists, persist.ErrConflict, persist.ErrInvalid, persist.ErrNewer,
	persist.ErrUnavailable, persist.ErrClosed,
}

// Translated reports whether an error is one of package persist or a Refused already.
func Translated(err error) bool {
	if _, ok := errors.AsType[Refused](err); ok {
		return true
	}
	for _, known := range translations {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
