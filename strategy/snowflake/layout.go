package snowflake

import (
	"fmt"
	"math"
	"time"

	"github.com/sony/sonyflake/v2"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// layout says how a number consists of time, sequence and machine ID, from the highest bit to the
// lowest, as in sonyflake. The time is in ms since the epoch.
type layout struct {
	flake                               *sonyflake.Sonyflake
	epoch                               int64 // in ms since the Unix epoch
	bitsTime, bitsSequence, bitsMachine int
}

// wrong is a setting with an invalid value.
type wrong struct{ key, text string }

// Error implements [error].
func (w *wrong) Error() string { return w.key + ": " + w.text }

// Limits of the bits of a layout. sonyflake refuses fewer than 32 bits of time, which last for 50
// days.
const (
	allBits     = 63
	leastTime   = 32
	mostMachine = 16
	// mostMillis is the latest time, in ms since the Unix epoch, that fits into 64 bits of
	// nanoseconds.
	mostMillis = math.MaxInt64 / 1_000_000
)

// plausible is before all times that a clock which is right can show. Machines begin with an
// earlier one, until somebody has told them the time: that is no mistake in the settings.
var plausible = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// layoutProblems returns what is wrong with the layout in settings, and its epoch.
func layoutProblems(s *Settings) (epoch time.Time, list []*wrong) {
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			list = append(list, &wrong{key, fmt.Sprintf(format, args...)})
		}
	}
	epoch, ok := literal.Time(string(s.Epoch))
	switch {
	case !ok:
		check(false, "epoch", "%q is not a time such as 2025-01-01T00:00:00Z", s.Epoch)
	case epoch.UnixMilli() < 0 || epoch.UnixMilli() > mostMillis:
		check(false, "epoch", "%s is outside 1970 to 2262", s.Epoch)
	default:
		check(epoch.Nanosecond()%int(time.Millisecond) == 0, "epoch", "%s is not a whole millisecond", s.Epoch)
		now := time.Now()
		check(epoch.Before(now) || now.Before(plausible), "epoch", "%s is in the future", s.Epoch)
	}
	check(s.BitsMachine >= 1 && s.BitsMachine <= mostMachine, "bitsMachine", "%d is outside 1 to %d", s.BitsMachine, mostMachine)
	most := allBits - leastTime - min(max(s.BitsMachine, 1), mostMachine)
	check(s.BitsSequence >= 1 && s.BitsSequence <= most, "bitsSequence",
		"%d is outside 1 to %d: machine ID and sequence must leave the time %d of %d bits", s.BitsSequence, most, leastTime, allBits)
	return epoch, list
}

// newLayout returns the layout in settings, or the first problem with them.
func newLayout(s *Settings) (*layout, *wrong) {
	epoch, list := layoutProblems(s)
	if len(list) > 0 {
		return nil, list[0]
	}
	l := &layout{
		epoch: epoch.UnixMilli(), bitsSequence: s.BitsSequence, bitsMachine: s.BitsMachine, bitsTime: allBits - s.BitsSequence - s.BitsMachine,
	}
	start := epoch
	if !start.Before(time.Now()) { // sonyflake refuses it, although it only has to read numbers
		start = time.UnixMilli(1)
	}
	var err error
	l.flake, err = sonyflake.New(sonyflake.Settings{
		BitsSequence: s.BitsSequence, BitsMachineID: s.BitsMachine, TimeUnit: time.Millisecond, StartTime: start,
		MachineID: func() (int, error) { return 0, nil },
	})
	if err != nil {
		return nil, &wrong{"bitsSequence", err.Error()}
	}
	return l, nil
}

// text describes the layout. Different layouts have different texts.
func (l *layout) text() string {
	return fmt.Sprintf("epoch=%s unit=1ms time=%d sequence=%d machine=%d",
		time.UnixMilli(l.epoch).UTC().Format("2006-01-02T15:04:05.999Z"), l.bitsTime, l.bitsSequence, l.bitsMachine)
}

// last returns the last time of the layout, in ms since the Unix epoch.
func (l *layout) last() int64 {
	return min(l.epoch+1<<l.bitsTime-1, mostMillis)
}

// overflow returns when the layout runs out of times.
func (l *layout) overflow() time.Time { return time.UnixMilli(l.last() + 1).UTC() }

// first returns the number of a time, in ms since the Unix epoch, a machine ID and the sequence 0.
// The arguments must be in range.
func (l *layout) first(ms, machine int64) int64 {
	return (ms-l.epoch)<<(l.bitsSequence+l.bitsMachine) | machine
}

// parse returns what a number says.
func (l *layout) parse(number int64) (seqd.Parsed, error) {
	t, machine, sequence, err := l.decompose(number)
	if err != nil {
		return seqd.Parsed{}, err
	}
	return seqd.Parsed{Number: number, Valid: true, Time: t, MachineID: &machine, Sequence: &sequence}, nil
}

// decompose returns the parts of a number.
func (l *layout) decompose(number int64) (t time.Time, machine, sequence int64, err error) {
	parts := l.flake.Decompose(number)
	ms := l.epoch + parts["time"]
	if number < 1 || ms > l.last() {
		return t, 0, 0, seqd.Errorf(seqd.CodeInvalidID, "%d is not a number of this layout", number)
	}
	return time.UnixMilli(ms).UTC(), parts["machine"], parts["sequence"], nil
}
