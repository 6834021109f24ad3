package storeclock_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
)

// After the clock has jumped, nothing is removed for a quarter of that, at most a day. One that is
// put right again is one that has jumped.
func TestSettled(t *testing.T) {
	c := &clock{begin}
	documents := memory.New(c.now).Documents()
	node := func() *storeclock.Clock { return storeclock.New(c, c.now, c.elapsed) }
	here := node()
	wants := func(what string, n *storeclock.Clock, want bool) {
		t.Helper()
		must.Equal(t, must.Get(n.Settled(t.Context(), documents))(t), want, "%s: settled", what)
	}
	wants("the first look", here, true)
	for range 5 {
		c.pass(time.Hour)
		wants("every hour", here, true)
	}
	c.pass(8 * time.Hour)
	here = node()
	wants("off at night", here, false)
	c.pass(119 * time.Minute)
	wants("not long enough", here, false)
	c.pass(time.Minute)
	wants("a quarter of the night later", here, true)
	c.pass(100 * 24 * time.Hour)
	here = node()
	for range 24 {
		wants("months ahead", here, false)
		wants("another node", node(), false)
		c.pass(time.Hour)
	}
	wants("a day later", here, true)
	c.pass(-101 * 24 * time.Hour)
	wants("put right", node(), false)
}
