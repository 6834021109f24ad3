package obfuscate_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	_ "github.com/seqd/seqd/persist/bolt"
	_ "github.com/seqd/seqd/plugin/obfuscate"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/strategy/segment"
	_ "github.com/seqd/seqd/strategy/snowflake"
)

// TestConfiguration checks that mistakes in a configuration are reported with the key that is wrong
// and without the secret.
func TestConfiguration(t *testing.T) {
	const at = "bizTypes[0].plugins[0]."
	for yaml, want := range map[string]string{
		`plugins: [{name: obfuscate, digits: 10, key: "correct horse"}]`:                                                          "",
		`plugins: [{name: obfuscate, bits: 40, keyFile: data/obfuscate.key}]`:                                                     "",
		`start: 99999999, plugins: [{name: obfuscate, digits: 8, key: "correct horse"}]`:                                          "",
		`strategy: snowflake, plugins: [{name: obfuscate, digits: 19, key: "correct horse"}]`:                                     "",
		`plugins: [{name: obfuscate, digits: 10}]`:                                                                                at + "key: key, keyEnv and keyFile are empty",
		`plugins: [{name: obfuscate, digits: 10, key: ""}]`:                                                                       at + "key: key, keyEnv and keyFile are empty",
		`plugins: [{name: obfuscate, digits: 10, key: secret}]`:                                                                   at + "key: the key has 6 bytes",
		`plugins: [{name: obfuscate, digits: 10, key: 4711471147}]`:                                                               at + "key: its value, which is not shown",
		`plugins: [{name: obfuscate, digits: 10, keyEnv: OBFUSCATE_NONE}]`:                                                        at + "keyEnv: the environment variable OBFUSCATE_NONE is empty or not set",
		`plugins: [{name: obfuscate, key: "correct horse"}]`:                                                                      at + "digits: neither digits nor bits is set",
		`plugins: [{name: obfuscate, digits: 20, key: "correct horse"}]`:                                                          at + "digits: 20 is outside 1 to 19",
		`plugins: [{name: obfuscate, digits: 8, size: 3, key: "correct horse"}]`:                                                  at + "size: there is no such key",
		`start: 100000000, plugins: [{name: obfuscate, digits: 8, key: "correct horse"}]`:                                         at + "digits: 8 is too small: it has room for numbers up to 99999999",
		`strategy: snowflake, plugins: [{name: obfuscate, digits: 8, key: "correct horse"}]`:                                      at + "digits: 8 is too small",
		`strategy: snowflake, plugins: [{name: obfuscate, bits: 40, key: "correct horse"}]`:                                       at + "bits: 40 is too small",
		`plugins: [{name: obfuscate, digits: 8, key: "correct horse"}, {name: obfuscate, digits: 8, key: "correct horse 2"}]`:     "bizTypes[0].plugins[1].order: obfuscate, whose order is 100, comes first",
		`plugins: [{name: obfuscate, digits: 8, key: "correct horse"}, {name: obfuscate, order: 1, bits: 9, key: "horse first"}]`: at + "order: obfuscate, whose order is 1, comes first",
	} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: order, "+yaml+"}]\n"), config.Sources{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", yaml, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", yaml, err, want)
		case err != nil && (strings.Contains(err.Error(), "horse\"") || strings.Contains(err.Error(), "4711471147") || strings.Contains(err.Error(), "secret\"")):
			t.Errorf("%s: %v shows the key", yaml, err)
		}
	}
}

// TestConfigurationMakesNoFile checks that a configuration is checked before any file is opened.
func TestConfigurationMakesNoFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	must.Get(config.LoadYAML([]byte("bizTypeFolder: "+filepath.Dir(path)+"\nbizTypes: [{name: order, plugins: [{name: obfuscate, digits: 8, keyFile: "+path+"}]}]\n"), config.Sources{}))(t)
	if found, _ := filepath.Glob(path + "*"); len(found) > 0 {
		t.Errorf("it made %v", found)
	}
}
