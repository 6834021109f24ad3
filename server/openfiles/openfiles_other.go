//go:build !unix

package openfiles

// Limit is not known on this system.
func Limit() (most uint64, known bool) { return 0, false }
