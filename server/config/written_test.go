package config_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
)

// A text means the same wherever it is written, or is refused everywhere: in YAML and JSON, for a
// node and for a biz type, in a variable and a flag.
func TestWrittenAnywhere(t *testing.T) {
	kinds := map[string]struct{ path, good string }{ // good are the texts that are accepted
		"whole number":   {"segment.step", "5 1000"},
		"size":           {"server.maxBodyBytes", "5 1000 0 90"},
		"number or word": {"segment.restoreGap", "auto 5 1000 0 90"},
		"number":         {"segment.threshold", "0.5 5e-1"},
		"duration":       {"segment.acquireTimeout", "10s 1s500ms"},
		"switch":         {"segment.keyed", "true false"},
		"zone":           {"segment.timeZone", "UTC Asia/Shanghai"},
		"time":           {"snowflake.epoch", "2024-01-01T00:00:00Z"},
		"id":             {"snowflake.machineId", "auto 5 1000 0 90"},
	}
	texts := strings.Fields("010 0x10 0o7 0b1 1e3 1E3 1_000 1,000 +5 -0 -5 5.0 .5 5. 1.5 NaN .nan .inf Inf 9007199254740993 123456789012345678901234567890 1e999 " +
		"True TRUE T t 1 yes on off no y 1h30 90 1d 1h1h 1m1h +1s 5s5 12:30 12:30:45 10MB 10MiB 10k 2024-01-01 2024-1-1 2024-01-01T00:00:00 2024-01-01T0:00:00Z " +
		"Local localtime posix/Asia/Tokyo right/Asia/Tokyo posixrules EST PST CET asia/shanghai utc GMT Etc/GMT+8 UTC+8 Z ٥")
	for kind, k := range kinds {
		good := make(map[string]bool)
		for _, text := range strings.Fields(k.good) {
			good[text] = true
		}
		if k.path == "segment.step" {
			good["1"], good["90"] = true, true
		}
		if strings.HasSuffix(k.path, "Bytes") || kind == "number or word" || kind == "id" {
			good["1"] = true
		}
		if kind == "number" {
			good["1"] = true
		}
		for _, text := range append(texts, strings.Fields(k.good)...) {
			must.Equal(t, readEverywhere(t, k.path, text), good[text], "%s: %s is accepted", kind, text)
		}
	}
}

// readEverywhere writes a value in every place, compares what was read, and reports whether it was
// accepted.
func readEverywhere(t *testing.T, path, text string) (accepted bool) {
	t.Helper()
	section, key, _ := strings.Cut(path, ".")
	strategy := "segment"
	if section == "snowflake" {
		strategy = section
	}
	raw := text
	if !json.Valid([]byte(text)) {
		raw = `"` + text + `"`
	}
	base := `{name: a, strategy: ` + strategy + `}`
	load := func(file string, src config.Sources) any {
		c, err := config.LoadYAML([]byte(file), src)
		if err != nil {
			return nil
		}
		return read(c, section)
	}
	inBizType := `[{"name": "a", "strategy": "` + strategy + `", "` + key + `": ` + raw + `}]`
	env := "SEQD_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
	places := map[string]any{
		"YAML":     load("bizTypes: ["+base+"]\n"+section+":\n  "+key+": "+text+" # a comment\n", config.Sources{}),
		"variable": load("bizTypes: ["+base+"]", config.Sources{Env: []string{env + "=" + text}}),
		"flag":     load("bizTypes: ["+base+"]", config.Sources{Flags: map[string]string{path: text}}),
	}
	if c, err := config.Load(config.Sources{File: write(t, "a.json", `{"bizTypes": [{"name": "a", "strategy": "`+strategy+`"}], "`+section+`": {"`+key+`": `+raw+`}}`)}); err == nil {
		places["JSON"] = read(c, section)
	} else {
		places["JSON"] = nil
	}
	if section != "server" {
		places["biz type in YAML"] = load("bizTypes: [{name: a, strategy: "+strategy+", "+key+": "+text+"}]", config.Sources{})
		places["biz types in a variable"] = load("", config.Sources{Env: []string{"SEQD_BIZTYPES=" + inBizType}})
		cfg := config.Default()
		if b, problems := cfg.DecodeDefinition("a", []byte(inBizType[1:len(inBizType)-1])); len(problems) == 0 {
			places["definition"] = valuesOf(b.Settings)
		} else {
			places["definition"] = nil
		}
	}
	for place, got := range places {
		if !reflect.DeepEqual(got, places["YAML"]) {
			t.Errorf("%s: %s in %s is %+v, in YAML %+v", path, text, place, got, places["YAML"])
		}
	}
	return places["YAML"] != nil
}

// read returns the section of a configuration with the value.
func read(c *config.Config, section string) any {
	if section == "server" {
		return c.Server
	}
	return valuesOf(c.BizTypes[0].Settings)
}

// valuesOf returns the values of settings by key.
func valuesOf(settings any) any {
	values := make(map[string]any)
	for _, k := range config.SettingsOf(settings) {
		values[k.Path] = k.Default
	}
	return values
}
