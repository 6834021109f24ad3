package storeclock_test

import (
	"context"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
)

// clock is a clock that a test sets, of the store and of the nodes.
type clock struct{ at time.Time }

func (c *clock) now() time.Time                         { return c.at }
func (c *clock) Now(context.Context) (time.Time, error) { return c.at, nil }
func (c *clock) elapsed() time.Duration                 { return c.at.Sub(begin) }
func (c *clock) pass(d time.Duration)                   { c.at = c.at.Add(d) }
func (c *clock) ms() int64                              { return c.at.UnixMilli() }
func (c *clock) beat(t *testing.T, a *storeclock.Attendance) {
	t.Helper()
	must.Do(t, a.Beat(t.Context()))
}

var begin = time.UnixMilli(1_790_000_000_000)

// A break is noticed by all nodes, and ends when the first of them is back. A node that does not
// know what the others know answers now.
func TestAttendance(t *testing.T) {
	c := &clock{begin}
	documents := memory.New(c.now).Documents()
	node := func() *storeclock.Attendance {
		return storeclock.NewAttendance(documents, storeclock.New(c, c.now, c.elapsed))
	}
	a, b := node(), node()
	wants := func(what string, n *storeclock.Attendance, want time.Time) {
		t.Helper()
		if got := n.Since(c.ms()); got != want.UnixMilli() {
			t.Errorf("%s: since %s, want %s", what, time.UnixMilli(got), want)
		}
	}
	wants("before the first beat", a, c.at)
	c.beat(t, a)
	for range 10 {
		c.pass(storeclock.BeatPause)
		c.beat(t, a)
	}
	wants("always there", a, begin)
	wants("another node before its first beat", b, c.at)
	c.beat(t, b)
	wants("another node", b, begin)
	c.pass(20 * time.Second)
	wants("a node that was suspended", a, c.at)
	back := c.at
	c.beat(t, b)
	c.pass(time.Second)
	c.beat(t, a)
	wants("after a break", a, back)
	wants("after a break", b, back)
	c.pass(-time.Hour)
	c.beat(t, a)
	wants("a clock that was set back", a, c.at)
}

// Need can be called again, and on none.
func TestNeed(t *testing.T) {
	c := &clock{begin}
	a := storeclock.NewAttendance(memory.New(c.now).Documents(), storeclock.New(c, c.now, c.elapsed))
	select {
	case <-a.Needed():
		t.Error("it is needed before anybody said so")
	default:
	}
	a.Need()
	a.Need()
	<-a.Needed()
	var none *storeclock.Attendance
	none.Need()
	must.Equal(t, none.Since(7), 0, "without attendance, nodes have always been there")
}
