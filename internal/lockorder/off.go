//go:build !seqd_lockorder

package lockorder

import "sync"

// Outer and Inner are the two kinds of mutexes.
type (
	Outer = sync.Mutex
	Inner = sync.Mutex
)

// Free asserts that the goroutine holds no lock of the two kinds, because it is about to do what.
func Free(what string) {}
