package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/server/config"
)

// clocksCheck compares the clocks of this machine, the store and Redis.
type clocksCheck struct{ d *Doctor }

// clocks are the clocks of the servers that answered. It is safe for concurrent use.
type clocks struct {
	mu   sync.Mutex // guards list
	list []clock
}

// clock is how far a clock is ahead of ours. The error is half of the time that the answer took.
type clock struct {
	whose         string
	store         bool // leases of machine IDs are measured by it
	offset, error time.Duration
}

func (c *clocks) heard(whose string, offset, roundTrip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, clock{whose, false, offset, roundTrip / 2})
}

// heardStore notes the clock of the store.
func (c *clocks) heardStore(whose string, offset, roundTrip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, clock{whose, true, offset, roundTrip / 2})
}

// run compares each clock with ours and with each other.
func (c clocksCheck) run(_ context.Context, f *findings) {
	switch yes, known := c.d.Host.Synchronised(); {
	case !known:
		f.add(Info, "this machine", "", "whether something keeps its clock cannot be told here")
	case !yes:
		f.add(Warn, "this machine", "run chrony, ntpd or systemd-timesyncd on the host", "the kernel says that nothing keeps its clock")
	default:
		f.ok("this machine", "its clock is kept by another one")
	}
	c.d.clocks.mu.Lock()
	list := slices.Clone(c.d.clocks.list)
	c.d.clocks.mu.Unlock()
	skew, leased := c.maxSkew()
	for i, a := range list {
		level := Warn
		if leased && a.store {
			level = Fail
		}
		compare(f, a.whose, "this machine's", a, clock{}, skew, level)
		for _, b := range list[:i] {
			compare(f, a.whose, "that of "+b.whose, a, b, skew, Warn)
		}
	}
	c.ends(f)
}

// compare reports how far two clocks are apart, at the given level if that is too far.
func compare(f *findings, whose, other string, a, b clock, skew time.Duration, level Level) {
	apart, within := a.offset-b.offset, a.error+b.error
	text := fmt.Sprintf("its clock and %s are %s apart, ± %s", other, apart.Abs().Round(10*time.Microsecond), within.Round(10*time.Microsecond))
	switch away := apart.Abs() - within; {
	case away > skew:
		f.add(level, whose, "set the clocks", "%s: more than snowflake.maxSkew (%s), with which a node gets no machine ID", text, skew)
	case away > skew/2:
		f.add(Warn, whose, "set the clocks", "%s: more than half of snowflake.maxSkew (%s)", text, skew)
	default:
		f.ok(whose, "%s", text)
	}
}

// usualSkew is the default of snowflake.maxSkew, for a configuration without such biz types.
const usualSkew = 2 * time.Second

// maxSkew returns the smallest maxSkew of the biz types. leased is false if none has one.
func (c clocksCheck) maxSkew() (least time.Duration, leased bool) {
	for _, b := range c.d.Config.BizTypes {
		if skew, ok := config.Setting[time.Duration](b.Settings, "maxSkew"); ok && (least == 0 || skew < least) {
			least = skew
		}
	}
	if least == 0 {
		return usualSkew, false
	}
	return least, true
}

// lateYears is from how many years before the end of timestamps a warning is given.
const lateYears = 5

// ends reports when the timestamps of biz types run out: they are milliseconds since the epoch, in
// 63 bits minus those of machine ID and sequence.
func (c clocksCheck) ends(f *findings) {
	seen := make(map[string]bool)
	for _, b := range c.d.Config.BizTypes {
		text, _ := config.Setting[string](b.Settings, "epoch")
		machine, _ := config.Setting[int](b.Settings, "bitsMachine")
		sequence, ok := config.Setting[int](b.Settings, "bitsSequence")
		epoch, good := literal.Time(text)
		key := fmt.Sprint(text, machine, sequence)
		if !ok || !good || seen[key] {
			continue
		}
		seen[key] = true
		end := time.UnixMilli(epoch.UnixMilli() + 1<<(63-machine-sequence)).UTC()
		if end.Before(c.d.Now().AddDate(lateYears, 0, 0)) {
			f.add(Warn, b.Name+".epoch", "plan for a new biz type with a later epoch", "its timestamps run out at %s", end.Format(time.DateOnly))
			continue
		}
		f.ok(b.Name+".epoch", "its timestamps last until %s", end.Format(time.DateOnly))
	}
}
