package config_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/config"
)

// stampSettings are the settings of a plugin that only tests know.
type stampSettings struct {
	Text   string `config:"text"`
	Digits int    `config:"digits"`
	Ink    struct {
		Colour string        `config:"colour"`
		Dries  time.Duration `config:"dries"`
	} `config:"ink"`
}

// Traits says that a text needs Redis.
func (s *stampSettings) Traits() seqd.Traits {
	t := seqd.Traits{MaxWait: s.Ink.Dries}
	if s.Text == "redis" {
		t.Redis = "text"
	}
	return t
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
		Check: func(b seqd.BizType, binding seqd.PluginBinding) (problems []seqd.Problem) {
			if binding.Settings.(*stampSettings).Text == b.Name {
				problems = append(problems, seqd.Problem{Key: "text", Text: "is the name of the biz type"})
			}
			return problems
		},
		ShowsPeriod: func(_ seqd.BizType, binding seqd.PluginBinding) bool {
			return binding.Settings.(*stampSettings).Text == "date"
		},
	})
	plugin.RegisterRejected(plugin.RejectedFactory{
		Name:     "shout",
		Settings: func() any { return &stampSettings{Digits: 8} },
		New:      func(plugin.Env, seqd.RejectedBinding) (seqd.RejectedHandler, error) { return nil, nil },
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
	if want := []stampSettings{{Text: "a", Digits: 8}, {Digits: 2}}; !slices.Equal(got, want) {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	if bindings[0].Order != 200 || bindings[1].Order != -3 || bindings[0].Name != "stamp" {
		t.Errorf("bindings %+v", bindings)
	}
}

// Settings can have sections.
func TestPluginSections(t *testing.T) {
	for _, ink := range []string{"ink: {colour: red}", "INK: {Colour: red}", "ink.colour: red"} {
		c := mustLoad(t, "bizTypes: [{name: order, plugins: [{name: stamp, "+ink+"}]}]\n", config.Sources{})
		must.Equal(t, c.BizTypes[0].Plugins[0].Settings.(*stampSettings).Ink.Colour, "red", "%s", ink)
	}
}

func TestWrongPlugins(t *testing.T) {
	for yaml, want := range map[string]string{
		`stamp`:                             "bizTypes[0].plugins: a value is not a list",
		`[stamp]`:                           "bizTypes[0].plugins[0]: a value is not a section",
		`[{}]`:                              "bizTypes[0].plugins[0].name: \"\" is not one of the plugins",
		`[{name: stomp}]`:                   "bizTypes[0].plugins[0].name: \"stomp\" is not one of the plugins [",
		`[{name: stamp, colour: 1}]`:        "bizTypes[0].plugins[0].colour: there is no such key for the plugin stamp",
		`[{name: stamp, order: x}]`:         "bizTypes[0].plugins[0].order: \"x\" is not a whole number",
		`[{name: stamp, digits: 0}]`:        "bizTypes[0].plugins[0].digits: must be at least 1",
		`[{name: stamp, text: 5}]`:          "bizTypes[0].plugins[0].text: 5 is not text",
		`[{name: stamp, text: a, TEXT: b}]`: "twice",
		`[{name: stamp, ink: {colour: a}, ink.colour: b}]`: "bizTypes[0].plugins[0].ink.colour: it appears twice",
		`[{name: stamp, text: order}]`:                     "bizTypes[0].plugins[0].text: is the name of the biz type",
		`[{name: history}, {name: history}]`:               "bizTypes[0].plugins[0].name: history appears twice",
		`[{name: history, file: {size: 1}}]`:               "bizTypes[0].plugins[0].file.size: there is no such key for the plugin history",
		`[{name: history, retention: 5s}]`:                 "bizTypes[0].plugins[0].retention: 5s is neither 0 (for ever) nor at least 1m",
		`[{name: history, onOverflow: x}]`:                 "bizTypes[0].plugins[0].onOverflow: \"x\" is not one of [\"drop\" \"block\" \"reject\"]",
		`[{name: stamp, ink: red}]`:                        "bizTypes[0].plugins[0].ink: a value is not a section",
		`[{name: stamp, ink: {x: 1}}]`:                     "bizTypes[0].plugins[0].ink.x: there is no such key for the plugin stamp",
		`[{name: stamp, ink: {colour: 1}}]`:                "bizTypes[0].plugins[0].ink.colour: 1 is not text",
		`[{name: stamp, ink: {dries: 1h}}]`:                "server.writeTimeout: ",
		`~`:                                                "bizTypes[0].plugins: it has no value",
	} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: order, plugins: "+yaml+"}]\n"), config.Sources{})
		wantError(t, err, want)
	}
}

