package config_test

import (
	"os"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

// FuzzLoad loads any text as YAML: no panic, and what is accepted is valid throughout.
func FuzzLoad(f *testing.F) {
	shipped := must.Get(os.ReadFile("../../configs/seqd.yaml"))(f)
	f.Add(shipped)
	for _, text := range []string{
		"", "---\n", "a: b\n", someBizType, someBizType + "---\nx: y\n", "- a\n", "bizTypes: {a: b}\n", "bizTypes: [null, [], {}, 5]\n",
		"server: {addr: null, maxCount: 1.5, stopTimeout: 15, trustedProxies: [1, null]}\n", "server.addr: x\nserver: {addr: y}\n",
		"Server: {}\nSERVER: []\n", "segment: {start: 9007199254740991, step: 0x10, threshold: .nan}\n" + someBizType,
		"a: &a [x]\nb: *a\n", "bizTypes: [{name: a, <<: {start: 5}}]\n", "bizTypes: [{name: a, 1: 2}]\n", "? [a]\n: b\n", "5: {true: x}\n",
		"\"\": {\"\": 1}\n", "\".\": 1\n", "bizTypes: [{name: a, start: !!str 5}]\n", "log: {level: !!binary aW5mbw==}\n" + someBizType, "server: {addr: 2025-01-01}\n",
		"segment: {restoreGap: auto}\n" + someBizType, "bizTypes: [{name: a, restoreGap: 5}, {name: b, restoreGap: \"5\"}]\n",
		"bizTypes: [{name: a, threshold: 1e-320, acquireTimeout: 0, targetDuration: 9e9h}]\n", "auth: {mode: token, tokens: [{name: a, sha256: 5, scopes: [read, issue:*], expires: 2027-01-01, enabled: no}, []]}\n" + someBizType,
		"auth: {tokens: [{name: a, sha256: \"" + digestOfA + "\", scopes: [admin]}]}\n" + someBizType, "\xff\xfe", "%YAML 1.2\n---\n" + someBizType,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := config.LoadYAML(text, config.Sources{})
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a message")
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("loaded, yet not valid: %v", err)
		}
		for i, b := range c.BizTypes {
			if err := seqd.CheckName(b.Name); err != nil {
				t.Errorf("bizTypes[%d]: %v", i, err)
			}
			settings, ok := b.Settings.(seqd.Validator)
			if !ok {
				t.Fatalf("bizTypes[%d]: settings of type %T", i, b.Settings)
			}
			for _, p := range settings.Validate() {
				t.Errorf("bizTypes[%d].%s: %s", i, p.Key, p.Text)
			}
		}
	})
}
