package config_test

import (
	"testing"

	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// A node does this once for each biz type of the store when it starts.
func BenchmarkDecodeDefinition(b *testing.B) {
	cfg, err := config.LoadYAML([]byte("bizTypesFrom: store"), config.Sources{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := cfg.DecodeDefinition("order", []byte(`{"strategy":"segment","start":100}`)); problems != nil {
			b.Fatal(problems)
		}
	}
}
