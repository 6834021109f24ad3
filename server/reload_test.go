package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/server/config"
)

// A configuration that is read again changes the level of the log, and names what needs a restart. One
// that cannot be read changes nothing.
func TestReload(t *testing.T) {
	env := []string{`SEQD_BIZTYPES=[{"name":"order"}]`}
	var out testlog.Text
	s := New(must.Get(config.Load(config.Sources{Env: env}))(t), WithLogOutput(&out))
	again := must.Get(config.Load(config.Sources{Env: env, Flags: map[string]string{"log.level": "debug", "server.maxCount": "7"}}))(t)
	s.base.log.Debug("hidden")
	s.reloaded(nil, errors.New("garbage"))
	s.base.log.Debug("hidden")
	s.reloaded(again, nil)
	s.base.log.Debug("shown")
	must.Equal(t, s.base.telemetry.reloadFailures.Load(), 1, "the failures")
	must.Do(t, s.Stop())
	text := out.String()
	for _, want := range []string{"garbage", `"keys":["server.maxCount"]`, `"msg":"shown"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s: %s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("the level was changed too early: %s", text)
	}
}
