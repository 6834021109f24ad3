package gapless_test

import (
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// callers is how many callers share a counter, on two processors.
const callers = 32

// newStrategy returns a strategy over a store, initialised.
func newStrategy(tb testing.TB, store persist.Store, change func(*gapless.Settings)) *gapless.Strategy {
	tb.Helper()
	settings := gapless.DefaultSettings()
	settings.AcquireTimeout = time.Minute // a slow machine may need longer than callers usually wait
	if change != nil {
		change(&settings)
	}
	s, err := gapless.New(strategy.Env{
		Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{},
	}, seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &settings})
	if err == nil {
		err = s.Init(tb.Context(), true)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close(tb.Context()) })
	return s
}

// stores calls f with a new store of each kind.
func stores(b *testing.B, f func(b *testing.B, s persist.Store)) {
	b.Run("memory", func(b *testing.B) { f(b, memory.New(time.Now)) })
	b.Run("bolt", func(b *testing.B) {
		s, err := bolt.Open(bolt.Options{Path: filepath.Join(b.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		f(b, s)
	})
}

func BenchmarkIssue(b *testing.B) {
	stores(b, func(b *testing.B, store persist.Store) {
		s := newStrategy(b, store, nil)
		b.ReportAllocs()
		b.SetParallelism(callers)
		b.RunParallel(func(pb *testing.PB) {
			var seq seqd.Sequence
			for pb.Next() {
				seq.Reset()
				if err := s.Generate(b.Context(), 1, &seq); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "numbers/s")
	})
}

func BenchmarkReserveConfirm(b *testing.B) {
	stores(b, func(b *testing.B, store persist.Store) {
		s := newStrategy(b, store, nil)
		b.ReportAllocs()
		b.SetParallelism(callers)
		b.RunParallel(func(pb *testing.PB) {
			var seq seqd.Sequence
			for pb.Next() {
				seq.Reset()
				r, _, err := s.HandOut(b.Context(), seqd.Order{Count: 1, Reserve: true}, &seq)
				if err != nil {
					b.Error(err)
					continue
				}
				seq.Reset()
				if _, err := s.Confirm(b.Context(), seqd.Settlement{ID: r.ID}, &seq); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "numbers/s")
	})
}

func BenchmarkOnce(b *testing.B) {
	stores(b, func(b *testing.B, store persist.Store) {
		s := newStrategy(b, store, nil)
		b.ReportAllocs()
		b.SetParallelism(callers)
		b.RunParallel(func(pb *testing.PB) {
			var seq seqd.Sequence
			for pb.Next() {
				seq.Reset()
				if _, _, err := s.HandOut(b.Context(), seqd.Order{Count: 1, Once: rand.Text()}, &seq); err != nil {
					b.Error(err)
				}
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "numbers/s")
	})
}
