package sim

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var bolts = flag.Uint64("sim.bolt", 3, "how many seeds of one node on bolt run")

// One node on real files keeps every promise, whenever it is killed.
func TestBolt(t *testing.T) {
	for seed := range *bolts {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := Options{Seed: seed, Length: 5 * time.Minute, Bolt: true, Pace: 40}
				if report := Run(t, o); report.Total() > 0 {
					t.Errorf("%v:\n%v", o, report)
				}
			})
		})
	}
}
