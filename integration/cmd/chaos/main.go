// Command chaos runs the fault laboratory: a whole system of real processes in network namespaces, mixed load and a schedule of faults that a seed determines, and
// then the checker. It exits with 0 only without a violation. scripts/chaos builds what it needs and starts it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/seqd/seqd/integration/chaos"
)

func init() { runtime.LockOSThread() } // what is started inside ends with this thread

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run() (int, error) {
	o := chaos.Options{Out: os.Stdout}
	flag.Int64Var(&o.Seed, "seed", time.Now().UnixNano()%1_000_000, "what determines the faults and the load's choices")
	flag.DurationVar(&o.Duration, "duration", 2*time.Minute, "how long load and faults last")
	flag.StringVar(&o.Dir, "out", "", "folder for the record and the logs; without it a temporary one, which is kept when there is a violation")
	flag.StringVar(&o.Binaries.Seqd, "seqd", "", "the binary of internal/clockseqd")
	flag.StringVar(&o.Binaries.StandIn, "standin", "", "the binary of integration/cmd/mongostandin")
	plan := flag.Bool("plan", false, "print the schedule and end")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return 2, fmt.Errorf("%q is no flag", flag.Arg(0))
	case *plan:
		chaos.PrintPlan(os.Stdout, o.Seed, o.Duration)
		return 0, nil
	case !chaos.Inside():
		return chaos.Enter()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return chaos.Run(ctx, o)
}