// A setting of a plugin that needs Redis is rejected if Redis is not configured.
func TestPluginNeedsRedis(t *testing.T) {
	const file = "bizTypes: [{name: order}, {name: invite, plugins: [{name: stamp}, {name: stamp, text: redis}]}]\n"
	_, err := config.LoadYAML([]byte(file), config.Sources{})
	wantError(t, err, "bizTypes[1].plugins[1].text: it needs Redis: set redis.addrs")
	c := mustLoad(t, file, config.Sources{Flags: map[string]string{"redis.addrs": "a:1"}})
	c.Redis.Addrs = nil
	wantError(t, c.Validate(), "bizTypes[1].plugins[1].text: it needs Redis")
}

// Numbers reset only if IDs show the date.
func TestResetNeedsADate(t *testing.T) {
	for _, plugins := range []string{"", ", plugins: [{name: stamp}]"} {
		_, err := config.LoadYAML([]byte("bizTypes: [{name: order, reset: daily"+plugins+"}]\n"), config.Sources{})
		wantError(t, err, "bizTypes[0].reset: daily resets the numbers")
	}
	c := mustLoad(t, "bizTypes: [{name: order, reset: daily, timeZone: Asia/Shanghai, plugins: [{name: stamp, text: date}]}]\n", config.Sources{})
	if calendar := seqd.TraitsOf(c.BizTypes[0].Settings).Calendar; calendar.Reset != seqd.ResetDaily || calendar.Zone.String() != "Asia/Shanghai" {
		t.Errorf("calendar %+v", calendar)
	}
	c.BizTypes[0].Plugins = nil
	wantError(t, c.Validate(), "bizTypes[0].reset: daily resets the numbers")
}

// A biz type has the handlers of its strategy's section unless it names its own; those of the
// section are shared.
func TestRejected(t *testing.T) {
	const file = `
segment: {rejected: [{name: log}, {name: shout, text: a}]}
bizTypes:
  - {name: a}
  - {name: b, rejected: [{name: shout, digits: 3}]}
  - {name: c, rejected: []}
  - {name: d}
  - {name: e, strategy: snowflake}
`
	names := func(b seqd.BizType) (names []string) {
		for _, r := range b.Rejected {
			names = append(names, r.Name)
		}
		return names
	}
	for _, test := range []struct {
		env  []string
		want [][]string
	}{
		{nil, [][]string{{"log", "shout"}, {"shout"}, nil, {"log", "shout"}, nil}},
		{[]string{`SEQD_SEGMENT_REJECTED=[{"name":"log"}]`, `SEQD_SNOWFLAKE_REJECTED=[{"name":"shout"}]`}, [][]string{{"log"}, {"shout"}, nil, {"log"}, {"shout"}}},
	} {
		c := mustLoad(t, file, config.Sources{Env: test.env})
		for i, b := range c.BizTypes {
			if got := names(b); !slices.Equal(got, test.want[i]) {
				t.Errorf("%v: %s has %v, want %v", test.env, b.Name, got, test.want[i])
			}
		}
		must.Equal(t, c.BizTypes[0].Rejected[0].Settings, c.BizTypes[3].Rejected[0].Settings, "the default of the section, which is shared,")
	}
}

func TestWrongRejected(t *testing.T) {
	for yaml, want := range map[string]string{
		"segment: {rejected: log}":                                        "segment.rejected: a value is not a list",
		"segment: {rejected: ~}":                                          "segment.rejected: it has no value",
		"segment: {rejected: [{name: lag}]}":                              "segment.rejected[0].name: \"lag\" is not one of the rejection handlers",
		"segment: {rejected: [{name: shout, digits: 0}]}":                 "segment.rejected[0].digits: must be at least 1",
		"bizTypes: [{name: order, rejected: [{name: log, level: warn}]}]": "bizTypes[0].rejected[0].level: there is no such key for the rejection handler log",
		"bizTypes: [{name: order, rejected: ~}]":                          "bizTypes[0].rejected: it has no value",
	} {
		_, err := config.LoadYAML([]byte(yaml+"\n"), config.Sources{})
		wantError(t, err, want)
	}
	_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{"SEQD_SEGMENT_REJECTED=log"}})
	wantError(t, err, "environment variable SEQD_SEGMENT_REJECTED: it is not a JSON list of sections")
}
