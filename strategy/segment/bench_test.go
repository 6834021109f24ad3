package segment

import (
	"testing"

	"github.com/seqd/seqd"
)

func benchmarkStrategy(b *testing.B) *Strategy {
	s, _ := newStrategy(b, newBolt(b), func(s *Settings) { s.Step = s.MaxStep })
	start(b, s, true)
	generate(b, s, 1)
	return s
}

func BenchmarkNext(b *testing.B) {
	s := benchmarkStrategy(b)
	b.ReportAllocs()
	var seq seqd.Sequence
	for b.Loop() {
		seq.Reset()
		if err := s.Generate(b.Context(), 1, &seq); err != nil {
			b.Fatal(err)
		}
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
