//go:build !race

package gapless

const raceEnabled = false
