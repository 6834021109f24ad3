package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
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

// inProcess returns what a strategy in this process needs, with a new bolt store.
func (s *servers) inProcess() (env strategy.Env, err error) {
	dir, err := s.folder()
	if err != nil {
		return env, err
	}
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "seqd.db"), LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		return env, err
	}
	s.cleanUps = append(s.cleanUps, store.Close)
	return strategy.Env{
		Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:8080",
	}, nil
}

// benchNext compares taking a number in process with the atomic add that it needs at least.
func benchNext(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		env, err := s.inProcess()
		if err != nil {
			return nil, err
		}
		settings := segment.DefaultSettings()
		strategy, err := segment.New(env, seqd.BizType{Name: "order", Strategy: segment.Name, Settings: &settings})
		if err != nil {
			return nil, err
		}
		if err := strategy.Init(ctx, true); err != nil {
			return nil, err
		}
		const add, addAll, all = "atomic.AddInt64", "atomic.AddInt64 on one word", "all"
		var word int64
		c := contest{rounds: o.rounds}
		c.addValue(add, func() (float64, error) {
			return alone(func(*seqd.Sequence) error { atomic.AddInt64(&word, 1); return nil })
		})
		c.addValue(addAll, func() (float64, error) {
			return parallel(func(*seqd.Sequence) error { atomic.AddInt64(&word, 1); return nil })
		})
		next := func(seq *seqd.Sequence) error { seq.Reset(); return strategy.Generate(ctx, 1, seq) }
		c.addValue(newBinary, func() (float64, error) { return alone(next) })
		c.addValue(all, func() (float64, error) { return parallel(next) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		return []result{
			got.against(add, "in process, one number, 1 goroutine", rateOf, nanoseconds).atMost(4),
			got.pair(addAll, all, rateOf).report(fmt.Sprintf("in process, one number, %d goroutines", runtime.GOMAXPROCS(0)), addAll, nanoseconds).atMost(2.5),
		}, nil
	})
}

// alone calls do in one goroutine, and returns ns for each call.
func alone(do func(*seqd.Sequence) error) (float64, error) {
	return perOp(func(b *testing.B) {
		var seq seqd.Sequence
		for b.Loop() {
			if err := do(&seq); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// parallel calls do in as many goroutines as there are processors.
func parallel(do func(*seqd.Sequence) error) (float64, error) {
	return perOp(func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			var seq seqd.Sequence
			for pb.Next() {
				if err := do(&seq); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
