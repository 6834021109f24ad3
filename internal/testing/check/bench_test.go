package check

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/seqd/seqd/internal/testing/record"
)

const (
	benchCalls   = 1_000_000
	benchBatches = 10_000 // number of batches
	benchBatch   = 10_000 // numbers in each
)

// BenchmarkFile checks a record of a million calls that got 10^8 numbers.
func BenchmarkFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "record")
	numbers := writeLarge(b, path)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/benchCalls, "file-B/call")
	for b.Loop() {
		r, err := File(path, Options{})
		if err != nil || r.Total() > 0 || r.Numbers != numbers || r.Calls != benchCalls {
			b.Fatalf("%v\n%s", err, r)
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapSys)/(1<<20), "heap-MiB")
	b.ReportMetric(float64(numbers)*float64(b.N)/b.Elapsed().Seconds(), "numbers/s")
}

// BenchmarkWrite measures the cost of recording a call for a single number.
func BenchmarkWrite(b *testing.B) {
	w, err := record.Create(filepath.Join(b.TempDir(), "record"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		c := record.Call{Start: n * 1000, End: n*1000 + 900_000, Node: "a", Life: 1, BizType: order, Kind: record.Single, Asked: 1, Status: 200, Runs: record.Runs{numbers(n, 1)}}
		if err := w.Write(record.Entry{Call: &c}); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// writeLarge records a run without faults: sixteen concurrent callers over all nodes, half of them
// for a strict biz type.
func writeLarge(tb testing.TB, path string) (total int64) {
	tb.Helper()
	w, err := record.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	add := func(e record.Entry) {
		if err := w.Write(e); err != nil {
			tb.Fatal(err)
		}
	}
	for _, e := range newStory().entries {
		add(e)
	}
	next := int64(1)
	for n := range int64(benchCalls) {
		node := string("abc"[n%3])
		at, count := n*ms/10, int64(1)
		c := record.Call{Start: at - ms, End: at + ms/2, Node: node, Life: 1, Kind: record.Single, Status: 200}
		if n%(benchCalls/benchBatches) == 0 {
			count, c.Kind = benchBatch, record.Batch
		}
		c.Asked = int(count)
		if total += count; n%2 == 0 {
			c.BizType, c.Runs = order, record.Runs{numbers(next, count)}
			next += count
		} else {
			c.BizType, c.Runs = user, record.Runs{flakes(at/ms, n%3, n/3%4096, count)}
		}
		add(record.Entry{Call: &c})
	}
	add(record.Entry{Done: &record.Done{At: benchCalls * ms / 10}})
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return total
}
