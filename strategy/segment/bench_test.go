package segment

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// The benchmarks come in pairs: what seqd does, and the cheapest thing that could hand out distinct
// numbers in one process.

// issue takes n numbers in each loop.
func issue(b *testing.B, s seqd.Strategy, n int) {
	var seq seqd.Sequence
	for b.Loop() {
		seq.Reset()
		if err := s.Generate(b.Context(), n, &seq); err != nil {
			b.Fatal(err)
		}
	}
}

// issueInParallel takes one number in each loop of several goroutines.
func issueInParallel(b *testing.B, s seqd.Strategy) {
	b.RunParallel(func(pb *testing.PB) {
		var seq seqd.Sequence
		for pb.Next() {
			seq.Reset()
			if err := s.Generate(b.Context(), 1, &seq); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func benchmarkStrategy(b *testing.B) *Strategy {
	s, _ := newStrategy(b, newBolt(b), func(s *Settings) { s.Step = s.MaxStep })
	start(b, s, true)
	generate(b, s, 1)
	return s
}

func BenchmarkNext(b *testing.B) {
	s := benchmarkStrategy(b)
	b.ReportAllocs()
	issue(b, s, 1)
}

func BenchmarkAddInt64(b *testing.B) {
	var n int64
	for b.Loop() {
		atomic.AddInt64(&n, 1)
	}
}

func BenchmarkNextParallel(b *testing.B) {
	s := benchmarkStrategy(b)
	b.ReportAllocs()
	issueInParallel(b, s)
}

func BenchmarkAddInt64Parallel(b *testing.B) {
	var n int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			atomic.AddInt64(&n, 1)
		}
	})
}

func BenchmarkNext10000(b *testing.B) {
	s := benchmarkStrategy(b)
	issue(b, s, 10_000)
}

// endless is a cursor that costs nothing: what is left is the path of a strict biz type within the
// process.
type endless struct{ last atomic.Int64 }

// Take implements sharedCursor.
func (e *endless) Take(_ context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	last := e.last.Add(t.Count)
	return rediscursor.Taken{Epoch: t.Epoch, Ceil: 1 << 50, Runs: []persist.Range{{First: last - t.Count + 1, Last: last}}}, nil
}

// Install implements sharedCursor.
func (*endless) Install(context.Context, rediscursor.Install) (rediscursor.Answer, error) {
	return rediscursor.Answer{}, errDown
}

func benchmarkShared(b *testing.B) *Shared {
	s := node(b, memory.New(time.Now), &endless{}, &observer{}, nil)
	b.Cleanup(func() { _ = s.Close(context.Background()) })
	numbers(b, s, 1)
	return s
}

func BenchmarkSharedNext(b *testing.B) {
	s := benchmarkShared(b)
	b.ReportAllocs()
	issue(b, s, 1)
}

func BenchmarkSharedNextParallel(b *testing.B) {
	s := benchmarkShared(b)
	b.ReportAllocs()
	b.SetParallelism(16)
	issueInParallel(b, s)
}

// endlessStore is a store whose counters cost nothing: what is left is the path of a biz type that
// takes from the store, within the process.
type endlessStore struct {
	persist.Store
	last *atomic.Int64
}

func (endlessStore) Shared() bool { return true }

func (e endlessStore) Counters() persist.Counters {
	return endlessCounters{e.Store.Counters(), e.last}
}

type endlessCounters struct {
	persist.Counters
	last *atomic.Int64
}

func (c endlessCounters) Allocate(_ context.Context, req persist.Request) (persist.Range, error) {
	last := c.last.Add(req.Size)
	return persist.Range{First: last - req.Size + 1, Last: last}, nil
}

func benchmarkStored(b *testing.B) *Stored {
	s, _ := newStored(b, endlessStore{memory.New(time.Now), new(atomic.Int64)}, nil, func(s *Settings) { s.Step = s.MaxStep })
	s.env.Observer = seqd.NopObserver{}
	numbers(b, s, 1)
	return s
}

func BenchmarkStoredNext(b *testing.B) {
	s := benchmarkStored(b)
	b.ReportAllocs()
	issue(b, s, 1)
}

func BenchmarkStoredNextParallel(b *testing.B) {
	s := benchmarkStored(b)
	b.ReportAllocs()
	b.SetParallelism(16)
	issueInParallel(b, s)
}
