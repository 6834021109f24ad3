//go:build !race

package history

// raceEnabled: the race detector allocates on its own account.
const raceEnabled = false
