package gapless_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// BenchmarkEvents compares issuing with events and without.
func BenchmarkEvents(b *testing.B) {
	stores := map[string]func(b *testing.B) persist.Store{
		"memory": func(*testing.B) persist.Store { return memory.New(time.Now) },
		"bolt": func(b *testing.B) persist.Store {
			return must.Get(bolt.Open(bolt.Options{Path: filepath.Join(b.TempDir(), "b"), Now: time.Now}))(b)
		},
	}
	for name, open := range stores {
		for what, events := range map[string]bool{"with": true, "without": false} {
			b.Run(name+"/"+what, func(b *testing.B) {
				store := open(b)
				settings := patient()
				s := must.Get(gapless.New(strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}},
					seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &settings, Events: events}))(b)
				must.Do(b, s.Init(b.Context(), true))
				b.SetParallelism(32)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						var seq seqd.Sequence
						if err := s.Generate(b.Context(), 1, &seq); err != nil {
							b.Error(err)
						}
					}
				})
				b.StopTimer()
				must.Do(b, s.Close(b.Context()))
				must.Do(b, store.Close())
			})
		}
	}
}
