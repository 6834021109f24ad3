package config_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

// foreignSettings are those of a plugin of another module.
type foreignSettings struct {
	Colour string `config:"colour"`
	Inner  struct {
		Size int    `config:"size"`
		Pass string `config:"pass" secret:"true"`
	} `config:"inner"`
}

func init() {
	plugin.Register(plugin.Factory{
		Name: "foreign", Order: 7,
		Settings: func() any { return &foreignSettings{Colour: "red"} },
		New: func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) {
			return seqd.NopPlugin{}, nil
		},
	})
}

// strange are what the tests of this package register. They have no help.
var strange = []string{"foreign", "stamp", "shout"}

func described(t *testing.T, text string) admin.Settings {
	t.Helper()
	c := must.Get(config.LoadYAML([]byte(text), config.Sources{}))(t)
	return c.Describe()
}

func settingIn(t *testing.T, owners []admin.SettingsOwner, owner, key string) admin.Setting {
	t.Helper()
	for _, o := range owners {
		for _, s := range o.Settings {
			if o.Name == owner && s.Key == key {
				return s
			}
		}
	}
	t.Fatalf("%s has no setting %s", owner, key)
	return admin.Setting{}
}

// Everything that comes with seqd is described, so that a form can be filled in without documents.
func TestDescribe(t *testing.T) {
	d := described(t, "bizTypes: [{name: a}]")
	for _, owners := range [][]admin.SettingsOwner{d.Strategies, d.Plugins, d.Rejected, {{Name: "common", Help: "-", Settings: d.Common}}} {
		for _, o := range owners {
			if o.Help == "" && !slices.Contains(strange, o.Name) {
				t.Errorf("%s has no help", o.Name)
			}
			for _, s := range o.Settings {
				if s.Help == "" && !slices.Contains(strange, o.Name) {
					t.Errorf("%s.%s has no help", o.Name, s.Key)
				}
				if s.Default == nil && !s.Secret && !s.Required && s.Type != "objects" {
					t.Errorf("%s.%s has no default", o.Name, s.Key)
				}
				if strings.Contains(s.Help+s.Range, "segment.") {
					t.Errorf("%s.%s names a section: %s %s", o.Name, s.Key, s.Help, s.Range)
				}
			}
		}
	}
	for _, tt := range []struct {
		owners     []admin.SettingsOwner
		owner, key string
		want       string
	}{
		{d.Strategies, "segment", "step", `{"key":"step","type":"integer","default":1000,"range":"1 to maxStep","help":"…","secret":false,"required":false}`},
		{d.Strategies, "segment", "restoreGap", `{"key":"restoreGap","type":"integer","default":1000000,"values":["auto"],"range":"0 to 1,000,000,000,000, or auto","min":0,"max":1000000000000,"zero":"ten steps","help":"…","secret":false,"required":false}`},
		{d.Strategies, "segment", "reset", `{"key":"reset","type":"text","default":"never","values":["never","daily","monthly","yearly"],"help":"…","secret":false,"required":false}`},
		{d.Strategies, "gapless", "reservationTTL", `{"key":"reservationTTL","type":"duration","default":"10m","range":"1s to 24h","help":"…","secret":false,"required":false}`},
		{d.Strategies, "snowflake", "machineId", `{"key":"machineId","type":"text","default":"auto","help":"…","secret":false,"required":false}`},
		{d.Plugins, "history", "file.maxSize", `{"key":"file.maxSize","type":"integer","default":104857600,"range":"65,536 to 1,099,511,627,776","min":65536,"max":1099511627776,"unit":"bytes","help":"…","secret":false,"required":false}`},
		{d.Plugins, "rate-limit", "rate", `{"key":"rate","type":"number","range":"above 0, at most 1,000,000,000","unit":"tokens a second","help":"…","secret":false,"required":true}`},
		{d.Plugins, "format", "check", `{"key":"check","type":"text","default":"","values":["luhn","damm","mod97",""],"help":"…","secret":false,"required":false}`},
		{d.Plugins, "obfuscate", "key", `{"key":"key","type":"text","help":"…","secret":true,"required":false,"exactlyOneOf":["key","keyEnv","keyFile"]}`},
		{d.Plugins, "foreign", "order", `{"key":"order","type":"integer","default":7,"help":"…","secret":false,"required":false}`},
		{d.Plugins, "foreign", "inner.size", `{"key":"inner.size","type":"integer","default":0,"help":"","secret":false,"required":false}`},
		{d.Plugins, "foreign", "inner.pass", `{"key":"inner.pass","type":"text","help":"","secret":true,"required":false}`},
		{d.Rejected, "webhook", "url", `{"key":"url","type":"text","help":"…","secret":true,"required":true}`},
	} {
		s := settingIn(t, tt.owners, tt.owner, tt.key)
		if s.Help != "" {
			s.Help = "…"
		}
		must.Equal(t, string(must.Get(json.Marshal(s))(t)), tt.want)
	}
}

// Defaults are those of the configuration, without its secrets.
func TestDescribeDefaultsOfTheConfiguration(t *testing.T) {
	d := described(t, `
segment: {step: 77, reset: daily, restoreGap: auto, rejected: [{name: webhook, url: "https://hush@example.com/", secret: hushhush}, {name: log}]}
bizTypes: [{name: a, plugins: [{name: obfuscate, digits: 5, key: hushhush}], reset: never}]`)
	for key, want := range map[string]any{"step": int64(77), "reset": "daily", "restoreGap": "auto", "start": int64(1), "threshold": 0.2} {
		must.Equal(t, settingIn(t, d.Strategies, "segment", key).Default, want, "the default of %s", key)
	}
	at := slices.IndexFunc(d.Strategies, func(o admin.SettingsOwner) bool { return o.Name == "segment" })
	if !slices.Equal(d.Strategies[at].Rejected, []string{"webhook", "log"}) {
		t.Errorf("rejected %q", d.Strategies[at].Rejected)
	}
	text, err := json.Marshal(d)
	if err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("%v: a secret is shown: %s", err, text)
	}
}

// The description has all keys that a definition can have, and no others: each is accepted, or
// refused for its value.
func TestDescribedKeysAreThoseOfDefinitions(t *testing.T) {
	c := must.Get(config.LoadYAML([]byte("bizTypes: [{name: a}]"), config.Sources{}))(t)
	wrong := func(definition map[string]any) string {
		text := must.Get(json.Marshal(definition))(t)
		_, problems := c.DecodeDefinition("a", text)
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.Text + "\n")
		}
		return all.String()
	}
	value := func(s admin.Setting) (key string, v any) {
		v = s.Default
		if v == nil {
			v = "12345678"
		}
		if outer, inner, nested := strings.Cut(s.Key, "."); nested {
			return outer, map[string]any{inner: v}
		}
		return s.Key, v
	}
	d := c.Describe()
	for _, o := range d.Strategies {
		definition := map[string]any{"strategy": o.Name, "plugins": []any{}, "rejected": []any{}}
		for _, s := range o.Settings {
			key, v := value(s)
			definition[key] = v
		}
		must.Equal(t, wrong(definition), "", "%s", o.Name)
	}
	for list, owners := range map[string][]admin.SettingsOwner{"plugins": d.Plugins, "rejected": d.Rejected} {
		for _, o := range owners {
			for _, s := range o.Settings {
				key, v := value(s)
				if text := wrong(map[string]any{list: []any{map[string]any{"name": o.Name, key: v}}}); strings.Contains(text, "no such key") {
					t.Errorf("%s.%s: %s", o.Name, s.Key, text)
				}
			}
		}
	}
}
