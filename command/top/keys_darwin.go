package top

import "golang.org/x/sys/unix"

// The requests that get and set the modes of a terminal.
const getModes, setModes = unix.TIOCGETA, unix.TIOCSETA
