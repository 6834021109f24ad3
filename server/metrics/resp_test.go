package metrics

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestCommands counts answers by command and code; a foreign code counts as internal.
func TestCommands(t *testing.T) {
	m := newMetrics(1)
	incr, other := m.Command("INCR"), m.Command("other")
	incr("", 64)
	incr("", 1)
	incr("overloaded", 2)
	other("made_up", 1)
	want(t, gathered(t, m), map[string]float64{
		"seqd_resp_commands_total ok INCR":         65,
		"seqd_resp_commands_total overloaded INCR": 2,
		"seqd_resp_commands_total internal other":  1,
	})
	must.Equal(t, must.Allocs(100, func() { incr("", 1); incr("overloaded", 1) }), 0, "the allocations of counting")
}
