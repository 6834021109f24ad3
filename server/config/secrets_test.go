package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

// TestSecretsFromFiles sets each secret by its file. A new secret needs one too.
func TestSecretsFromFiles(t *testing.T) {
	secrets := map[string]string{
		"redis.password": "hunter 2", "redis.sentinelPassword": "hunter2", "coordination.token": "hunter:2",
		"store.postgres.url": "postgres://user:hunter2@db/seqd", "store.mysql.dsn": "user:hunter2@tcp(db)/seqd", "store.mongo.uri": "mongodb://user:hunter2@db/",
	}
	dir := t.TempDir()
	flags := map[string]string{
		"redis.addrs": "sentinel:26379", "redis.masterName": "main", "store.driver": "postgres", "coordination.driver": "zookeeper", "coordination.addrs": "zk:2181", "bizTypesFrom": "config",
	}
	for _, k := range config.Keys() {
		if k.Field.Tag.Get("secret") != "true" || k.Field.Type.Kind() != reflect.String {
			continue
		}
		secret, known := secrets[k.Path]
		must.Equal(t, known, true, "%s is in this test", k.Path)
		delete(secrets, k.Path)
		path := filepath.Join(dir, k.Path)
		must.Do(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
		flags[k.Path+"File"] = path
	}
	must.Equal(t, len(secrets), 0, "secrets that are none")
	load := func() (*config.Config, error) {
		return config.LoadYAML([]byte("bizTypes: [{name: a}]"), config.Sources{Flags: flags})
	}
	c := must.Get(load())(t)
	must.Equal(t, c.Redis.Password, "hunter 2", "password of Redis")
	must.Equal(t, c.Redis.SentinelPassword, "hunter2", "password of the Sentinels")
	must.Equal(t, c.Coordination.Token, "hunter:2", "token")
	must.Equal(t, c.Store.Place(), "the database seqd at db:5432", "place")

	flags["redis.password"] = "hunter2"
	_, err := load()
	told(t, err, "redis.passwordFile: redis.password is set too: leave one of them out")
	delete(flags, "redis.password")
	must.Do(t, os.WriteFile(flags["redis.passwordFile"], []byte("hunter2\nhunter2\n"), 0o600))
	_, err = load()
	told(t, err, "redis.passwordFile: "+flags["redis.passwordFile"]+" has more than one line")
}

func told(t *testing.T, err error, what string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("error %v, want %s", err, what)
	}
}

// However a configuration is wrong, its error holds no secret.
func TestSecretsInErrors(t *testing.T) {
	const secret = "hunter2hunter2"
	for name, text := range map[string]string{
		"plugins without list":   "bizTypes: [{name: a, plugins: {name: obfuscate, digits: 8, key: " + secret + "}}]",
		"plugins nested twice":   "bizTypes: [{name: a, plugins: [[{name: obfuscate, digits: 8, key: " + secret + "}]]}]",
		"rejected without list":  "bizTypes: [{name: a, rejected: {name: webhook, url: \"https://h/?token=" + secret + "\"}}]",
		"rejected is the URL":    "bizTypes: [{name: a, rejected: [\"https://h/?token=" + secret + "\"]}]",
		"section without list":   "segment: {rejected: {name: webhook, url: \"https://h/?token=" + secret + "\"}}\nbizTypes: [{name: a}]",
		"biz types without list": "bizTypes: {name: a, plugins: [{name: obfuscate, digits: 8, key: " + secret + "}]}",
		"biz types nested twice": "bizTypes: [[{name: a, plugins: [{name: obfuscate, digits: 8, key: " + secret + "}]}]]",
		"alias":                  "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: *" + secret + "}]}]",
		"anchor in itself":       "bizTypes: &" + secret + " [*" + secret + "]",
		"text alone":             "hunter2",
		"no number":              "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: !!int " + secret + "}]}]",
		"section as key":         "bizTypes: [{name: a, plugins: [{{key: " + secret + "}: obfuscate}]}]",
		"number as key":          "bizTypes: [{name: a, plugins: {1: " + secret + "}}]",
		"plugins are the key":    "bizTypes: [{name: a, plugins: " + secret + "}]",
		"in a list":              "server: {trustedProxies: [{key: " + secret + "}]}\nbizTypes: [{name: a}]",
		"in another setting":     "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: {key: " + secret + "}}]}]",
		"name is section":        "bizTypes: [{name: a, plugins: [{name: {obfuscate: {key: " + secret + "}}}]}]",
		"key as section":         "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: {value: " + secret + "}}]}]",
		"key as list":            "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: [" + secret + "]}]}]",
		"short key":              "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: hunter2}]}]",
		"bad url":                "bizTypes: [{name: a, rejected: [{name: webhook, url: \"https://h:99999/?token=" + secret + "\"}]}]",
		"key twice":              "bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 8, key: " + secret + ", Key: " + secret + "}]}]",
	} {
		_, err := config.LoadYAML([]byte(text), config.Sources{})
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, env := range map[string]string{
		"section":     `SEQD_BIZTYPES={"name":"a","plugins":[{"name":"obfuscate","digits":8,"key":"` + secret + `"}]}`,
		"no json":     `SEQD_BIZTYPES=[{"name":"a","plugins":[{"name":"obfuscate","digits":8,"key":"` + secret + `"}]]`,
		"rejected":    `SEQD_SEGMENT_REJECTED={"name":"webhook","url":"https://h/?token=` + secret + `"}`,
		"rejectedurl": `SEQD_SEGMENT_REJECTED=["https://h/?token=` + secret + `"]`,
	} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: a}]"), config.Sources{Env: []string{env}})
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("env %s: %v", name, err)
		}
	}
}
