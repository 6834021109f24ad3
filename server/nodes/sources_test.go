package nodes

import (
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
)

// The oldest node that says so decides where sessions are.
func TestElsewhere(t *testing.T) {
	node := func(id, started, coordination string) admin.Node {
		return admin.Node{ID: id, Host: "host-" + id, StartedAt: started, Coordination: coordination}
	}
	self := node("m", "2026-11-30T12:00:00.000Z", "store")
	for name, test := range map[string]struct {
		others []admin.Node
		names  string
	}{
		"alone":                    {nil, ""},
		"the same":                 {[]admin.Node{node("a", "2026-11-30T11:00:00.000Z", "store")}, ""},
		"an older one":             {[]admin.Node{node("z", "2026-11-30T11:00:00.000Z", "X"), node("a", "2026-11-30T11:30:00.000Z", "store")}, "host-z"},
		"a younger one":            {[]admin.Node{node("a", "2026-11-30T13:00:00.000Z", "X")}, ""},
		"at the same time, before": {[]admin.Node{node("a", self.StartedAt, "X")}, "host-a"},
		"at the same time, after":  {[]admin.Node{node("z", self.StartedAt, "X")}, ""},
		"one that does not say":    {[]admin.Node{node("a", "2026-11-30T11:00:00.000Z", "")}, ""},
	} {
		why := elsewhere(test.others, self)
		must.Equal(t, why != nil, test.names != "", name)
		if why != nil && !strings.Contains(why.Detail, test.names) || why != nil && why.Code != seqd.CodeConflict {
			t.Errorf("%s: %v", name, why)
		}
	}
	self.Coordination = ""
	must.Equal(t, elsewhere([]admin.Node{node("a", "2026-11-30T11:00:00.000Z", "X")}, self) == nil, true, "not known yet")
}
