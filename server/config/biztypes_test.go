package config_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/segment"
)

func TestBizTypesOverrideTheirSection(t *testing.T) {
	c := mustLoad(t, `
segment: {start: 50, step: 10, threshold: 0.5, acquireTimeout: 1s}
bizTypes:
  - {name: plain}
  - {name: own, strategy: segment, start: 7, threshold: 1, acquireTimeout: 10ms}
  - {name: after, step: 20}
`, config.Sources{})
	plain := segment.DefaultSettings()
	plain.Start, plain.Step, plain.Threshold, plain.AcquireTimeout = 50, 10, 0.5, time.Second
	own, after := plain, plain
	own.Start, own.Threshold, own.AcquireTimeout = 7, 1, 10*time.Millisecond
	after.Step = 20
	for i, want := range []segment.Settings{plain, own, after} {
		must.Equal(t, settingsOf(t, c, i), want, "%s has", c.BizTypes[i].Name)
	}
}

func TestWrongBizTypes(t *testing.T) {
	tests := []struct{ name, yaml, want string }{
		{"no list", "bizTypes: order", "bizTypes: a value is not a list"},
		{"an item that is text", "bizTypes: [order]", "bizTypes[0]: a value is not a section"},
		{"an item that is a list", "bizTypes: [[]]", "bizTypes[0]: a list is not a section"},
		{"an item that is nothing", "bizTypes: [{name: a}, null]", "bizTypes[1]: it has no value"},
		{"an empty item", "bizTypes: [{}]", "bizTypes[0].name: the biz type is empty"},
		{"no name", "bizTypes: [{start: 5}]", "bizTypes[0].name: the biz type is empty"},
		{"an empty name", `bizTypes: [{name: ""}]`, "bizTypes[0].name: the biz type is empty"},
		{"null as name", "bizTypes: [{name: null}]", "bizTypes[0].name: it has no value"},
		{"a number as name", "bizTypes: [{name: 5}]", "bizTypes[0].name: 5 is not text"},
		{"true as name", "bizTypes: [{name: true}]", "bizTypes[0].name: true is not text"},
		{"a bad name", "bizTypes: [{name: a}, {name: 1a}]", "bizTypes[1].name: the biz type \"1a\""},
		{"a name with a slash", "bizTypes: [{name: a/b}]", "bizTypes[0].name: "},
		{"a name twice", "bizTypes: [{name: a}, {name: b}, {name: a}]", "bizTypes[2].name: a is the name of bizTypes[0]"},
		{"an unknown strategy", "bizTypes: [{name: a, strategy: magic}]", `bizTypes[0].strategy: "magic" is not one of`},
		{"an empty strategy", `bizTypes: [{name: a, strategy: ""}]`, `bizTypes[0].strategy: "" is not one of`},
		{"null as strategy", "bizTypes: [{name: a, strategy: null}]", "bizTypes[0].strategy: it has no value"},
		{"an unknown key", "bizTypes: [{name: a, colour: blue}]", "bizTypes[0].colour: there is no such key"},
		{"a key that looks like one", "server: {conſole: false}\nbizTypes: [{name: a, ſtep: 5}]", "server.conſole: there is no such key"},
		{"an unknown empty key", "bizTypes: [{name: a, colours: []}]", "bizTypes[0].colours: there is no such key"},
		{"a key of the program", "bizTypes: [{name: a, maxCount: 5}]", "bizTypes[0].maxCount: there is no such key"},
		{"text for a number", `bizTypes: [{name: a, start: "5"}]`, `bizTypes[0].start: "5" is not a whole number`},
		{"a fraction", "bizTypes: [{name: a, start: 1.5}]", "bizTypes[0].start: 1.5 is not a whole number"},
		{"null for a number", "bizTypes: [{name: a, start: null}]", "bizTypes[0].start: it has no value"},
		{"a list for a number", "bizTypes: [{name: a, start: [5]}]", "bizTypes[0].start: "},
		{"a section for a number", "bizTypes: [{name: a, start: {x: 5}}]", "bizTypes[0].start: "},
		{"a duration without unit", "bizTypes: [{name: a, acquireTimeout: 5}]", "bizTypes[0].acquireTimeout: 5 is not a duration"},
		{"out of range", "bizTypes: [{name: a, start: 0}]", "bizTypes[0].start: 0 is outside"},
		{"2^53", "bizTypes: [{name: a, start: 9007199254740992}]", "bizTypes[0].start: 9007199254740992 is outside"},
		{"too small for its section", "segment: {step: 500}\nbizTypes: [{name: a, maxStep: 100}]", "bizTypes[0].step: 500 is outside 1 to maxStep, which is 100"},
		{"several wrong settings", "bizTypes: [{name: a, start: 0, threshold: 2}]", "bizTypes[0].threshold: "},
		{"a wrong setting before a wrong plugin", "bizTypes: [{name: a, start: 0, plugins: [{name: format, template: x}]}]", "bizTypes[0].start: 0 is outside"},
		{"a wrong plugin behind a wrong setting", "bizTypes: [{name: a, start: 0, plugins: [{name: format, template: x}]}]", "bizTypes[0].plugins[0].template: "},
		{"a wrong setting and an unknown key", "bizTypes: [{name: a, start: 0, colour: blue}]", "bizTypes[0].start: 0 is outside"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(tt.yaml+"\n"), config.Sources{})
			wantError(t, err, tt.want)
		})
	}
	t.Run("sections instead of a list", func(t *testing.T) {
		_, err := config.LoadYAML([]byte("bizTypes: {order: {start: 5}}\n"), config.Sources{})
		wantError(t, err, "bizTypes: ", "is not a list")
	})
}

