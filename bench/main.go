// Command bench measures the figures of docs/PERFORMANCE.md and prints them as Markdown. Each
// figure and its baseline are measured in the same process and the same run. The flag -write puts
// the output into the document. bench is a separate module so that seqd does not depend on the
// libraries it is compared with. Run it with scripts/bench, which installs wrk, Redis, PostgreSQL
// and MariaDB and builds seqd and the stand-in for MongoDB.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"time"
)

// options are the flags of the command line.
type options struct {
	rounds   int
	duration time.Duration
	quick    bool
	binary   string
	standIn  string
	tinyid   string
	commit   string
	only     string
	profile  string
	profiles string
	json     string
	write    string
}

// outcome is the result of a figure.
type outcome struct {
	results   []result
	latencies []latency
	charts    []chart
}

// figure measures one thing.
type figure struct {
	name string
	run  func(context.Context, options) (outcome, error)
}

// lines returns a figure that has only lines of the table.
func lines(f func(context.Context, options) ([]result, error)) func(context.Context, options) (outcome, error) {
	return func(ctx context.Context, o options) (outcome, error) {
		results, err := f(ctx, o)
		return outcome{results: results}, err
	}
}

var figures = []figure{
	{"single", lines(benchSingle)},
	{"batch", lines(benchBatch)},
	{"next", lines(benchNext)},
	{"biztypes", lines(benchBizTypes)},
	{"start", lines(benchStart)},
	{"strict", lines(benchStrict)},
	{"latency", lines(benchLatency)},
	{"joins", lines(benchJoins)},
	{"active", lines(benchActive)},
	{"snowflake", lines(benchSnowflake)},
	{"snowflakehttp", lines(benchSnowflakeHTTP)},
	{"plugins", lines(benchPlugins)},
	{"idempotent", lines(benchIdempotent)},
	{"overload", lines(benchOverload)},
	{"postgres.pernode", lines(benchPostgresPerNode)},
	{"postgres.allocate", lines(benchPostgresAllocate)},
	{"postgres.strict", lines(benchPostgresStrict)},
	{"postgres.nodes", lines(benchPostgresNodes)},
	{"resp.p64", lines(benchRespPipelined)},
	{"resp.p1", lines(benchRespSingle)},
	{"resp.strict", lines(benchRespStrict)},
	{"client.buffered", lines(benchClientBuffered)},
	{"client.next", lines(benchClientNext)},
	{"generate", lines(benchGenerate)},
	{"tinyid.segments", lines(benchTinyidSegments)},
	{"gapless.issue", lines(benchGaplessIssue)},
	{"gapless.reserve", lines(benchGaplessReserve)},
	{"keys.memory", lines(benchKeysMemory)},
	{"keys.spread", lines(benchKeysSpread)},
	{"metrics", lines(benchMetrics)},
	{"console", lines(benchConsole)},
	{"packages", lines(benchPackages)},
	{"percentiles", benchPercentiles},
	{"growth.biztypes", growBizTypes},
	{"growth.connections", growConnections},
	{"growth.nodes", growNodes},
	{"growth.batch", growBatch},
	{"growth.store", growStoreLatency},
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each measurement; medians are over these")
	flag.DurationVar(&o.duration, "duration", time.Second, "length of one load run, in whole seconds: wrk takes no fractions")
	flag.BoolVar(&o.quick, "quick", false, "stop growth at 10,000 biz types and 100 connections")
	flag.StringVar(&o.binary, "binary", "", "the built seqd, for the figures that start processes")
	flag.StringVar(&o.standIn, "standin", "", "the built stand-in for MongoDB, for the figures of strict ordering")
	flag.StringVar(&o.tinyid, "tinyid", "", "the jar of Tinyid's server, which is then a peer of tinyid.segments; it needs Java")
	flag.StringVar(&o.commit, "commit", "unknown", "the commit that is measured, for the output")
	flag.StringVar(&o.only, "only", "", "run only these figures; postgres, resp, client, gapless, keys and growth stand for all of theirs: "+strings.Join(names(), ", "))
	flag.StringVar(&o.json, "json", "", "write every round's values to this file")
	flag.StringVar(&o.write, "write", "", "put the output into this document, between its two bench comments, and the charts into the folder performance beside it")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the whole run to this file")
	flag.StringVar(&o.profiles, "profiles", "", "instead of figures, write a CPU and an allocation profile of each hot path into this folder")
	if len(os.Args) > 1 && os.Args[1] != loadCommand {
		flag.Parse()
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func names() (list []string) {
	for _, f := range figures {
		list = append(list, f.name)
	}
	return list
}

// chosen returns the figures in -only. The part of a name before a dot stands for all figures that
// have it.
func chosen(only string) (list []figure, err error) {
	if only == "" {
		return figures, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		before := len(list)
		for _, f := range figures {
			if group, _, _ := strings.Cut(f.name, "."); f.name == name || group == name {
				list = append(list, f)
			}
		}
		if len(list) == before {
			return nil, fmt.Errorf("no figure is called %q; there are %s", name, strings.Join(names(), ", "))
		}
	}
	return list, nil
}

func run(ctx context.Context, o options) error {
	switch {
	case len(os.Args) > 1 && os.Args[1] == loadCommand:
		return generate(ctx)
	case o.profiles != "":
		return writeProfiles(ctx, o)
	}
	list, err := chosen(o.only)
	if err != nil {
		return err
	}
	if o.profile != "" {
		stop, err := startProfile(o.profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	d := newDocument(ctx, o)
	for _, f := range list {
		began := time.Now()
		out, err := f.run(ctx, o)
		switch {
		case ctx.Err() != nil:
			return errors.Join(err, ctx.Err())
		case err != nil: // continue with the others
			d.fail(f.name, err)
		default:
			d.add(f.name, out)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", f.name, time.Since(began).Round(time.Second/10))
	}
	err = d.write(o)
	if len(d.Failed) > 0 {
		err = errors.Join(err, fmt.Errorf("%d figures could not be measured: %s", len(d.Failed), strings.Join(d.Failed, "; ")))
	}
	return err
}

// startProfile writes a CPU profile until stop is called.
func startProfile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); _ = f.Close() }, nil
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
