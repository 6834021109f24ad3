package snowflake

import (
	"fmt"
	"math"
	"time"

	"github.com/sony/sonyflake/v2"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// layout says how a number consists of time, sequence and machine ID, from the highest bit to the
// lowest, as in sonyflake. The time is in ms since the epoch.
type layout struct {
	flake *sonyflake.Sonyflake
	epoch int64 // in ms since the Unix epoch
	bits  machineid.Bits
}

// wrong is a setting with an invalid value.
type wrong struct{ key, text string }

// Error implements [error].
func (w *wrong) Error() string { return w.key + ": " + w.text }

// mostMillis is the latest time, in ms since the Unix epoch, that fits into 64 bits of nanoseconds.
const mostMillis = math.MaxInt64 / 1_000_000

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
		check(!machineid.Future(epoch, time.Now()), "epoch", "%s is in the future", s.Epoch)
	}
	s.bits().Check(check)
	return epoch, list
}

// newLayout returns the layout in settings, or the first problem with them.
func newLayout(s *Settings) (*layout, *wrong) {
	epoch, list := layoutProblems(s)
	if len(list) > 0 {
		return nil, list[0]
	}
	l := &layout{epoch: epoch.UnixMilli(), bits: s.bits()}
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

// bits returns the bits in settings.
func (s *Settings) bits() machineid.Bits {
	return machineid.Bits{Machine: s.BitsMachine, Sequence: s.BitsSequence}
}

// text describes the layout. Different layouts have different texts.
func (l *layout) text() string { return l.bits.Layout(l.epoch) }

// last returns the last time of the layout, in ms since the Unix epoch.
func (l *layout) last() int64 {
	return min(l.epoch+1<<l.bits.Time()-1, mostMillis)
}

// overflow returns when the layout runs out of times.
func (l *layout) overflow() time.Time { return time.UnixMilli(l.last() + 1).UTC() }

// first returns the number of a time, in ms since the Unix epoch, a machine ID and the sequence 0.
// The arguments must be in range.
func (l *layout) first(ms, machine int64) int64 {
	return (ms-l.epoch)<<(l.bits.Sequence+l.bits.Machine) | machine
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
