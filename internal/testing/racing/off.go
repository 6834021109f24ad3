//go:build !race

// Package racing says whether the race detector is on. It allocates, and makes what only computes
// many times slower.
package racing

// On reports whether the race detector is on.
const On = false
