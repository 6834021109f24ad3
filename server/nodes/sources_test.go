package nodes

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
)

// A node whose configuration differs in what all nodes need alike is named, and one that does not say is not.
func TestUnlike(t *testing.T) {
	store := memory.New(time.Now)
	for i, body := range []string{`{"id":"0","host":"a","config":{"alike":"x"}}`, `{"id":"1","host":"b","config":{"alike":"y"}}`, `{"id":"2","host":"c"}`} {
		now := time.Now()
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{
			Kind: kind, Key: strconv.Itoa(i), Revision: 1, Body: body, Timestamp: now.UnixMilli(), Expires: now.Add(time.Hour).UnixMilli(),
		}))
	}
	must.Equal(t, strings.Join(must.Get(Unlike(t.Context(), store, "x"))(t), " "), "b")
}

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
