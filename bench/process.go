package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// perOp runs a Go benchmark and returns nanoseconds per operation. Allocations are an error.
func perOp(f func(*testing.B)) (float64, error) {
	testing.Init() // registers the flags, once
	if err := flag.Set("test.benchtime", "300ms"); err != nil {
		return 0, err
	}
	r := testing.Benchmark(f)
	if r.N == 0 {
		return 0, errors.New("the benchmark failed")
	}
	if a := r.AllocsPerOp(); a > 0 {
		return 0, fmt.Errorf("%d allocations per operation", a)
	}
	return float64(r.T.Nanoseconds()) / float64(r.N), nil
}

// benchNext compares taking a number in process with the atomic add that it needs at least.
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

// benchBizTypes loads seqd with 1, 1,000 and 100,000 biz types in the store. With 100,000, one biz
// type is loaded, and then all at random.
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
	all, idle, stopAll, err := startIdle(ctx, o.rounds, names(many))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stopAll()) }()

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
	return append(results, within("memory per idle biz type beyond its definition", idle, bytesEach, 1024)), nil
}

// startIdle starts seqd once per round with the given biz types. It returns the URL of the last one
// and the memory per biz type of each.
func startIdle(ctx context.Context, rounds int, bizTypes []seqd.BizType) (url string, idle []float64, stop func() error, err error) {
	for len(idle) < rounds {
		if stop != nil {
			if err := stop(); err != nil {
				return "", nil, nil, err
			}
		}
		before := heap()
		if url, stop, err = startWith(ctx, bizTypes); err != nil {
			return "", nil, nil, err
		}
		idle = append(idle, float64(heap()-before)/float64(len(bizTypes)))
	}
	runtime.KeepAlive(bizTypes)
	return url, idle, stop, nil
}

// startWith runs seqd on a new store.
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

// wrkSpread is like wrk, for random biz types among the first n.
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

// warmAll asks for every biz type once, so that the measured load does not include opening them.
func warmAll(ctx context.Context, url string, n int) error {
	return errors.Join(ctx.Err(), inParallel(n, 64, func(i int) error {
		_, err := get(fmt.Sprintf("%s/seq/type%06d", url, i))
		return err
	}))
}

// inParallel calls do n times, several at a time.
func inParallel(n, atOnce int, do func(i int) error) error {
	var next atomic.Int64
	failed := make([]error, atOnce)
	var all sync.WaitGroup
	for worker := range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed[worker] == nil; i = int(next.Add(1)) - 1 {
				failed[worker] = do(i)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// heap returns the memory in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// benchStart starts the real binary on an empty folder and measures the time to its first ID.
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
			took, resident, err := startOnce(ctx, o.binary, dir)
			if err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			*list = append(*list, took)
			rss = append(rss, resident)
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return []result{
		within("process start to first ID, three biz types, new store", empty, milliseconds, 100_000),
		within("the same, existing store", again, milliseconds, 100_000),
		report("resident memory 3 s after that, idle", rss, mebibytes),
	}, nil
}

// settled is how long after its first ID a process that does nothing counts as idle.
const settled = 3 * time.Second

// startOnce returns the time to the first ID in µs, and the resident memory of the idle process in
// bytes.
func startOnce(ctx context.Context, binary, dir string) (took, rss float64, err error) {
	p, err := startFirst(ctx, binary, dir, "/seq/order", `SEQD_BIZTYPES=[{"name":"order","start":100},{"name":"user"},{"name":"invite"}]`)
	if err != nil {
		return 0, 0, err
	}
	time.Sleep(settled)
	rss, err = p.resident()
	return p.took, rss, errors.Join(err, p.stop())
}

// process is a seqd process.
type process struct {
	*child
	url   string
	began time.Time
	took  float64 // from the start to the first ID, in µs
}

// patient is how long a process may take until its first ID.
const patient = 5 * time.Minute

// startFirst starts the real binary in a folder and waits for its first ID.
func startFirst(ctx context.Context, binary, dir, path string, env ...string) (p process, err error) {
	addr, err := freeAddr()
	if err != nil {
		return p, err
	}
	p.url = "http://" + addr
	p.began = time.Now()
	if p.child, err = startChild(ctx, dir, append(env, "SEQD_SERVER_ADDR="+addr, "SEQD_LOG_LEVEL=error"), binary); err != nil {
		return p, err
	}
	for {
		if _, err = get(p.url + path); err == nil {
			p.took = float64(time.Since(p.began).Nanoseconds()) / 1000
			return p, nil
		}
		select {
		case <-p.exited:
			return p, errors.Join(err, p.stop())
		case <-time.After(200 * time.Microsecond):
		}
		if time.Since(p.began) > patient || ctx.Err() != nil {
			return p, errors.Join(err, p.stop())
		}
	}
}

// resident returns the resident memory of the process in bytes.
func (c *child) resident() (float64, error) {
	var kib float64
	_, err := fmt.Sscan(field(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid), "VmRSS"), &kib)
	return kib * 1024, err
}
