// Command bench measures what docs/PERFORMANCE.md promises, each figure beside its baseline in the same process and the same run, and
// prints the table. It is a module of its own so that the product does not depend on what is only compared with. Run it by
// scripts/bench, which installs wrk and Redis and builds seqd and the stand-in for MongoDB.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	rounds   int
	duration time.Duration
	binary   string
	standIn  string
	only     string
	profile  string
	write    string
}

// result is one line of the table.
type result struct {
	what     string
	baseline string // what it is compared with, and its median
	value    string // the median
	spread   string // lowest to highest
	ratio    string // the median of the ratios of each round
	target   string
	reached  bool
}

// figure measures one thing.
type figure struct {
	name string
	run  func(context.Context, options) ([]result, error)
}

var figures = []figure{
	{"single", benchSingle},
	{"batch", benchBatch},
	{"next", benchNext},
	{"biztypes", benchBizTypes},
	{"start", benchStart},
	{"strict", benchStrict},
	{"latency", benchLatency},
	{"joins", benchJoins},
	{"nodes", benchNodes},
	{"active", benchActive},
	{"snowflake", benchSnowflake},
	{"snowflakehttp", benchSnowflakeHTTP},
	{"plugins", benchPlugins},
	{"idempotent", benchIdempotent},
	{"overload", benchOverload},
	{"metrics", benchMetrics},
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 9, "rounds of each pair; medians are over these")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "length of one load run")
	flag.StringVar(&o.binary, "binary", "", "the built seqd, for the figures start and nodes")
	flag.StringVar(&o.standIn, "standin", "", "the built stand-in for MongoDB, for the figures of strict ordering")
	flag.StringVar(&o.only, "only", "", "run only this figure")
	flag.StringVar(&o.write, "write", "", "put the table into this document, between its two bench comments")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile of the whole run to this file")
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var table strings.Builder
	out := io.MultiWriter(os.Stdout, &table)
	fmt.Fprintf(out, "%d cores (%s), %s, %s/%s; %d rounds, %s each. Medians; a ratio is the median of the rounds' ratios.\n\n",
		runtime.NumCPU(), processor(), runtime.Version(), runtime.GOOS, runtime.GOARCH, o.rounds, o.duration)
	fmt.Fprintln(out, "| figure | baseline | seqd | lowest–highest | ratio | target | |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	missed := 0
	for _, f := range figures {
		if o.only != "" && o.only != f.name {
			continue
		}
		results, err := f.run(ctx, o)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		for _, r := range results {
			if r.target != "" && !r.reached {
				missed++
			}
			fmt.Fprintln(out, r.row())
		}
	}
	fmt.Fprintf(out, "\n%d targets missed.\n", missed)
	if o.write != "" {
		return replaceTable(o.write, table.String())
	}
	return nil
}

// row is the result as a line of a Markdown table.
func (r result) row() string {
	mark := "reached"
	switch {
	case r.target == "":
		mark = ""
	case !r.reached:
		mark = "**missed**"
	}
	return "| " + strings.Join([]string{r.what, r.baseline, r.value, r.spread, r.ratio, r.target, mark}, " | ") + " |"
}

// replaceTable puts text between the two comments of a document.
func replaceTable(path, text string) error {
	const begin, end = "<!-- bench -->\n", "<!-- /bench -->"
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for the table", path)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}

// processor is what the machine calls its processor.
func processor() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return "unknown processor"
}

// median of a list that is not empty.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// pairs are two measurements taken in turn.
type pairs struct{ base, value []float64 }

// measure takes baseline and value in turn.
func measure(rounds int, base, value func() (float64, error)) (pairs, error) {
	lists, err := turns(rounds, base, value)
	if err != nil {
		return pairs{}, err
	}
	return pairs{base: lists[0], value: lists[1]}, nil
}

// turns takes several measurements in turn and returns a list of each. Every round begins with the next of them, so that none always runs on
// the warmest machine. One round more than asked for comes first, to warm up, and does not count.
func turns(rounds int, measurements ...func() (float64, error)) ([][]float64, error) {
	lists := make([][]float64, len(measurements))
	for round := range rounds + 1 {
		for i := range measurements {
			n := (i + round) % len(measurements)
			value, err := measurements[n]()
			if err != nil {
				return nil, err
			}
			if round > 0 {
				lists[n] = append(lists[n], value)
			}
		}
	}
	return lists, nil
}

// ratio is the median of the rounds' ratios value/base.
func (p pairs) ratio() float64 {
	ratios := make([]float64, len(p.base))
	for i := range ratios {
		ratios[i] = p.value[i] / p.base[i]
	}
	return median(ratios)
}

// result fills a line; format writes one measurement. atLeast is whether the ratio shall be at least the target, else at most.
func (p pairs) result(what, baseline string, format func(float64) string, atLeast bool, target float64) result {
	r := p.report(what, baseline, format)
	ratio := p.ratio()
	sign := "≤"
	r.reached = ratio <= target
	if atLeast {
		sign, r.reached = "≥", ratio >= target
	}
	r.target = fmt.Sprintf("%s %.2f", sign, target)
	return r
}

// report is result without a target.
func (p pairs) report(what, baseline string, format func(float64) string) result {
	r := report(what, p.value, format)
	r.baseline = baseline + " " + format(median(p.base))
	r.ratio = fmt.Sprintf("%.2f", p.ratio())
	return r
}

// report fills a line that stands alone.
func report(what string, values []float64, format func(float64) string) result {
	return result{what: what, value: format(median(values)), spread: format(slices.Min(values)) + "–" + format(slices.Max(values))}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
