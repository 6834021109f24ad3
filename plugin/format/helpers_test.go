package format

import (
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 21, 12, 34, 56, 789, time.UTC)

func never() seqd.Calendar { return seqd.Calendar{Reset: seqd.ResetNever, Zone: time.UTC} }

func calendar(tb testing.TB, reset seqd.Reset, zone string) seqd.Calendar {
	tb.Helper()
	loaded := must.Get(time.LoadLocation(zone))(tb)
	return seqd.Calendar{Reset: reset, Zone: loaded}
}

func mustPlugin(tb testing.TB, s Settings, c seqd.Calendar, width int) *Plugin {
	tb.Helper()
	p, err := New(s, c, width, func() time.Time { return now })
	if err != nil {
		tb.Fatalf("%+v: %v", s, err)
	}
	return p
}

// show returns the display form of a number of a period. It passes the number with the digits that
// the plugin expects.
func show(tb testing.TB, p *Plugin, period seqd.Period, number int64) string {
	tb.Helper()
	return showKey(tb, p, period, "", number)
}

// showKey is show for a number of a key.
func showKey(tb testing.TB, p *Plugin, period seqd.Period, key string, number int64) string {
	tb.Helper()
	call := seqd.Call{Count: 1}
	call.Sequence.Add(number, 1, 1)
	call.Sequence.In(period)
	call.Sequence.For(key)
	pad(&call.Sequence, p.given.width)
	must.Do(tb, p.After(tb.Context(), &call))
	return call.Sequence.IDs()[0]
}

// pad does the work of a plugin that displays numbers with leading zeros.
func pad(s *seqd.Sequence, width int) {
	if width == 0 {
		return
	}
	s.Show(func(dst []byte, number int64, _ []byte) []byte {
		digits := strconv.FormatInt(number, 10)
		return append(append(dst, strings.Repeat("0", max(0, width-len(digits)))...), digits...)
	})
}
