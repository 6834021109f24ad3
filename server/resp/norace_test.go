//go:build !race

package resp

// raceEnabled reports whether the race detector, which allocates, is on.
const raceEnabled = false
