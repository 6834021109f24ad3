package segment

import (
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd"
)

// The benchmarks come in pairs: what seqd does, and the cheapest thing that could hand out distinct
// numbers in one process.

func benchmarkStrategy(b *testing.B) *Strategy {
	s, _ := newStrategy(b, newBolt(b), func(s *Settings) { s.Step = s.MaxStep })
	start(b, s, true)
	generate(b, s, 1)
	return s
}

func BenchmarkNext(b *testing.B) {
	s := benchmarkStrategy(b)
	var seq seqd.Sequence
	b.ReportAllocs()
	for b.Loop() {
		seq.Reset()
		if err := s.Generate(b.Context(), 1, &seq); err != nil {
			b.Fatal(err)
		}
	}
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
	var seq seqd.Sequence
	for b.Loop() {
		seq.Reset()
		if err := s.Generate(b.Context(), 10_000, &seq); err != nil {
			b.Fatal(err)
		}
	}
}
