package must

import "testing"

// Allocs returns how many allocations f needs: the least of three averages over runs. Other goroutines
// of the process allocate too, and on a slow machine there is more time for that.
func Allocs(runs int, f func()) float64 {
	return min(testing.AllocsPerRun(runs, f), testing.AllocsPerRun(runs, f), testing.AllocsPerRun(runs, f))
}
