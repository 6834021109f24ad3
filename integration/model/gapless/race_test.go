//go:build race

package gapless

// raceEnabled: the race detector makes everything many times slower, and there is little to race
// for.
const raceEnabled = true
