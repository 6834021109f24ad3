package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

// inPackage is a limit for one of seqd's own Go benchmarks. If the benchmark has several parts, the
// slowest counts.
type inPackage struct {
	what, pkg, name string
	bound           float64 // ns
	allocations     int
}

var inPackages = []inPackage{
	{"obfuscate one number, the slowest number of digits", "./plugin/obfuscate", "^BenchmarkAfter$/^digits", 150, 0},
	{"format one number by the template of the example, 1 allocation", "./plugin/format", "^BenchmarkFormat$", 250, 1},
	{"check a token, 0 allocations", "./server/access", "^BenchmarkAllow$", 300, 0},
}

// benchPackages runs seqd's own Go benchmarks. It must run in seqd's folder.
func benchPackages(ctx context.Context, o options) (results []result, err error) {
	for _, p := range inPackages {
		values, err := p.run(ctx, o)
		if err != nil {
			return nil, err
		}
		results = append(results, report(p.what, values, nanoseconds).atMost(p.bound))
	}
	return results, nil
}

var benchmarkLine = regexp.MustCompile(`(?m)^(Benchmark\S+)\s+\d+\s+([0-9.]+) ns/op.*?([0-9]+) allocs/op`)

// run returns ns per operation for each round. More allocations than allowed are an error.
func (p inPackage) run(ctx context.Context, o options) ([]float64, error) {
	rounds := strconv.Itoa(o.rounds)
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", p.name, "-benchmem", "-benchtime", "100ms", "-count", rounds, p.pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test %s: %w: %s", p.pkg, err, out)
	}
	values, seen := make([]float64, o.rounds), make(map[string]int)
	for _, match := range benchmarkLine.FindAllStringSubmatch(string(out), -1) {
		ns, nsErr := strconv.ParseFloat(match[2], 64)
		allocations, allocErr := strconv.Atoi(match[3])
		if nsErr != nil || allocErr != nil || allocations > p.allocations || seen[match[1]] >= o.rounds {
			return nil, fmt.Errorf("go test %s: %s", p.pkg, match[0])
		}
		round := seen[match[1]]
		seen[match[1]]++
		values[round] = max(values[round], ns)
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("go test %s -bench %s runs nothing: %s", p.pkg, p.name, out)
	}
	return values, nil
}
