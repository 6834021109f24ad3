package command

import (
	"strings"
	"testing"
)

// A store that cannot fail over is a mistake on the command line, not a failure.
func TestFailoverOfNothing(t *testing.T) {
	for _, args := range [][]string{{"failover"}, {"failover", "--confirm"}} {
		file := write(t, good)
		if got := runWith(t, nil, append(args, "--config", file)...); got.code != ExitConfig || !strings.Contains(got.errs, "store.driver: memory is of one node") || got.out != "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"raise", "order", "5", "--confirm"}, {"doctor", "--confirm"}, {"failover", "now"}} {
		if got := runWith(t, nil, append(args, "--config", write(t, good))...); got.code != ExitConfig {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// A store that cannot be reached is a failure: another try may succeed.
func TestFailoverOutOfReach(t *testing.T) {
	file := write(t, "store: {driver: mongo, mongo: {uri: \"mongodb://127.0.0.1:1\", timeout: 100ms}}\nsegment: {ordering: per-node}\nbizTypes: [{name: order}]\n")
	if got := runWith(t, nil, "failover", "--config", file); got.code != ExitFailed || !strings.Contains(got.errs, "seqd: failover: ") {
		t.Errorf("%+v", got)
	}
}
