package config_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestSetting(t *testing.T) {
	cfg := config.Default()
	if got, ok := config.Setting[time.Duration](&cfg, "store.bolt.lockTimeout"); !ok || got != time.Second {
		t.Errorf("%s, %t", got, ok)
	}
	if got, ok := config.Setting[string](cfg.Server, "addr"); !ok || got != "127.0.0.1:8080" {
		t.Errorf("%q, %t", got, ok)
	}
	for name, known := range map[string]func() bool{
		"no such key":  func() bool { _, ok := config.Setting[string](cfg, "server.colour"); return ok },
		"another kind": func() bool { _, ok := config.Setting[int](cfg, "server.addr"); return ok },
		"no struct":    func() bool { _, ok := config.Setting[int](7, "x"); return ok },
		"nothing":      func() bool { _, ok := config.Setting[int](nil, "x"); return ok },
	} {
		if known() {
			t.Errorf("%s: it is known", name)
		}
	}
}

func TestWriteTimeLeft(t *testing.T) {
	cfg := must.Get(config.Load(config.Sources{Env: []string{`SEQD_BIZTYPES=[{"name":"a"},{"name":"b","acquireTimeout":"20s"}]`}}))(t)
	if left, name := cfg.WriteTimeLeft(); left != 7*time.Second || name != "b" {
		t.Errorf("%s for %q", left, name)
	}
}
