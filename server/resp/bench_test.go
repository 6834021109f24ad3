package resp_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/server/metrics"
)

// BenchmarkIncr is 50 clients that each send so many INCR at a time over loopback, as
// redis-benchmark -c 50 -P does. An operation is one command.
func BenchmarkIncr(b *testing.B) {
	for _, pipeline := range []int{1, 16, 64} {
		b.Run(fmt.Sprint("pipeline=", pipeline), func(b *testing.B) { benchmark(b, "segment", form("INCR", "order"), pipeline) })
	}
}

// BenchmarkSeqNext is BenchmarkIncr with IDs as text.
func BenchmarkSeqNext(b *testing.B) { benchmark(b, "segment", form("SEQ.NEXT", "order"), 64) }

// BenchmarkPing is BenchmarkIncr without numbers: what the protocol costs.
func BenchmarkPing(b *testing.B) { benchmark(b, "segment", form("PING"), 64) }

func benchmark(b *testing.B, kind, command string, pipeline int) {
	m := metrics.New(metrics.Options{MaxBizTypes: 10})
	s := serve(b, func(set *settings) {
		set.resp.Metrics = m
		set.gate.MaxInFlight, set.gate.MaxInFlightBytes, set.gate.MaxConnections = 4096, 32<<20, 16_384
	}, made(b, "order", kind))
	const clients = 50
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range clients {
		wg.Go(func() {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			r, sent := bufio.NewReader(c), []byte(strings.Repeat(command, pipeline))
			lines := pipeline * (1 + strings.Count(command, "SEQ.NEXT")) // a string has two
			for left.Add(-int64(pipeline)) > -int64(pipeline) {
				if _, err := c.Write(sent); err != nil {
					b.Error(err)
					return
				}
				for range lines {
					line, err := r.ReadSlice('\n')
					if err != nil || line[0] == '-' {
						b.Errorf("%s %v", line, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}
