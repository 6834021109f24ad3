package own

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy"
)

func TestWrongSettings(t *testing.T) {
	for yaml, want := range map[string]string{
		"bizTypes: [{name: a, plugins: [{name: region}]}]":                              `bizTypes[0].plugins[0].code: "" is not two capital letters`,
		"bizTypes: [{name: a, plugins: [{name: region, code: EU, maxBatch: 0}]}]":       "bizTypes[0].plugins[0].maxBatch: 0 is less than 1",
		"bizTypes: [{name: a, strategy: ticket, start: 0}]":                             "bizTypes[0].start: it is outside",
		"ticket: {rejected: [{name: shout, loud: true}]}\nbizTypes: [{name: a}]":        "ticket.rejected[0].loud: there is no such key",
		"bizTypes: [{name: a, plugins: [{name: regoin, code: EU}]}]":                    `"regoin" is not one of the plugins`,
		"bizTypes: [{name: a, plugins: [{name: region, code: EU, order: first}]}]":      "order",
		"bizTypes: [{name: a, rejected: [{name: shout}, {name: shriek}]}]":              `"shriek" is not one of the rejection handlers`,
		"bizTypes: [{name: a, strategy: tickets, plugins: [{name: region, code: EU}]}]": `"tickets" is not one of the strategies`,
	} {
		if _, err := config.LoadYAML([]byte(yaml), config.Sources{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", yaml, err, want)
		}
	}
}

func TestShout(t *testing.T) {
	var text strings.Builder
	(&shout{prefix: "!!!", w: &text}).Rejected(t.Context(), &seqd.Call{BizType: "order", Count: 3}, seqd.Errorf(seqd.CodeTimeout, "late"))
	if got, want := text.String(), "!!! order ×3: late\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A ticket continues from the counter that is there, also if the biz type counts as fresh, and
// refuses if the counter was lost.
func TestTicket(t *testing.T) {
	store := memory.New(time.Now)
	factory, err := strategy.Lookup("ticket")
	if err != nil {
		t.Fatal(err)
	}
	open := func(fresh bool) (seqd.Strategy, error) {
		s, err := factory.New(strategy.Env{Store: store, Now: time.Now}, seqd.BizType{Name: "a", Settings: factory.Settings()})
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Init(t.Context(), fresh)
	}
	if _, err := open(false); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Errorf("a lost counter: %v", err)
	}
	for _, step := range []struct {
		fresh bool
		want  int64
	}{{true, 1}, {false, 4}, {true, 7}} {
		s, err := open(step.fresh)
		if err != nil {
			t.Fatal(err)
		}
		var seq seqd.Sequence
		if err := s.Generate(t.Context(), 3, &seq); err != nil || seq.First() != step.want {
			t.Errorf("got %d, %v, want %d", seq.First(), err, step.want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Generate(t.Context(), 1, &seq); seqd.CodeOf(err) != seqd.CodeStopping {
			t.Errorf("after Close: %v", err)
		}
	}
}
