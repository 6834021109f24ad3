package config_test

import (
	"slices"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

// stampSettings are the settings of a plugin that only tests know.
type stampSettings struct {
	Text   string `config:"text"`
	Digits int    `config:"digits"`
}

func (s *stampSettings) Validate() []seqd.Problem {
	if s.Digits < 1 {
		return []seqd.Problem{{Key: "digits", Text: "must be at least 1"}}
	}
	return nil
}

func init() {
	plugin.Register(plugin.Factory{
		Name:     "stamp",
		Order:    200,
		Settings: func() any { return &stampSettings{Digits: 8} },
		New:      func(plugin.Env, seqd.BizType, seqd.PluginBinding) (seqd.Plugin, error) { return nil, nil },
	})
}

func TestPlugins(t *testing.T) {
	c := mustLoad(t, `bizTypes:
  - {name: order, plugins: [{name: stamp, text: a}, {name: stamp, order: -3, Digits: 2}]}
  - {name: invite, plugins: []}
`, config.Sources{})
	bindings := c.BizTypes[0].Plugins
	if len(bindings) != 2 || len(c.BizTypes[1].Plugins) != 0 {
		t.Fatalf("%d and %d bindings", len(bindings), len(c.BizTypes[1].Plugins))
	}
	var got []stampSettings
	for _, b := range bindings {
		got = append(got, *b.Settings.(*stampSettings))
	}
	if want := []stampSettings{{"a", 8}, {"", 2}}; !slices.Equal(got, want) {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	if bindings[0].Order != 200 || bindings[1].Order != -3 || bindings[0].Name != "stamp" {
		t.Errorf("bindings %+v", bindings)
	}
}

func TestWrongPlugins(t *testing.T) {
	for yaml, want := range map[string]string{
		`stamp`:                             "bizTypes[0].plugins: \"stamp\" is not a list",
		`[stamp]`:                           "bizTypes[0].plugins[0]: \"stamp\" is not a section",
		`[{}]`:                              "bizTypes[0].plugins[0].name: \"\" is not one of the plugins",
		`[{name: stomp}]`:                   "bizTypes[0].plugins[0].name: \"stomp\" is not one of the plugins [\"stamp\"]",
		`[{name: stamp, colour: 1}]`:        "bizTypes[0].plugins[0].colour: there is no such key for the plugin stamp",
		`[{name: stamp, order: x}]`:         "bizTypes[0].plugins[0].order: \"x\" is not a whole number",
		`[{name: stamp, digits: 0}]`:        "bizTypes[0].plugins[0].digits: must be at least 1",
		`[{name: stamp, text: 5}]`:          "bizTypes[0].plugins[0].text: 5 is not text",
		`[{name: stamp, text: a, TEXT: b}]`: "twice",
		`~`:                                 "bizTypes[0].plugins: it has no value",
	} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: order, plugins: "+yaml+"}]\n"), config.Sources{})
		wantError(t, err, want)
	}
}
