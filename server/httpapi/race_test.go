//go:build race

package httpapi_test

// raceEnabled: the race detector allocates on its own account.
const raceEnabled = true
