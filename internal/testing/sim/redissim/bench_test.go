package redissim_test

import (
	"testing"

	"github.com/seqd/seqd/internal/testing/sim/redissim"
)

func BenchmarkTake(b *testing.B) {
	for _, servers := range []int{1, 2} {
		b.Run(map[int]string{1: "alone", 2: "with a replica"}[servers], func(b *testing.B) {
			d := deploy(b, redissim.Options{Servers: servers})
			c := open(b, d.Server(0), "order")
			c.seed("e", 1, 1e14)
			b.ReportAllocs()
			for b.Loop() {
				if taken, err := c.take(1); err != nil || len(taken.Runs) != 1 {
					b.Fatal(taken, err)
				}
			}
		})
	}
}
