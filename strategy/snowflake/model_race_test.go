//go:build race

package snowflake

// raceEnabled: the race detector makes the model many times slower, and each of its worlds lives in
// one goroutine.
const raceEnabled = true
