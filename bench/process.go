package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

func nanoseconds(n float64) string { return fmt.Sprintf("%.1f ns", n) }

// perOp runs a Go benchmark and returns nanoseconds per operation; one that allocates is an error.
func perOp(f func(*testing.B)) (float64, error) {
	r := testing.Benchmark(f)
	if r.N == 0 {
		return 0, errors.New("the benchmark failed")
	}
	if a := r.AllocsPerOp(); a > 0 {
		return 0, fmt.Errorf("%d allocations per operation", a)
	}
	return float64(r.T.Nanoseconds()) / float64(r.N), nil
}

// benchNext compares taking a number in process with the atomic add that it cannot do without.
func benchNext(ctx context.Context, o options) (results []result, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "seqd.db"), LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	env := strategy.Env{Store: store, Now: time.Now, Log: discard(), Observer: seqd.NopObserver{}}
	s, err := segment.New(env, bizType("order"))
	if err != nil {
		return nil, err
	}
	if err := s.Init(ctx, true); err != nil {
		return nil, err
	}
	next := func(seq *seqd.Sequence, b *testing.B) {
		seq.Reset()
		if err := s.Generate(ctx, 1, seq); err != nil {
			b.Error(err)
		}
	}
	var word int64
	alone, err := measure(o.rounds,
		func() (float64, error) {
			return perOp(func(b *testing.B) {
				for b.Loop() {
					atomic.AddInt64(&word, 1)
				}
			})
		},
		func() (float64, error) {
			return perOp(func(b *testing.B) {
				var seq seqd.Sequence
				for b.Loop() {
					next(&seq, b)
				}
			})
		})
	if err != nil {
		return nil, err
	}
	together, err := measure(o.rounds,
		func() (float64, error) {
			return perOp(func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						atomic.AddInt64(&word, 1)
					}
				})
			})
		},
		func() (float64, error) {
			return perOp(func(b *testing.B) {
				b.RunParallel(func(pb *testing.PB) {
					var seq seqd.Sequence
					for pb.Next() {
						next(&seq, b)
					}
				})
			})
		})
	if err != nil {
		return nil, err
	}
	return []result{
		alone.result("`Next` in process, 1 goroutine, 0 allocations", "`atomic.AddInt64`", nanoseconds, false, 4),
		together.result(fmt.Sprintf("`Next` in process, %d goroutines, 0 allocations", runtime.GOMAXPROCS(0)), "`atomic.AddInt64` on one word", nanoseconds, false, 2.5),
	}, nil
}

// benchBizTypes loads seqd with 1, 1,000 and 100,000 biz types in the store. The last is asked for one of them and for all in turn.
func benchBizTypes(ctx context.Context, o options) (results []result, err error) {
	const many = 100_000
	names := func(n int) (list []seqd.BizType) {
		for i := range n {
			list = append(list, bizType(fmt.Sprintf("type%06d", i)))
		}
		return list
	}
	one, stopOne, err := startWith(ctx, names(1))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopOne()) }()
	thousand, stopThousand, err := startWith(ctx, names(1000))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopThousand()) }()
	definitions := names(many)
	before := heap()
	all, stopAll, err := startWith(ctx, definitions)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopAll()) }()
	idle := float64(heap()-before) / many
	runtime.KeepAlive(definitions)

	baseline := func() (float64, error) { return wrk(ctx, o, one+"/seq/type000000") }
	for _, c := range []struct {
		what string
		run  func() (float64, error)
	}{
		{"1,000 biz types, one asked for", func() (float64, error) { return wrk(ctx, o, thousand+"/seq/type000500") }},
		{"100,000 biz types, one asked for", func() (float64, error) { return wrk(ctx, o, all+"/seq/type050000") }},
	} {
		p, err := measure(o.rounds, baseline, c.run)
		if err != nil {
			return nil, err
		}
		results = append(results, p.result(c.what, "1 biz type", perSecond, true, 0.90))
	}
	if err := warmAll(ctx, all, many); err != nil {
		return nil, err
	}
	p, err := measure(o.rounds,
		func() (float64, error) { return wrkSpread(ctx, o, one, 1) },
		func() (float64, error) { return wrkSpread(ctx, o, all, many) })
	if err != nil {
		return nil, err
	}
	results = append(results, p.result("100,000 biz types, all asked for at random", "1 biz type, same load script", perSecond, true, 0.90))
	return append(results, result{
		what: "memory per idle biz type beyond its definition", value: fmt.Sprintf("%.0f bytes", idle), target: "≤ 1024 bytes", reached: idle <= 1024,
	}), nil
}

