package seqd_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// sizes are how many biz types the benchmarks have.
var sizes = []int{1, 10_000, 1_000_000}

// bizTypeName returns the name of the i-th biz type, in memory of its own.
func bizTypeName(i int) string { return fmt.Sprintf("biz-type-%07d", i) }

// definitions returns n definitions that count in memory.
func definitions(n int) []seqd.Definition {
	list := make([]seqd.Definition, n)
	for i := range list {
		list[i] = seqd.Definition{BizType: seqd.BizType{Name: bizTypeName(i), Strategy: "counting"}, Strategy: &counting{}}
	}
	return list
}

// asked returns as many names as a benchmark goes through in turn, spread over n biz types, as they
// arrive with requests: in other memory than that of the definitions.
func asked(n int) []string {
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = bizTypeName(i * 7919 % n)
	}
	return names
}

func benchmarkSizes(b *testing.B, run func(b *testing.B, is *seqd.Issuer, n int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			is, err := seqd.NewIssuer(definitions(n), seqd.Options{Log: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			is.Init(b.Context())
			runtime.GC()
			run(b, is, n)
		})
	}
}

// BenchmarkIssueAmong issues one number of one of many biz types.
func BenchmarkIssueAmong(b *testing.B) { benchmarkSizes(b, issueAmong) }

func issueAmong(b *testing.B, is *seqd.Issuer, n int) {
	names, call, i := asked(n), &seqd.Call{Count: 1}, 0
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		call.BizType = names[i&(1<<16-1)]
		if err := is.Issue(b.Context(), call); err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime returns how long this process has computed, in ns: on a busy machine it says more than
// the time that has passed.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkIssueAmongLive is BenchmarkIssueAmong of biz types that were added while the issuer ran.
func BenchmarkIssueAmongLive(b *testing.B) {
	for _, n := range []int{1, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			is, err := seqd.NewIssuer(nil, seqd.Options{Log: quiet()})
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range definitions(n) {
				if err := is.Put(b.Context(), d.BizType.Name, func() (seqd.Definition, error) { return d, nil }); err != nil {
					b.Fatal(err)
				}
			}
			is.Init(b.Context())
			runtime.GC()
			issueAmong(b, is, n)
		})
	}
}

// BenchmarkPutAmong adds a biz type to many, and removes it.
func BenchmarkPutAmong(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, is *seqd.Issuer, _ int) {
		d := seqd.Definition{BizType: seqd.BizType{Name: "new"}, Strategy: &counting{}}
		b.ReportAllocs()
		for b.Loop() {
			if err := is.Put(b.Context(), "new", func() (seqd.Definition, error) { return d, nil }); err != nil {
				b.Fatal(err)
			}
			if err := is.Remove(b.Context(), "new", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestMemoryOfAnIdleBizType: a biz type that nobody asks for takes little memory beyond its
// definition: its place in the issuer, and a strategy over a store on disk or elsewhere.
func TestMemoryOfAnIdleBizType(t *testing.T) {
	const many, most = 20_000, 1024
	settings := segment.DefaultSettings()
	store := memory.New(time.Now)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
	list := make([]seqd.BizType, many)
	for i := range list {
		list[i] = seqd.BizType{Name: bizTypeName(i), Strategy: segment.Name, Settings: &settings}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	definitions := make([]seqd.Definition, many)
	for i := range list {
		s, err := segment.New(env, list[i])
		if err != nil {
			t.Fatal(err)
		}
		definitions[i] = seqd.Definition{BizType: list[i], Strategy: s}
	}
	strategies := heap()
	is, err := seqd.NewIssuer(definitions, seqd.Options{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	definitions = nil
	each := (heap() - before) / many
	t.Logf("%d bytes; of strategies and definitions %d", each, (strategies-before)/many)
	if each > most {
		t.Errorf("an idle biz type takes %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(is)
	runtime.KeepAlive(list)
}