func TestBizTypesFromEnvironment(t *testing.T) {
	load := func(text string) (*config.Config, error) {
		return config.LoadYAML([]byte("segment: {step: 5}\nbizTypes: [{name: file}]\n"), config.Sources{Env: []string{"SEQD_BIZTYPES=" + text}})
	}
	t.Run("replaces those of the file", func(t *testing.T) {
		c := must.Get(load(` [{"name": "a", "start": 7, "threshold": 0.5, "acquireTimeout": "1s"}, {"Name": "b", "strategy": "segment"}] `))(t)
		if len(c.BizTypes) != 2 || c.BizTypes[0].Name != "a" || c.BizTypes[1].Name != "b" {
			t.Fatalf("the biz types are %+v, want a and b", c.BizTypes)
		}
		want := segment.DefaultSettings()
		want.Step, want.Start, want.Threshold, want.AcquireTimeout = 5, 7, 0.5, time.Second
		must.Equal(t, settingsOf(t, c, 0), want, "a")
	})
	t.Run("alone", func(t *testing.T) {
		c, err := config.Load(config.Sources{Env: []string{`SEQD_BIZTYPES=[{"name":"a"}]`}})
		if err != nil || len(c.BizTypes) != 1 {
			t.Errorf("got %+v, %v; want one biz type", c, err)
		}
	})
	// Exact up to the end; the first number that a float64 would change, 2^53 + 1, is refused below
	// as it was written.
	for text, want := range map[string]int64{"1": 1, "9007199254740990": seqd.MaxNumber - 1, "9007199254740991": seqd.MaxNumber} {
		t.Run("start "+text, func(t *testing.T) {
			c := must.Get(load(`[{"name": "a", "start": ` + text + `}]`))(t)
			must.Equal(t, settingsOf(t, c, 0).Start, want, "start")
		})
	}
	const variable = "environment variable SEQD_BIZTYPES: "
	for text, want := range map[string]string{
		"":                              variable,
		"null":                          "bizTypes: there is none",
		"[]":                            "bizTypes: there is none",
		"order":                         variable,
		`{"name": "a"}`:                 variable,
		`"a"`:                           variable,
		`[{"name": "a"}`:                variable,
		`[{"name": "a"},]`:              variable,
		`[{name: a}]`:                   variable,
		`[{"name": "a"}] x`:             variable,
		`[{"name": "a"}] []`:            variable,
		`[{"name": "a"}]]`:              variable,
		`["a"]`:                         "bizTypes[0]: a value is not a section",
		`[null]`:                        "bizTypes[0]: it has no value",
		`[{"name": 5}]`:                 "bizTypes[0].name: 5 is not text",
		`[{"name": "a", "start": "5"}]`: `bizTypes[0].start: "5" is not a whole number`,
		`[{"name": "a", "start": 1.5}]`: "bizTypes[0].start: 1.5 is not a whole number",
		`[{"name": "a", "start": 9007199254740993}]`:     "bizTypes[0].start: 9007199254740993 is outside",
		`[{"name": "a", "start": 99999999999999999999}]`: "bizTypes[0].start: 99999999999999999999 is not a whole number",
		`[{"name": "a", "threshold": 1e999}]`:            "bizTypes[0].threshold: ",
		`[{"name": "a", "colour": 1}]`:                   "bizTypes[0].colour: there is no such key",
		`[{"name": "a"}, {"name": "a"}]`:                 "bizTypes[1].name: a is the name of bizTypes[0]",
		`[{"name": "a", "start": 5, "start": 6}]`:        "start",
		`[{"name": "a", "start": 5, "START": 6}]`:        "start",
	} {
		t.Run("wrong: "+text, func(t *testing.T) {
			_, err := load(text)
			wantError(t, err, want)
		})
	}
}

// Numbers of files are as exact as those of the environment, in both formats.
func TestBigNumbersInFiles(t *testing.T) {
	for name, text := range map[string]string{
		"a.yaml": "bizTypes: [{name: a, start: 9007199254740990}, {name: b, start: 9007199254740991}]\n",
		"a.json": `{"bizTypes": [{"name": "a", "start": 9007199254740990}, {"name": "b", "start": 9007199254740991}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := must.Get(config.Load(config.Sources{File: write(t, name, text)}))(t)
			if a, b := settingsOf(t, c, 0).Start, settingsOf(t, c, 1).Start; a != seqd.MaxNumber-1 || b != seqd.MaxNumber {
				t.Errorf("start is %d and %d, want %d and %d", a, b, seqd.MaxNumber-1, seqd.MaxNumber)
			}
		})
	}
}