// startWith runs seqd on a store of its own.
func startWith(ctx context.Context, bizTypes []seqd.BizType) (url string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return "", nil, err
	}
	url, stopSeqd, err := startSeqd(ctx, dir, bizTypes)
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return url, func() error { return errors.Join(stopSeqd(), os.RemoveAll(dir)) }, nil
}

// wrkSpread is wrk asking for random ones of the first n biz types.
func wrkSpread(ctx context.Context, o options, url string, n int) (float64, error) {
	l, err := runWrkSpread(ctx, o, url, n)
	return l.rate, err
}

func runWrkSpread(ctx context.Context, o options, url string, n int) (l load, err error) {
	script, err := os.CreateTemp("", "seqd-bench-*.lua")
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, os.Remove(script.Name())) }()
	_, err = fmt.Fprintf(script, `
math.randomseed(%d)
request = function() return wrk.format("GET", string.format("/seq/type%%06d", math.random(0, %d))) end
`, rand.Int32(), n-1)
	if err := errors.Join(err, script.Close()); err != nil {
		return l, err
	}
	return runWrk(ctx, o, url, "-s", script.Name())
}

// warmAll asks for every biz type once, so that the load that is measured is issuing and not opening.
func warmAll(ctx context.Context, url string, n int) error {
	work := make(chan int)
	failed := make(chan error, 64)
	for range cap(failed) {
		go func() {
			var err error
			for i := range work {
				if _, e := get(fmt.Sprintf("%s/seq/type%06d", url, i)); e != nil {
					err = e
				}
			}
			failed <- err
		}()
	}
	for i := range n {
		work <- i
	}
	close(work)
	var err error
	for range cap(failed) {
		err = errors.Join(err, <-failed)
	}
	return errors.Join(err, ctx.Err())
}

// heap is the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// benchStart starts the real binary on an empty folder and takes the time to its first ID.
func benchStart(ctx context.Context, o options) ([]result, error) {
	if o.binary == "" {
		return nil, errors.New("-binary is needed")
	}
	var empty, again, rss []float64
	for range o.rounds {
		dir, err := os.MkdirTemp("", "seqd-bench-")
		if err != nil {
			return nil, err
		}
		for _, list := range []*[]float64{&empty, &again} {
			took, kib, err := startOnce(ctx, o.binary, dir)
			if err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			*list = append(*list, took)
			rss = append(rss, kib)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	line := func(what string, values []float64) result {
		return result{
			what: what, value: fmt.Sprintf("%.1f ms", median(values)), spread: fmt.Sprintf("%.1f–%.1f ms", slices.Min(values), slices.Max(values)),
			target: "≤ 100 ms", reached: median(values) <= 100,
		}
	}
	return []result{
		line("process start to first ID, three biz types, new store", empty),
		line("the same, existing store", again),
		{what: "resident memory after that, idle", value: fmt.Sprintf("%.1f MiB", median(rss)/1024), spread: fmt.Sprintf("%.1f–%.1f MiB", slices.Min(rss)/1024, slices.Max(rss)/1024)},
	}, nil
}

// startOnce returns milliseconds to the first ID and the resident memory in KiB.
func startOnce(ctx context.Context, binary, dir string) (took, rss float64, err error) {
	addr, err := freeAddr()
	if err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Dir = dir
	cmd.Env = append(environ(), "SEQD_SERVER_ADDR="+addr, "SEQD_LOG_LEVEL=error",
		`SEQD_BIZTYPES=[{"name":"order","start":100},{"name":"user"},{"name":"invite"}]`)
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	for {
		if _, err = get("http://" + addr + "/seq/order"); err == nil {
			break
		}
		if time.Since(began) > 10*time.Second {
			return 0, 0, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		}
		time.Sleep(200 * time.Microsecond)
	}
	took = float64(time.Since(began).Microseconds()) / 1000
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err == nil {
		for line := range strings.SplitSeq(string(status), "\n") {
			if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				_, err = fmt.Sscan(rest, &rss)
			}
		}
	}
	return took, rss, errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
}
