package statefile

import "errors"

// Errors of Open.
var (
	// ErrLocked is returned if another process, or another File of this one, uses the state file.
	ErrLocked = errors.New("the state file is in use")
	// ErrInvalid is returned for a name, an identity or a state that cannot be stored.
	ErrInvalid = errors.New("invalid")
)

// Errors of File.Load: there is nothing to start from.
var (
	// ErrNone is returned if there is no state: it was never stored, or it was invalidated.
	ErrNone = errors.New("there is no state")
	// ErrDamaged is returned if the file is not what was written.
	ErrDamaged = errors.New("the state file is damaged")
	// ErrForeign is returned if the file belongs to another cluster, layout or key.
	ErrForeign = errors.New("the state file belongs to another node")
	// ErrCopied is returned if the file is a copy of the one that was written, or has a second
	// name.
	ErrCopied = errors.New("the state file was copied or restored")
	// ErrNewer is returned if a newer seqd wrote the file.
	ErrNewer = errors.New("the state file has a newer format")
)

// Errors of File.Store.
var (
	// ErrLowered is returned if until, reserved or progress would decrease under one token.
	ErrLowered = errors.New("the state would go back")
	// ErrReleased is returned if the state has a token that was invalidated.
	ErrReleased = errors.New("the lease was given up")
)

// Errors of all operations of a File.
var (
	// ErrMoved is returned if the folder or the lock file was removed or replaced while in use:
	// another process may have the lock now.
	ErrMoved = errors.New("the folder or the lock file was removed or replaced while in use")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the state file is closed")
)
