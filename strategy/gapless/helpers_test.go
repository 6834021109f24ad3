package gapless_test

import (
	"cmp"
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// newNode returns the strategy of the biz type invoice on a new node, which has read nothing. What
// env has no log and observer for is not told.
func newNode(tb testing.TB, env strategy.Env, settings gapless.Settings) *gapless.Strategy {
	tb.Helper()
	env.Log, env.Observer = cmp.Or(env.Log, slog.New(slog.DiscardHandler)), cmp.Or[seqd.Observer](env.Observer, seqd.NopObserver{})
	return must.Get(gapless.New(env, seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &settings}))(tb)
}

// patient returns settings for a slow machine, which may need longer than callers usually wait.
func patient() gapless.Settings {
	settings := gapless.DefaultSettings()
	settings.AcquireTimeout = time.Minute
	return settings
}

// newStrategy returns a strategy over a store, initialised.
func newStrategy(tb testing.TB, store persist.Store, change func(*gapless.Settings)) *gapless.Strategy {
	tb.Helper()
	settings := patient()
	if change != nil {
		change(&settings)
	}
	s := newNode(tb, strategy.Env{Store: store, Now: time.Now}, settings)
	must.Do(tb, s.Init(tb.Context(), true))
	tb.Cleanup(func() { _ = s.Close(tb.Context()) })
	return s
}
