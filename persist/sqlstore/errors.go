package sqlstore

import "fmt"

// Refused is the error for a server that must not be used as it is set up: it could lose what it
// acknowledged, or cannot do what seqd needs. The text names the setting and says what to change.
// Waiting does not help, so drivers return it as it is, not as persist.ErrUnavailable.
type Refused string

// Error implements [error].
func (r Refused) Error() string { return string(r) }

// Refusef returns a Refused with the formatted text.
func Refusef(format string, args ...any) error { return Refused(fmt.Sprintf(format, args...)) }
