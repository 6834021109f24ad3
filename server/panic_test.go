package server_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// moody decides whether making the plugin moody panics.
var moody atomic.Bool

type moodySettings struct{}

func (*moodySettings) Validate() error { return nil }

func init() {
	plugin.Register(plugin.Factory{
		Name:     "moody",
		Settings: func() any { return new(moodySettings) },
		New: func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) {
			if moody.Load() {
				panic("not today")
			}
			return seqd.NopPlugin{}, nil
		},
	})
}

// nervous counts how often the strategy of that name was begun in the background. The first time it
// panics.
var nervous atomic.Int64

func init() {
	strategy.Register(strategy.Factory{
		Name:     "nervous",
		Settings: func() any { return &struct{}{} },
		New:      func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return nil, errors.New("none") },
		Shape:    func(seqd.BizType) string { return "" },
		Background: func(ctx context.Context, _ strategy.Env, _ strategy.Reclaimer) {
			if nervous.Add(1) == 1 {
				panic("too much")
			}
			<-ctx.Done()
		},
	})
}

// A strategy that panics in the background does not end the service, and begins again.
func TestBackgroundThatPanics(t *testing.T) {
	nervous.Store(0)
	s := start(t, load(t, "bizTypes: [{name: order}]"))
	s.await("/readyz", http.StatusOK)
	await.True(t, "it begins again", func() bool { return nervous.Load() > 1 })
	s.do(200, "GET", "/seq/order", "")
	must.Do(t, s.stop())
}

// A plugin that panics when it is made affects its own biz type, also at the start: what is in the
// store must not keep every node from starting.
func TestPluginThatPanicsAtTheStart(t *testing.T) {
	cfg := load(t, "store: {bolt: {path: "+filepath.Join(t.TempDir(), "seqd.db")+", lockTimeout: 1m}}\nbizTypes: [{name: order}]\n")
	s := start(t, cfg)
	s.await("/readyz", http.StatusOK)
	s.do(201, "PUT", "/biz-types/ticket", `{"plugins":[{"name":"moody"}]}`)
	s.do(201, "PUT", "/biz-types/idle", `{"plugins":[{"name":"moody"}]}`)
	s.do(200, "POST", "/biz-types/idle/disable", "")
	s.do(200, "GET", "/seq/ticket", "")
	must.Do(t, s.stop())
	moody.Store(true)
	defer moody.Store(false)
	s = start(t, cfg)
	s.await("/readyz", http.StatusOK)
	s.do(200, "GET", "/seq/order", "")
	s.do(409, "GET", "/seq/ticket", "")
	s.do(409, "GET", "/seq/idle", "")
	moody.Store(false)
	s.do(200, "PATCH", "/biz-types/ticket", `{"plugins":[]}`)
	s.do(200, "GET", "/seq/ticket", "")
	must.Do(t, s.stop())
}
