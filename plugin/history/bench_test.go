package history

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
)

// BenchmarkAfter measures what the plugin adds to a request for one number.
func BenchmarkAfter(b *testing.B) {
	for _, policy := range []string{Drop, Block} {
		for shown, rewrite := range map[string]func([]byte, int64, []byte) []byte{
			"digits": nil,
			"format": func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, "INV-"...), shown...) },
		} {
			b.Run(policy+"/"+shown, func(b *testing.B) {
				store := newFake()
				store.forget = true
				p := start(b, store, nil, func(s *Settings) { s.OnOverflow = policy })
				defer stop(b, p)
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: "shop", Addr: "192.0.2.1", RequestID: "1234abcd-1"}}
					call.Sequence.Add(1_000_000, 1, 1)
					if rewrite != nil {
						call.Sequence.Show(rewrite)
					}
					for pb.Next() {
						must.Report(b, p.Before(b.Context(), call))
						must.Report(b, p.After(b.Context(), call))
					}
				})
			})
		}
	}
}

// TestAfterAllocates checks that one number costs at most one allocation, for its display form.
func TestAfterAllocates(t *testing.T) {
	if racing.On {
		t.Skip("the race detector allocates")
	}
	for want, rewrite := range []func([]byte, int64, []byte) []byte{nil, func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, 'I'), shown...) }} {
		p := &Plugin{bizType: "order", pipe: &pipe{queue: newQueue(Settings{Queue: 10, Batch: 10, OnOverflow: Drop}, time.Now, slog.Default())}}
		call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: "shop", Addr: "192.0.2.1", RequestID: "1234abcd-1"}}
		call.Sequence.Add(1_000_000, 1, 1)
		if rewrite != nil {
			call.Sequence.Show(rewrite)
		}
		allocs := must.Allocs(1000, func() {
			if p.Before(t.Context(), call) != nil || p.After(t.Context(), call) != nil {
				t.Error("refused")
			}
			taken := p.pipe.take()
			p.pipe.giveBack(taken)
			p.pipe.release(len(taken))
		})
		if allocs > float64(want) {
			t.Errorf("%v allocations, want %d", allocs, want)
		}
	}
}
