package machineid

import (
	"fmt"
	"time"
)

// Bits is how many bits of a number the machine ID and the sequence have. The time has the rest of
// [AllBits].
type Bits struct{ Machine, Sequence int }

// Limits of the bits. Fewer than 32 bits of time last for less than 50 days.
const (
	// AllBits is how many bits a number has.
	AllBits = 63
	// LeastTime is the least of them for the time.
	LeastTime   = 32
	mostMachine = 16
)

// plausible is before all times that a clock which is right can show. Machines begin with an
// earlier one, until somebody has told them the time: that is no mistake in the settings.
var plausible = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Future reports whether an epoch is in the future, by a clock that can be right.
func Future(epoch, now time.Time) bool { return !epoch.Before(now) && !now.Before(plausible) }

// Check calls check with whether the bits are possible, and the setting and what is wrong with it if
// they are not.
func (b Bits) Check(check func(ok bool, key, format string, args ...any)) {
	check(b.Machine >= 1 && b.Machine <= mostMachine, "bitsMachine", "%d is outside 1 to %d", b.Machine, mostMachine)
	most := AllBits - LeastTime - min(max(b.Machine, 1), mostMachine)
	check(b.Sequence >= 1 && b.Sequence <= most, "bitsSequence",
		"%d is outside 1 to %d: machine ID and sequence must leave the time %d of %d bits", b.Sequence, most, LeastTime, AllBits)
}

// Time returns how many bits the time has.
func (b Bits) Time() int { return AllBits - b.Sequence - b.Machine }

// Layout describes numbers with these bits, whose time counts from an epoch, in ms since the Unix
// epoch: see [Member].Layout. Different numbers have different texts.
func (b Bits) Layout(epoch int64) string {
	return fmt.Sprintf("epoch=%s unit=1ms time=%d sequence=%d machine=%d",
		time.UnixMilli(epoch).UTC().Format("2006-01-02T15:04:05.999Z"), b.Time(), b.Sequence, b.Machine)
}
