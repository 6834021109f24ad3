package segment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/strategy"
)

func openBolt(t testing.TB) persist.Store {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func plain(t testing.TB, store persist.Store) seqd.Strategy {
	t.Helper()
	settings := DefaultSettings()
	s, err := build(strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}},
		seqd.BizType{Name: "order", Strategy: Name, Settings: &settings})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkKeys compares a biz type without keys, one key, and 100,000 keys at random that are all
// open.
func BenchmarkKeys(b *testing.B) {
	thousand := func(s *Settings) {
		s.Step, s.MaxStep, s.LiveKeys, s.AcquireTimeout = 1000, 100_000_000, 100_000, time.Minute
	}
	run := func(b *testing.B, s seqd.Strategy, keys int) {
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprint("tenant-", i)
		}
		if keys > 1 {
			each(b, s, names)
		}
		b.ReportAllocs()
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			var seq seqd.Sequence
			r := rand.New(rand.NewPCG(rand.Uint64(), 1))
			for p.Next() {
				seq.Reset()
				if keys > 0 {
					seq.For(names[r.IntN(keys)])
				}
				if err := s.Generate(context.Background(), 1, &seq); err != nil {
					b.Error(err)
					return
				}
			}
		})
		b.StopTimer()
		began := time.Now()
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-close")
	}
	b.Run("none", func(b *testing.B) { run(b, plain(b, openBolt(b)), 0) })
	b.Run("one", func(b *testing.B) { run(b, keyed(b, openBolt(b), time.Now, nil, thousand), 1) })
	b.Run("100000", func(b *testing.B) { run(b, keyed(b, openBolt(b), time.Now, nil, thousand), 100_000) })
}

// each asks for a number of each key, 256 at a time.
func each(b testing.TB, s seqd.Strategy, keys []string) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 256 {
		callers.Go(func() {
			var seq seqd.Sequence
			for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
				seq.Reset()
				seq.For(keys[i])
				if err := s.Generate(context.Background(), 1, &seq); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
}

// BenchmarkManyKeys uses a million keys one after the other, 256 callers at a time. With
// -benchtime=1x it says how much memory that takes.
func BenchmarkManyKeys(b *testing.B) {
	many := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("SEQD_TEST_KEYS")); err == nil {
		many = n
	}
	for range b.N {
		s := keyed(b, openBolt(b), time.Now, nil, func(s *Settings) { s.Step, s.LiveKeys, s.AcquireTimeout = 10, 10_000, time.Minute })
		var next, worst atomic.Int64
		var callers sync.WaitGroup
		for range 256 {
			callers.Go(func() {
				var seq seqd.Sequence
				for i := next.Add(1); i <= int64(many); i = next.Add(1) {
					seq.Reset()
					seq.For(fmt.Sprint("tenant-", i))
					if err := s.Generate(context.Background(), 1, &seq); err != nil {
						b.Error(err)
						return
					}
					if i%50_000 == 0 {
						worst.Store(max(worst.Load(), anonymous()))
					}
				}
			})
		}
		callers.Wait()
		b.ReportMetric(float64(worst.Load())/1024, "anonymous-MB")
		b.ReportMetric(float64(s.set.Len()), "open")
		began := time.Now()
		if err := s.Close(context.Background()); err != nil {
			b.Error(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-to-close")
	}
}

// anonymous returns how many kB of memory of this process are in no file, 0 if that is not known.
func anonymous() int64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kb, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "kB", 2)[0]), 10, 64)
	return kb
}
