//go:build unix

package workers

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/admin"
)

// What a renewal costs in the embedded store, with a pool in which all worker IDs are held: the CPU
// time of the process, and how much of a core all holders take that renew every 10 s. They renew one
// after the other, so that each renewal is a transaction, or all at once.
func BenchmarkRenew(b *testing.B) {
	for _, bits := range []int{7, 10} {
		for _, at := range []int{1, 1 << bits} {
			b.Run(fmt.Sprintf("holders=%d/at once=%d", 1<<bits, at), func(b *testing.B) { benchRenew(b, bits, at) })
		}
	}
}

func benchRenew(b *testing.B, bits, at int) {
	store := must.Get(bolt.Open(bolt.Options{Path: filepath.Join(b.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(b)
	b.Cleanup(func() { _ = store.Close() })
	w := node(store, 0)
	must.Get(w.SetPool(b.Context(), "shop", func(p *admin.WorkerPool) error { p.BitsMachine, p.TTL = bits, time.Hour; return nil }))(b)
	leases := make([]string, 1<<bits)
	for i := range leases {
		leases[i] = must.Get(w.Lease(b.Context(), "shop", fmt.Sprintf("shop.8080.10.0.0.%d", i), time.Minute))(b).Lease
	}
	var wg sync.WaitGroup
	b.ResetTimer()
	before := cpu(b)
	for n := 0; n < b.N; n += at {
		for i := n; i < min(n+at, b.N); i++ {
			wg.Go(func() {
				l, err := w.Renew(context.Background(), "shop", leases[i%len(leases)])
				must.Report(b, err)
				leases[i%len(leases)] = l.Lease
			})
		}
		wg.Wait()
	}
	each := float64((cpu(b) - before).Nanoseconds()) / float64(b.N)
	b.ReportMetric(each/1000, "cpu-µs/op")
	b.ReportMetric(each*float64(len(leases))/float64(10*time.Second)*100, "%core")
}

// cpu returns the CPU time of the process.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
