package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// figure measures one thing.
type figure struct {
	name  string
	about string // one line for -list
	// budget is how long it takes about with the default flags, on two cores.
	budget time.Duration
	run    func(context.Context, options) (outcome, error)
	// twice doubles the rounds: the goal is close, so the interval must be narrow.
	twice bool
	// most bounds the rounds of what takes long or hardly varies; 0 means no bound.
	most int
	// old says that the figure can compare the binary of -old.
	old bool
}

// outcome is the result of a figure.
type outcome struct {
	results []result
	panels  []panel
}

// lines adapts what has only lines of the table.
func lines(f func(context.Context, options) ([]result, error)) func(context.Context, options) (outcome, error) {
	return func(ctx context.Context, o options) (outcome, error) {
		results, err := f(ctx, o)
		return outcome{results: results}, err
	}
}

// figures are in the order of the table. To add one, write a function in the file of its subject, and
// add a line here.
var figures = []figure{
	{name: "single", run: lines(benchSingle), budget: 40 * time.Second, twice: true, old: true, about: "one ID per HTTP request on bolt, beside a constant route: rate, p99 at saturation, CPU"},
	{name: "snowflake.http", run: lines(benchSnowflakeHTTP), budget: 40 * time.Second, twice: true, old: true, about: "one snowflake ID per HTTP request, beside a constant route"},
	{name: "snowflake.process", run: lines(benchSnowflake), budget: 50 * time.Second, about: "snowflake in process, beside bwmarrin/snowflake and the layout's limit, with CPU"},
	{name: "strict", run: lines(benchStrict), budget: 60 * time.Second, twice: true, old: true, about: "strict order over Redis, beside a constant route and a route with one INCR"},
	{name: "latency", run: lines(benchLatency), budget: 25 * time.Second, old: true, about: "strict order over Redis on one idle connection, beside one INCR"},
	{name: "active", run: lines(benchActive), most: 6, budget: 55 * time.Second, old: true, about: "10,000 strict biz types at random, beside one; Redis round trips for each number"},
	{name: "joins", run: lines(benchJoins), most: 6, budget: 40 * time.Second, about: "p99.9 while ranges end all the time and the store is slow"},
	{name: "batch", run: lines(benchBatch), budget: 25 * time.Second, old: true, about: "10,000 numbers per request, beside the same bytes ready-made"},
	{name: "process", run: lines(benchNext), budget: 35 * time.Second, about: "one number in process, beside an atomic add"},
	{name: "idempotent", run: lines(benchIdempotent), budget: 25 * time.Second, old: true, about: "POST with an Idempotency-Key each, beside one INCR"},
	{name: "postgres.strict", run: lines(benchPostgresStrict), budget: 35 * time.Second, old: true, about: "strict order from PostgreSQL, beside one UPDATE and beside Redis"},
	{name: "postgres.pernode", run: lines(benchPostgresPerNode), budget: 25 * time.Second, old: true, about: "per-node order on PostgreSQL, beside bolt"},
	{name: "postgres.allocate", run: lines(benchPostgresAllocate), budget: 15 * time.Second, about: "one Allocate, beside a bare UPDATE"},
	{name: "gapless.issue", run: lines(benchGaplessIssue), budget: 35 * time.Second, old: true, about: "gapless numbers on bolt and PostgreSQL, beside one UPDATE"},
	{name: "gapless.reserve", run: lines(benchGaplessReserve), budget: 20 * time.Second, about: "reserve and confirm, beside issuing at once"},
	{name: "gapless.events", run: lines(benchGaplessEvents), most: 6, budget: 20 * time.Second, about: "gapless numbers with events, beside none"},
	{name: "resp.p64", run: lines(benchRespPipelined), budget: 20 * time.Second, old: true, about: "the Redis protocol with pipelines of 64, beside redis-server"},
	{name: "resp.p1", run: lines(benchRespSingle), budget: 25 * time.Second, old: true, about: "the Redis protocol without pipelines, beside redis-server"},
	{name: "resp.strict", run: lines(benchRespStrict), budget: 25 * time.Second, about: "strict order over Redis by the Redis protocol, beside HTTP"},
	{name: "client.buffered", run: lines(benchClientBuffered), budget: 10 * time.Second, about: "the Go client with a buffer, time for each ID"},
	{name: "client.next", run: lines(benchClientNext), budget: 10 * time.Second, about: "the Go client without a buffer, beside net/http"},
	{name: "generate", run: lines(benchGenerate), budget: 15 * time.Second, most: 6, about: "seqd generate: 10 million formatted numbers"},
	{name: "tinyid.segments", run: lines(benchTinyidSegments), budget: 35 * time.Second, about: "segments for Tinyid's clients, beside Tinyid's statements (and its server with -tinyid)"},
	{name: "keys.spread", run: lines(benchKeysSpread), budget: 35 * time.Second, old: true, about: "100,000 keys at random, beside one"},
	{name: "keys.memory", run: lines(benchKeysMemory), budget: 25 * time.Second, most: 1, about: "memory after 200,000 keys, of which 10,000 are live"},
	{name: "plugins", run: lines(benchPlugins), budget: 35 * time.Second, about: "biz types with plugins, beside none"},
	{name: "metricscost", run: lines(benchMetricsCost), budget: 55 * time.Second, twice: true, old: true, about: "metrics and tokens on, beside off"},
	{name: "overload", run: lines(benchOverload), budget: 55 * time.Second, most: 6, about: "four times as many clients as places"},
	{name: "console", run: lines(benchConsole), budget: 65 * time.Second, about: "what an open console costs"},
	{name: "beside.workers", run: lines(benchWorkers), most: 6, budget: 25 * time.Second, about: "issuing while 1,024 programs renew worker IDs, beside none"},
	{name: "beside.job", run: lines(benchBesideJob), most: 5, budget: 40 * time.Second, about: "p99 of issuing beside a job, beside none"},
	{name: "idle", run: lines(benchIdle), most: 6, budget: 20 * time.Second, old: true, about: "start to the first ID, and memory at rest"},
	{name: "packages", run: lines(benchPackages), budget: 30 * time.Second, about: "Go benchmarks: obfuscate, format, check a token"},
	{name: "changes", run: lines(benchChanges), budget: 40 * time.Second, most: 1, about: "how soon a change of a biz type reaches 3 nodes"},
	{name: "million.bolt", run: lines(benchMillionBolt), budget: 60 * time.Second, most: 3, about: "a million biz types on bolt: start, memory, first number of a cold one"},
	{name: "million.postgres", run: lines(benchMillionPostgres), budget: 65 * time.Second, most: 3, about: "the same on PostgreSQL"},
	{name: "restart", run: lines(benchRestart), budget: 75 * time.Second, most: 1, about: "three nodes restarted in turn under load on a million biz types"},
	{name: "percentiles", run: benchPercentiles, budget: 65 * time.Second, most: 4, about: "the plot of percentiles"},
	{name: "growth.biztypes", run: growBizTypes, budget: 85 * time.Second, most: 3, about: "the plot of 1 to 1,000,000 biz types"},
	{name: "growth.connections", run: growConnections, budget: 70 * time.Second, most: 3, about: "the plot of 1 to 1,000 connections"},
	{name: "growth.nodes", run: growNodes, budget: 30 * time.Second, most: 3, about: "the plot of 1 to 4 nodes"},
}

