package sim_test

import (
	"flag"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/sim"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	_ "github.com/seqd/seqd/standard"
)

var (
	seed    = flag.Uint64("sim.seed", 0, "run this seed only, and print what happens")
	seeds   = flag.Int("sim.seeds", 2, "how many seeds of each world are run")
	minutes = flag.Duration("sim.length", 10*time.Minute, "how long faults and load last, in virtual time")
)

func TestSimulation(t *testing.T) {
	for _, redis := range []bool{false, true} {
		for s := range *seeds {
			o := sim.Options{Seed: uint64(s) + 1, Length: *minutes, Redis: redis, Mode: storesim.Unfenced}
			if *seed > 0 {
				o.Seed, o.Say = *seed, os.Stdout
			}
			t.Run(o.String(), func(t *testing.T) {
				began := time.Now()
				var report *check.Report
				synctest.Test(t, func(t *testing.T) { report = sim.Run(t, o) })
				t.Logf("%v of real time\n%v", time.Since(began).Round(time.Millisecond), report)
				if report.Total() > 0 {
					t.Error("violations")
				}
			})
		}
	}
}
