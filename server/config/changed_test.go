package config_test

import (
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

func TestChanged(t *testing.T) {
	load := func(flags map[string]string, env ...string) *config.Config {
		env = append([]string{`SEQD_BIZTYPES=[{"name":"user"}]`}, env...)
		return must.Get(config.Load(config.Sources{Flags: flags, Env: env}))(t)
	}
	old := load(nil)
	for _, tt := range []struct {
		cfg  *config.Config
		want []string
	}{
		{load(nil), nil},
		{load(map[string]string{"log.level": "debug", "server.maxCount": "7"}), []string{"server.maxCount", "log.level"}},
		{load(nil, `SEQD_BIZTYPES=[{"name":"order"}]`), []string{"bizTypes"}},
	} {
		if got := old.Changed(tt.cfg); !slices.Equal(got, tt.want) {
			t.Errorf("changed: %q, want %q", got, tt.want)
		}
	}
}
