package load

import (
	"maps"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/record"
)

func TestIssued(t *testing.T) {
	s := must.Get(newIssued(Shapes(Options{})))(t)
	for _, c := range []record.Call{
		{BizType: "order", Runs: record.Runs{{First: 7, Count: 3, Step: 1}, {First: 20, Count: 1, Step: 1}}},
		{BizType: "order", Runs: record.Runs{{First: 1, Count: 3, Step: 5}}},
		{BizType: "invoice", Texts: []string{"INV-20261121-0000084", "INV-20261121-0000092"}},
		{BizType: "invoice", Texts: []string{"INV-20261122-0000015", "no invoice"}},
		{BizType: "invite", Texts: []string{"C000000000017-5"}}, // the number is hidden
		{BizType: "user", Runs: record.Runs{{First: 1 << 50, Count: 1, Step: 1}}},
		{BizType: LateName},
	} {
		s.note(&c)
	}
	want := map[string]int64{"order": 20, "invoice@20261121": 9, "invoice@20261122": 1}
	if !maps.Equal(s.highest, want) {
		t.Errorf("%v, want %v", s.highest, want)
	}
}

func TestWhatRaiseIsGiven(t *testing.T) {
	seen := map[string]int64{"order": 70, "local": 40, "invoice@20261121": 9}
	lost := map[string]int64{"order": 1000, "local": 500, "invite": 300, "invoice@20261121": 200, "invoice@20261122": 100}
	want := map[string]int64{"order": 70, "local": 500, "invite": 300, "invoice@20261121": 9, "invoice@20261122": 1}
	if got := Enough(Shapes(Options{}), seen, lost); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
