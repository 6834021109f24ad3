package metrics

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// hot counts everything that is counted for one request.
func hot(m *Metrics, route func(string, int, time.Duration), bizType string) {
	m.Issued(bizType, 1)
	m.Took("segment", 1200)
	route("GET", 200, time.Millisecond)
}

// TestAllocations checks that counting does not allocate, even for biz types without a label of
// their own.
func TestAllocations(t *testing.T) {
	m := newMetrics(1)
	route := m.Route("/seq/{bizType}")
	for _, bizType := range []string{"order", "other"} {
		if allocated := must.Allocs(1000, func() {
			hot(m, route, bizType)
			m.Rejected(bizType, seqd.CodeRateLimited)
		}); allocated != 0 {
			t.Errorf("counting for %s allocates %v times", bizType, allocated)
		}
	}
}
