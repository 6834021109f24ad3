//go:build race

package snowflake

// raceEnabled reports whether the race detector is on. It makes the model many times slower, and
// finds nothing, because each world uses one goroutine.
const raceEnabled = true
