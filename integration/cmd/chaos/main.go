// Command chaos runs the fault laboratory: a whole system of real processes in network namespaces,
// under mixed load and a schedule of faults that a seed determines, and then the checker. It exits
// with 0 only if there is no violation. scripts/chaos builds its binaries and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/seqd/seqd/integration/chaos"
	"github.com/seqd/seqd/integration/chaos/sabotage"
	"github.com/seqd/seqd/internal/testing/check"
)

func init() { runtime.LockOSThread() } // what is started inside ends with this thread

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = max(code, 2) // 1 means a violation, also in a sabotaged run
	}
	os.Exit(code)
}

func run() (int, error) {
	o := chaos.Options{Out: os.Stdout}
	flag.Int64Var(&o.Seed, "seed", time.Now().UnixNano()%1_000_000, "determines the faults and the load's choices")
	flag.DurationVar(&o.Duration, "duration", 2*time.Minute, "how long load and faults last")
	flag.StringVar(&o.Dir, "out", "", "folder for the record and the logs; by default a temporary one, which is kept if there is a violation")
	flag.StringVar(&o.Binaries.Seqd, "seqd", "", "the binary of internal/testing/clockseqd")
	flag.StringVar(&o.Binaries.StandIn, "standin", "", "the binary of integration/cmd/mongostandin")
	store := flag.String("store", chaos.Stores[0], "what the nodes share: "+strings.Join(chaos.Stores, ", "))
	redis := flag.String("redis", "sentinel", "sentinel, or none: the store orders the numbers")
	failover := flag.String("failover", "lossless", "lossless, or lossy: the standby of the store is asynchronous")
	lacking := flag.String("sabotage", "", "the rules that seqd, built with the tag "+sabotage.Tag+", lacks: only violations of promises about numbers count")
	flag.IntVar(&o.Pace, "pace", 1, "multiplies the pauses of callers, for machines that do something else as well")
	only := flag.String("only", "", "the classes of faults, separated by commas; by default all")
	record := flag.String("check", "", "check this record of an earlier run, print the report and exit")
	plan := flag.Bool("plan", false, "print the schedule and exit")
	flag.Parse()
	var err error
	if o.Sabotaged, err = takeOut(*lacking); err != nil {
		return 2, err
	}
	if o.System, err = chaos.NewSystem(*store, *redis, *failover); err != nil {
		return 2, err
	}
	if o.Only, err = chaos.Classes(o.System, *only); err != nil {
		return 2, err
	}
	switch {
	case flag.NArg() > 0:
		return 2, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	case *record != "":
		return checkRecord(*record)
	case *plan:
		chaos.PrintPlan(os.Stdout, o.System, o.Seed, o.Duration, o.Only)
		return 0, nil
	case o.Binaries.Seqd == "" || o.Binaries.StandIn == "" && *store == chaos.Mongo:
		return 2, errors.New("--seqd or --standin is missing; scripts/chaos builds them")
	case chaos.Faults(o.System, o.Seed, o.Duration, o.Only) == 0:
		return 2, fmt.Errorf("--duration %v is too short for a fault of seed %d", o.Duration, o.Seed)
	case !chaos.Inside():
		if err := chaos.Vacant(o.Dir); err != nil {
			return 2, err
		}
		return chaos.Enter()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return chaos.Run(ctx, o)
}

// checkRecord checks a record again, even one of a run that was cut short.
func checkRecord(path string) (int, error) {
	report, err := check.File(path, check.Options{Unfinished: true})
	if err != nil {
		return 2, err
	}
	fmt.Print(report)
	if report.Total() > 0 {
		return 1, nil
	}
	return 0, nil
}

// takeOut makes every seqd lack the rules of a sabotage, and reports whether a name was given.
func takeOut(name string) (sabotaged bool, err error) {
	if name == "" {
		return false, os.Unsetenv(sabotage.Env)
	}
	s, err := sabotage.Find(name)
	if err != nil {
		return false, err
	}
	if chaos.Inside() { // print it once
		fmt.Fprintf(os.Stderr, "%s takes out: %s\nexpected: %s\n", s.Name, s.Lacks, s.Caught)
	}
	return true, os.Setenv(sabotage.Env, s.Environment())
}
