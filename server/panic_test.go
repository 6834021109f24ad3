package server_test

import (
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
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
