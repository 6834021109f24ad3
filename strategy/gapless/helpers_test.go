package gapless_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

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
