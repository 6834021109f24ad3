package config_test

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/server/config"
)

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