// mostTime is what the budgets of all figures may be together.
const mostTime = 26 * time.Minute

// roundsOf returns the number of rounds of a figure.
func (f figure) roundsOf(rounds int) int {
	if f.twice {
		rounds *= 2
	}
	if f.most > 0 {
		rounds = min(rounds, f.most)
	}
	return rounds
}

// chosen returns the figures that the flags name. The part of a name before a dot stands for all
// figures that have it. With an old binary, only figures that compare it are left.
func chosen(o options) (list []figure, err error) {
	wanted := strings.Split(o.only, ",")
	found := make(map[string]bool)
	for _, f := range figures {
		for _, name := range wanted {
			if group, _, _ := strings.Cut(f.name, "."); o.only != "" && name != f.name && name != group {
				continue
			}
			found[name] = true
			if o.oldBinary == "" || f.old {
				list = append(list, f)
			} else if o.only != "" {
				return nil, fmt.Errorf("the figure %s cannot compare an old binary", f.name)
			}
			break
		}
	}
	for _, name := range wanted {
		if !found[name] {
			return nil, fmt.Errorf("no figure is called %q; -list prints all", name)
		}
	}
	return list, nil
}

// listFigures prints the figures.
func listFigures(out io.Writer) {
	var sum time.Duration
	for _, f := range figures {
		old := ""
		if f.old {
			old = "-old"
		}
		fmt.Fprintf(out, "%-18s %4.0f s  %-4s  %s\n", f.name, f.budget.Seconds(), old, f.about)
		sum += f.budget
	}
	fmt.Fprintf(out, "\nA whole run takes at most %s with the default flags, besides waiting for a quiet machine. Those marked -old compare an old binary.\n", sum)
}
