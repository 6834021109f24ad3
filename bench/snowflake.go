package main

import (
	"context"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/bench/openloop"
	seqdflake "github.com/seqd/seqd/strategy/snowflake"
)

// perMilli is the limit of the layout of both generators: 12 bits of sequence.
const perMilli = 4096

// flakeLoad is how often a load of a generator runs longer than that of a service: a generator waits
// for the next millisecond most of the time.
const flakeLoad = 2

// generating calls take for a time. It returns numbers a millisecond, and the share of one core that
// this took in per cent.
func generating(window time.Duration, take func() (int, error)) (s sample, err error) {
	n, began, before := 0, time.Now(), openloop.CPUTime()
	for {
		for range 100 {
			taken, err := take()
			if err != nil {
				return s, err
			}
			n += taken
		}
		if took := time.Since(began); took >= window {
			return sample{rate: float64(n) / took.Seconds() / 1000, cpu: 100 * (openloop.CPUTime() - before) / took.Seconds()}, nil
		}
	}
}

// benchSnowflake compares the generator in this process with the limit of its layout, and with a
// generator that spins.
func benchSnowflake(ctx context.Context, o options) ([]result, error) {
	return with(func(s *servers) ([]result, error) {
		env, err := s.inProcess()
		if err != nil {
			return nil, err
		}
		settings := seqdflake.DefaultSettings()
		flake, err := seqdflake.New(env, seqd.BizType{Name: "user", Strategy: seqdflake.Name, Settings: &settings})
		if err != nil {
			return nil, err
		}
		if err := flake.Init(ctx, true); err != nil {
			return nil, err
		}
		s.cleanUps = append(s.cleanUps, func() error { return flake.Close(context.WithoutCancel(ctx)) })
		var seq seqd.Sequence
		take := func(n int) func() (int, error) {
			return func() (int, error) { seq.Reset(); return n, flake.Generate(ctx, n, &seq) }
		}
		next := take(1)
		if _, err := perOp(func(b *testing.B) { // one by one it allocates nothing
			for b.Loop() {
				if _, err := next(); err != nil {
					b.Fatal(err)
				}
			}
		}); err != nil {
			return nil, err
		}
		peer, err := snowflake.NewNode(1)
		if err != nil {
			return nil, err
		}
		const spinning, batches = "bwmarrin/snowflake", "batches"
		c := contest{rounds: o.rounds}
		c.add(spinning, func() (sample, error) {
			return generating(flakeLoad*o.duration, func() (int, error) { peer.Generate(); return 1, nil })
		})
		c.add(newBinary, func() (sample, error) { return generating(flakeLoad*o.duration, next) })
		c.add(batches, func() (sample, error) { return generating(flakeLoad*o.duration, take(100)) })
		got, err := c.run(ctx)
		if err != nil {
			return nil, err
		}
		const one, many = "snowflake in process, one by one", "snowflake in process, batches of 100"
		limit := make([]float64, o.rounds)
		for i := range limit {
			limit[i] = perMilli
		}
		return []result{
			got.against(spinning, one, rateOf, perMillisecond).atLeast(0.95),
			got.against(spinning, one+": share of a core", cpuOf, percent),
			pairs{limit, got.column(batches, rateOf)}.report(many, "the layout's limit", perMillisecond).atLeast(0.995),
			report(many+": share of a core", got.column(batches, cpuOf), percent),
		}, nil
	})
}
