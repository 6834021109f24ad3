package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/sony/sonyflake/v2"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
	seqdflake "github.com/seqd/seqd/strategy/snowflake"
)

// The limit of the layout of all three generators, and how long each is measured.
const (
	perMilli  = 4096
	sustained = 10 * time.Second
	// flakeRounds is the largest number of rounds.
	flakeRounds = 5
)

// flake returns a biz type with snowflake's default settings.
func flake(name string) seqd.BizType {
	settings := seqdflake.DefaultSettings()
	return seqd.BizType{Name: name, Strategy: seqdflake.Name, Settings: &settings}
}

// rate calls take for the length of window and returns the numbers per millisecond. take returns
// how many numbers it took.
func rate(window time.Duration, take func() (int, error)) (float64, error) {
	n, began := 0, time.Now()
	for {
		for range 100 {
			taken, err := take()
			if err != nil {
				return 0, err
			}
			n += taken
		}
		if took := time.Since(began); took >= window {
			return float64(n) / (float64(took.Nanoseconds()) / 1e6), nil
		}
	}
}

// openFlake opens a generator on a new bolt store and returns how long it took to lease a machine
// ID.
func openFlake(ctx context.Context) (s *seqdflake.Strategy, took time.Duration, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "seqd-bench-")
	if err != nil {
		return nil, 0, nil, err
	}
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "seqd.db"), LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		return nil, 0, nil, errors.Join(err, os.RemoveAll(dir))
	}
	stop = func() error { return errors.Join(s.Close(context.Background()), store.Close(), os.RemoveAll(dir)) }
	env := strategy.Env{Store: store, Now: time.Now, Log: discard(), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:8080"}
	if s, err = seqdflake.New(env, flake("user")); err != nil {
		return nil, 0, nil, errors.Join(err, store.Close(), os.RemoveAll(dir))
	}
	began := time.Now()
	err = s.Init(ctx, true)
	return s, time.Since(began), stop, err
}

// benchSnowflake compares the generator with the layout's limit and with two others of the same
// layout, and its HTTP side with a constant route.
func benchSnowflake(ctx context.Context, o options) (results []result, err error) {
	s, _, stop, err := openFlake(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var seq seqd.Sequence
	take := func(n int) func() (int, error) {
		return func() (int, error) {
			seq.Reset()
			return n, s.Generate(ctx, n, &seq)
		}
	}
	next := take(1)
	if _, err := perOp(func(b *testing.B) {
		for b.Loop() {
			if _, err := next(); err != nil {
				b.Error(err)
			}
		}
	}); err != nil {
		return nil, err
	}
	rounds := min(o.rounds, flakeRounds)
	full, err := measure(rounds,
		func() (float64, error) { return perMilli, nil },
		func() (float64, error) { return rate(sustained, take(100)) })
	if err != nil {
		return nil, err
	}
	sony, err := sonyflake.New(sonyflake.Settings{
		BitsSequence: 12, BitsMachineID: 10, TimeUnit: time.Millisecond, StartTime: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC),
		MachineID: func() (int, error) { return 1, nil },
	})
	if err != nil {
		return nil, err
	}
	bwmarrin, err := snowflake.NewNode(1)
	if err != nil {
		return nil, err
	}
	single, err := turns(o.rounds,
		func() (float64, error) {
			return rate(o.duration, func() (int, error) { _, err := sony.NextID(); return 1, err })
		},
		func() (float64, error) {
			return rate(o.duration, func() (int, error) { bwmarrin.Generate(); return 1, nil })
		},
		func() (float64, error) { return rate(o.duration, next) })
	if err != nil {
		return nil, err
	}
	const one = "snowflake, one by one in process, 0 allocations"
	return []result{
		full.result("snowflake, batches of 100 in process, sustained 10 s", "the layout's limit", perMillisecond, true, 0.99),
		pairs{base: single[0], value: single[2]}.result(one, "sonyflake's NextID", perMillisecond, true, 1.2),
		pairs{base: single[1], value: single[2]}.report(one, "bwmarrin/snowflake", perMillisecond),
	}, nil
}

// benchSnowflakeHTTP measures the generator behind HTTP.
func benchSnowflakeHTTP(ctx context.Context, o options) ([]result, error) {
	p, err := beside(ctx, o, []seqd.BizType{flake("order")}, "/seq/order", "/json")
	if err != nil {
		return nil, err
	}
	var took []float64
	for range o.rounds {
		_, t, stop, err := openFlake(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(t.Nanoseconds())/1000)
		if err := stop(); err != nil {
			return nil, err
		}
	}
	lease := report("snowflake: getting a machine ID from a new embedded store", took, milliseconds)
	lease.target, lease.reached = "≤ 50 ms", slices.Max(took) <= 50_000
	return []result{p.result("snowflake, one ID per request, 64 connections", "constant gin route", perSecond, true, 0.90), lease}, nil
}
