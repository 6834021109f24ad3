// Package instant measures how much time has passed, at most and at least, although a machine may
// have been suspended and its time of day may have been set.
package instant

import "time"

// Instant is what both clocks of a machine showed.
type Instant struct {
	// Mono is the monotonic clock, which stands still while the machine is suspended.
	Mono time.Duration
	// Wall is the time of day, which goes on, and which may be set.
	Wall time.Duration
}

// Since returns how much time has passed since then, which is a time that [time.Now] returned: see
// [Instant.Most].
func Since(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

var base = time.Now()

// Now reads the clocks.
func Now() Instant {
	now := time.Now()
	return Instant{Mono: now.Sub(base), Wall: time.Duration(now.UnixNano())}
}

// Most returns how much time has passed since another instant, unless the time of day was set back
// while the machine was suspended: then it was more.
func (i Instant) Most(since Instant) time.Duration { return max(i.Mono-since.Mono, i.Wall-since.Wall) }

// Least returns how much time has passed since another instant without the time in which the machine
// was suspended.
func (i Instant) Least(since Instant) time.Duration { return i.Mono - since.Mono }
