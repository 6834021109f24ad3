package cursor

import "time"

// instant is a time within the machine: ns since long before the process began. So the zero instant
// is never, and long ago. It takes a third of the room of a [time.Time], and there may be very many
// machines.
type instant int64

// longAgo is the zero instant: a hundred years ago, before whatever a test calls now. It has a
// monotonic clock reading, so that setting the time of day changes nothing.
var longAgo = time.Now().Add(-100 * 365 * 24 * time.Hour)

func at(t time.Time) instant { return instant(t.Sub(longAgo)) }

func (i instant) time() time.Time                   { return longAgo.Add(time.Duration(i)) }
func (i instant) sub(earlier instant) time.Duration { return time.Duration(i - earlier) }
func (i instant) add(d time.Duration) instant       { return i + instant(d) }
func (i instant) never() bool                       { return i == 0 }
