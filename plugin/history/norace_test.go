//go:build !race

package history

// raceEnabled reports whether the race detector, which allocates, is on.
const raceEnabled = false
