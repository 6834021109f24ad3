package obfuscate

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

const someKey = "correct horse"

func TestSettings(t *testing.T) {
	t.Setenv("OBFUSCATE_SHORT", "1234567")
	t.Setenv("OBFUSCATE_EMPTY", "")
	for name, want := range map[string]string{"EMPTY": "is empty or not set", "NONE": "is empty or not set", "SHORT": "has 7 bytes"} {
		if _, err := missing(seqd.PluginBinding{Settings: &Settings{Digits: 8, KeyEnv: "OBFUSCATE_" + name}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, test := range []struct {
		settings *Settings
		key      string // of the problem, "" for none
		text     string
	}{
		{&Settings{Digits: 1, Key: someKey}, "", ""},
		{&Settings{Digits: 19, Key: someKey}, "", ""},
		{&Settings{Bits: 1, KeyEnv: "OBFUSCATE_KEY"}, "", ""},
		{&Settings{Bits: 63, KeyFile: "/nowhere/at/all"}, "", ""},
		{&Settings{Key: someKey}, "digits", "how many decimal digits"},
		{&Settings{Digits: 8, Bits: 8, Key: someKey}, "bits", "set only one"},
		{&Settings{Digits: 20, Key: someKey}, "digits", "20 is outside 1 to 19"},
		{&Settings{Digits: -1, Key: someKey}, "digits", "-1 is outside 1 to 19"},
		{&Settings{Bits: 64, Key: someKey}, "bits", "64 is outside 1 to 63"},
		{&Settings{Bits: -1, Key: someKey}, "bits", "-1 is outside 1 to 63"},
		{&Settings{Digits: 8}, "key", "one of them must give the key"},
		{&Settings{Digits: 8, Key: "1234567"}, "key", "7 bytes, which is outside 8 to 4096"},
		{&Settings{Digits: 8, Key: Secret(strings.Repeat("x", 4097))}, "key", "4097 bytes"},
		{&Settings{Digits: 8, Key: someKey, KeyEnv: "OBFUSCATE_KEY"}, "keyEnv", "so is key"},
		{&Settings{Digits: 8, KeyEnv: "OBFUSCATE_KEY", KeyFile: "x"}, "keyFile", "so is keyEnv"},
		{&Settings{Digits: 8, KeyEnv: "OBFUSCATE_NONE"}, "", ""}, // the environment is not read
	} {
		problems := test.settings.Validate()
		if test.key == "" {
			if len(problems) > 0 {
				t.Errorf("%d %d: %v", test.settings.Digits, test.settings.Bits, problems)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Key != test.key || !strings.Contains(problems[0].Text, test.text) {
			t.Errorf("%v, want %s: %s", problems, test.key, test.text)
		}
		if text := fmt.Sprint(problems); strings.Contains(text, someKey) || strings.Contains(text, "1234567") {
			t.Errorf("a problem shows the key: %s", text)
		}
	}
}

// TestTheKeyIsNotShown checks that nothing that prints or encodes settings or plugin shows the key,
// or what is derived from it.
func TestTheKeyIsNotShown(t *testing.T) {
	settings := &Settings{Digits: 8, Key: someKey}
	p := newPlugin(t, settings)
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %d", settings, settings, settings, settings.Key, settings.Key, settings.Key, settings.Key) +
		fmt.Sprintf("%v %+v %#v %v", p, p, p, plugin.Chain(bizTypeWith(binding(settings))))
	encoded := must.Get(json.Marshal(settings))(t)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "settings", settings, "key", settings.Key, "plugin", p)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "settings", settings, "key", settings.Key)
	text := shown + string(encoded) + log.String()
	for _, secret := range []string{someKey, fmt.Sprintf("%x", someKey), fmt.Sprint([]byte(someKey)), fmt.Sprint(p.all.permutation.k0), fmt.Sprintf("%x", p.all.permutation.k0)} {
		if strings.Contains(text, secret) {
			t.Errorf("it shows %s: %s", secret, text)
		}
	}
}

// bounded are the settings of a strategy with a first number.
type bounded int64

func (b bounded) Traits() seqd.Traits { return seqd.Traits{First: int64(b), Last: math.MaxInt64} }

func bizTypeWith(bindings ...seqd.PluginBinding) seqd.BizType {
	return seqd.BizType{Name: "order", Plugins: bindings}
}

func binding(s *Settings) seqd.PluginBinding {
	return seqd.PluginBinding{Name: Name, Order: order, Settings: s}
}

func TestCheckOfTheDomain(t *testing.T) {
	for _, test := range []struct {
		settings *Settings
		first    int64
		key      string
	}{
		{&Settings{Digits: 1}, 9, ""},
		{&Settings{Digits: 1}, 10, "digits"},
		{&Settings{Digits: 8}, 99_999_999, ""},
		{&Settings{Digits: 8}, 100_000_000, "digits"},
		{&Settings{Digits: 19}, math.MaxInt64, ""},
		{&Settings{Bits: 1}, 1, ""},
		{&Settings{Bits: 1}, 2, "bits"},
		{&Settings{Bits: 63}, math.MaxInt64, ""},
		{&Settings{Bits: 62}, math.MaxInt64, "bits"},
	} {
		bizType := bizTypeWith(binding(test.settings))
		bizType.Settings = bounded(test.first)
		problems := check(bizType, bizType.Plugins[0])
		switch {
		case test.key == "" && len(problems) > 0:
			t.Errorf("%+v from %d: %v", test.settings, test.first, problems)
		case test.key != "" && (len(problems) != 1 || problems[0].Key != test.key || !strings.Contains(problems[0].Text, "too small")):
			t.Errorf("%+v from %d: %v", test.settings, test.first, problems)
		}
	}
}

func init() {
	made := func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return nil, nil }
	settings := func() any { return new(struct{ X int }) }
	plugin.Register(plugin.Factory{Name: "counts", Settings: settings, New: made})
	plugin.Register(plugin.Factory{Name: "rewrites", Settings: settings, New: made,
		Shape: func(seqd.BizType, seqd.PluginBinding) (string, error) { return "", nil }})
}

func TestCheckOfTheOrder(t *testing.T) {
	own, second := binding(&Settings{Digits: 8}), binding(&Settings{Digits: 8})
	at := func(name string, order int) seqd.PluginBinding {
		return seqd.PluginBinding{Name: name, Order: order, Settings: new(struct{ X int })}
	}
	for name, test := range map[string]struct {
		bindings []seqd.PluginBinding
		right    bool
	}{
		"alone":                     {[]seqd.PluginBinding{own}, true},
		"after one that counts":     {[]seqd.PluginBinding{at("counts", 10), own}, true},
		"before one that rewrites":  {[]seqd.PluginBinding{at("rewrites", 200), own}, true},
		"at the order of a later":   {[]seqd.PluginBinding{own, at("rewrites", order)}, true},
		"at the order of one first": {[]seqd.PluginBinding{at("rewrites", order), own}, false},
		"after one that rewrites":   {[]seqd.PluginBinding{own, at("rewrites", 99)}, false},
		"twice":                     {[]seqd.PluginBinding{second, own}, false},
		"twice, first":              {[]seqd.PluginBinding{own, second}, true},
	} {
		problems := check(bizTypeWith(test.bindings...), own)
		if test.right != (len(problems) == 0) || len(problems) > 0 && (len(problems) > 1 || problems[0].Key != "order") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestShape checks that the shape changes with whatever changes IDs, and with nothing else, and
// that it does not contain the key.
func TestShape(t *testing.T) {
	t.Setenv("OBFUSCATE_KEY", someKey)
	seen := make(map[string]int)
	for i, s := range []*Settings{
		{Digits: 8, Key: someKey}, {Digits: 9, Key: someKey}, {Bits: 8, Key: someKey}, {Digits: 8, Key: "another key"}, {Digits: 8, Key: someKey + " "},
	} {
		text := shapeOf(t, s)
		if before, taken := seen[text]; taken {
			t.Errorf("%d and %d have the shape %s", before, i, text)
		}
		if strings.Contains(text, someKey) || strings.Contains(text, fmt.Sprintf("%x", someKey)) {
			t.Errorf("%s holds the key", text)
		}
		seen[text] = i
	}
	if text := shapeOf(t, &Settings{Digits: 8, KeyEnv: "OBFUSCATE_KEY"}); seen[text] != 0 {
		t.Errorf("the same key from elsewhere has the shape %s", text)
	}
	must.Equal(t, shapeOf(t, &Settings{Digits: 8, Key: someKey}), goldenShape, "the shape, without which biz types that have issued would be refused,")
	if _, err := shape(seqd.BizType{}, seqd.PluginBinding{Settings: 5}, ""); err == nil {
		t.Error("settings of another type have a shape")
	}
}

// goldenShape is a shape that is in stores.
const goldenShape = "1 digits=8 key=0c869950607944612e41c9e9eb00a567"

func shapeOf(t *testing.T, s *Settings) string {
	t.Helper()
	return must.Get(shape(seqd.BizType{}, binding(s), ""))(t)
}
