package sim_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/check"
	"github.com/seqd/seqd/internal/testing/sim"
	"github.com/seqd/seqd/internal/testing/worlds"
	_ "github.com/seqd/seqd/standard"
)

var (
	seed    = flag.Uint64("sim.seed", 0, "run this seed only, and print what happens")
	kept    = flag.String("sim.kept", "all", "with -sim.seed, the lines of the plan that happen, from 0, such as 3,17; empty for none")
	repeats = flag.Int("sim.repeats", 1, "with -sim.seed, how often it runs")
	first   = flag.Uint64("sim.first", 1, "the first seed")
	step    = flag.Uint64("sim.step", 1, "the distance between seeds")
	seeds   = flag.Int("sim.seeds", 4, "how many seeds run")
	only    = flag.String("sim.only", "", "the kinds of faults, with commas; empty for all that a world can have")
	budget  = flag.Duration("sim.for", 0, "run seeds for so long, in real time, instead of -sim.seeds")
	length  = flag.Duration("sim.length", 3*time.Minute, "how long the faults and the load of a seed last, in virtual time")
	shrink  = flag.Duration("sim.shrink", 2*time.Minute, "how long the plan of a seed that failed is shortened, in real time")
)

// world runs a world in a bubble of its own.
func world(t *testing.T, name string, o sim.Options) (report *check.Report) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { report = sim.Run(t, o) })
	})
	return report
}

// TestSimulation runs whole nodes under random faults, on all cores.
func TestSimulation(t *testing.T) {
	switch {
	case *listed:
		listRules()
		return
	case *without != "":
		findRule(t)
		return
	case *seed > 0:
		again(t)
		return
	}
	began := time.Now()
	var next atomic.Int64
	var mu sync.Mutex // guards plain and redis
	var plain, redis sum
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for !t.Failed() {
				i := next.Add(1) - 1
				if *budget > 0 && time.Since(began) >= *budget || *budget == 0 && i >= int64(*seeds) {
					return
				}
				o := sim.OfSeed(*first+uint64(i)**step, *length)
				o.Only = kinds()
				cpu := used()
				report := world(t, o.String(), o)
				if report == nil {
					return // the test has said why
				}
				if report.Total() > 0 {
					t.Errorf("%v:\n%v", o, report)
					explain(t, o, report)
					return
				}
				mu.Lock()
				if o.Redis {
					redis.add(report, used()-cpu)
				} else {
					plain.add(report, used()-cpu)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("seeds from %d on, in %v\nwithout Redis: %v\nwith Redis: %v", *first, time.Since(began).Round(time.Second), plain, redis)
}

// sum is what worlds of one kind had in sum.
type sum struct {
	seeds, faults, calls int
	numbers              int64
	lived, cpu           time.Duration
}

// add adds a world. cpu is the processor time that the process used meanwhile.
func (s *sum) add(report *check.Report, cpu time.Duration) {
	s.seeds++
	s.faults += report.Faults
	s.calls += report.Calls
	s.numbers += report.Numbers
	s.lived += sim.Nodes * report.Length
	s.cpu += cpu
}

func (s sum) String() string {
	if s.seeds == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d seeds, %d faults, %d calls, %d numbers: %.2f virtual node-hours", s.seeds, s.faults, s.calls, s.numbers, s.lived.Hours())
	if runtime.GOMAXPROCS(0) == 1 { // else worlds share the processor time
		text += fmt.Sprintf(", %.1f in a minute of processor time", s.lived.Hours()/s.cpu.Minutes())
	}
	return text
}

// kinds returns the kinds of faults of -sim.only.
func kinds() []string { return strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }) }

// again runs one seed, and says how often it fails.
func again(t *testing.T) {
	o := sim.OfSeed(*seed, *length)
	o.Only = kinds()
	if *kept != "all" {
		o.Kept = []int{}
	}
	for number := range strings.SplitSeq(*kept, ",") {
		if i, err := strconv.Atoi(number); err == nil {
			o.Kept = append(o.Kept, i)
		}
	}
	failed := 0
	for i := range *repeats {
		if i == 0 {
			o.Say = os.Stdout
			for line, fault := range sim.Plan(o) {
				fmt.Printf("%4d %s\n", line, fault)
			}
		}
		report := world(t, o.String(), o)
		o.Say = nil
		if report != nil && report.Total() > 0 {
			failed++
		}
		t.Log(report)
	}
	if failed > 0 {
		t.Errorf("%d of %d runs of %v failed", failed, *repeats, o)
	}
}

// explain shortens the plan of a world that failed, and says how to run it again.
func explain(t *testing.T, o sim.Options, report *check.Report) {
	end, plan := time.Now().Add(*shrink), sim.Plan(o)
	broken := mainly(report)
	needed := worlds.Shorten(len(plan), func(kept []int) bool {
		// A world without faults breaks that rule, too: it shows too little.
		if broken == check.RuleRecord || time.Now().After(end) {
			return false
		}
		o.Kept = kept
		report := world(t, "shorter", o)
		return report != nil && report.Counts[broken] > 0
	})
	var list []string
	text := ""
	for _, i := range needed {
		list = append(list, strconv.Itoa(i))
		text += fmt.Sprintf("%4d %s\n", i, plan[i])
	}
	t.Logf("these faults are enough:\n%sAgain:\n  go test ./internal/testing/sim -run TestSimulation -sim.seed %d -sim.length %v -sim.only=%s -sim.kept=%s -sim.repeats 10 -v",
		text, o.Seed, o.Length, *only, strings.Join(list, ","))
}

// mainly returns the rule whose breach a shorter plan must repeat.
func mainly(report *check.Report) string {
	mainly := check.RuleRecord
	for name, count := range report.Counts {
		if count > 0 && (mainly == check.RuleRecord || name == check.RuleDuplicate) {
			mainly = name
		}
	}
	return mainly
}

// used returns the processor time of the process so far.
func used() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // its arguments are right
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
