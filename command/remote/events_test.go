package remote_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
)

// What happened is printed, as text and as JSON.
func TestEvents(t *testing.T) {
	l := serving(t, "store: {driver: memory}\nbizTypes: [{name: invoice, strategy: gapless, events: true}, {name: order}]\n")
	l.until("next", "invoice", "--count", "3")
	const want = `"type":"range.issued","bizType":"invoice"`
	var got outcome
	await.True(t, "the event is published", func() bool {
		got = l.run("events", "invoice", "--json")
		return strings.Contains(got.out, want)
	})
	if !strings.HasPrefix(got.out, `{"position":1,`) || !strings.Contains(got.out, `"data":{"runs":[{"from":1,"to":3}]}`) {
		t.Errorf("%+v", got)
	}
	if got = l.run("events", "invoice"); !strings.HasPrefix(got.out, "1 20") || !strings.HasSuffix(got.out, "Z range.issued - - {\"runs\":[{\"from\":1,\"to\":3}]}\n") {
		t.Errorf("%+v", got)
	}
	if got = l.run("events", "invoice", "--after", "1"); got != (outcome{}) {
		t.Errorf("after the last one: %+v", got)
	}
	for _, args := range [][]string{{"events", "order"}, {"events", "nothing"}, {"events", "invoice", "--after", "-2"}, {"events"}} {
		if got := l.run(args...); got.code == 0 || got.errs == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
