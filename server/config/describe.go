package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// helpText has the comments of fields. Package internal/configdoc writes it.
//
//go:embed help.json
var helpText []byte

// help returns the comments of fields by [Key.HelpID].
var help = sync.OnceValue(func() (texts map[string]string) {
	if err := json.Unmarshal(helpText, &texts); err != nil {
		panic(err) // the file is a part of the program
	}
	return texts
})

// HelpID identifies the field of a key.
func (k Key) HelpID() string {
	return k.Owner.PkgPath() + "." + k.Owner.Name() + "." + k.Field.Name
}

// SettingsOf lists the keys of settings, a pointer to a struct with `config` tags.
func SettingsOf(settings any) []Key { return keysOf("", reflect.ValueOf(settings).Elem()) }

// Describe says what a definition of a biz type can contain, with the strategies and plugins of
// this program and the defaults of this configuration.
func (c *Config) Describe() admin.Settings {
	d := admin.Settings{Common: common(), Strategies: []admin.SettingsOwner{}, Plugins: []admin.SettingsOwner{}, Rejected: []admin.SettingsOwner{}}
	for _, s := range c.sections() {
		owner := admin.SettingsOwner{Name: s.factory.Name, Help: s.factory.Help, Settings: describe(s.settings)}
		for i := range owner.Settings {
			shorten(&owner.Settings[i], s.factory.Name)
		}
		for _, handler := range s.rejected {
			owner.Rejected = append(owner.Rejected, handler.Name)
		}
		d.Strategies = append(d.Strategies, owner)
	}
	for _, name := range plugin.Names() {
		factory, err := plugin.Lookup(name)
		if err != nil {
			continue
		}
		d.Plugins = append(d.Plugins, admin.SettingsOwner{
			Name: name, Help: factory.Help, Settings: append(describe(factory.Settings()), order(factory.Order)),
		})
	}
	for _, name := range plugin.RejectedNames() {
		factory, err := plugin.LookupRejected(name)
		if err != nil {
			continue
		}
		d.Rejected = append(d.Rejected, admin.SettingsOwner{Name: name, Help: factory.Help, Settings: describe(factory.Settings())})
	}
	return d
}

// common describes the settings that do not depend on the strategy.
func common() []admin.Setting {
	return []admin.Setting{
		{
			Key: "strategy", Type: "text", Default: defaultStrategy, Values: strategy.Names(),
			Help: "How numbers are made. It cannot be changed later, except by force: numbers could repeat.",
		},
		{
			Key: "events", Type: "boolean", Default: false,
			Help: "Whether events are made of what happens: numbers of `gapless` that are issued, expire or become void, and " +
				"changes of the definition. Programs read them with GET /events.",
		},
		{
			Key: pluginsKey, Type: "objects",
			Help: "What else a request goes through: how numbers look, how often one may ask, what is recorded. " +
				"Each item has the `name` of a plugin and its settings.",
		},
		{
			Key: rejectedKey, Type: "objects",
			Help: "Who is told of requests that were refused. Each item has the `name` of a rejection handler and its settings. " +
				"An empty list tells nobody.",
		},
	}
}

// order describes the place of a plugin.
func order(usual int) admin.Setting {
	return admin.Setting{
		Key: "order", Type: "integer", Default: usual,
		Help: "The place among the plugins of the biz type: smaller ones run first.",
	}
}

// describe describes settings, which have their defaults.
func describe(settings any) []admin.Setting {
	list := []admin.Setting{}
	wrong := wrongKeys(settings)
	for _, k := range SettingsOf(settings) {
		s := admin.Setting{
			Key: k.Path, Type: k.typeName(), Range: k.Field.Tag.Get("range"), Unit: k.Field.Tag.Get("unit"),
			Zero: k.Field.Tag.Get("zero"), Help: help()[k.HelpID()], Secret: k.secret, Required: slices.Contains(wrong, k.Path),
		}
		if keys := k.Field.Tag.Get("exactlyOneOf"); keys != "" {
			s.ExactlyOneOf, s.Required = strings.Split(keys, ", "), false
		}
		if !s.Secret && !s.Required {
			s.Default = k.plainDefault()
		}
		splitRange(&s)
		list = append(list, s)
	}
	return list
}

// shorten shortens keys in the texts, such as segment.step: a definition has no section.
func shorten(s *admin.Setting, section string) {
	for _, text := range []*string{&s.Help, &s.Range} {
		*text = regexp.MustCompile(`\b`+regexp.QuoteMeta(section)+`\.([a-zA-Z])`).ReplaceAllString(*text, "$1")
	}
}

// wrongKeys returns the keys whose defaults are wrong: those have to be given.
func wrongKeys(settings any) (keys []string) {
	for _, problem := range seqd.ProblemsOf(settings) {
		keys = append(keys, problem.Key)
	}
	return keys
}

// typeName returns the type of a key's values.
func (k Key) typeName() string {
	switch kind := k.Field.Type.Kind(); {
	case k.Field.Type == durationType:
		return "duration"
	case kind == reflect.Bool:
		return "boolean"
	case kind == reflect.Int || kind == reflect.Int64:
		return "integer"
	case kind == reflect.Float64:
		return "number"
	case kind == reflect.Slice:
		return "list"
	}
	return "text"
}

// plainDefault returns the default as JSON has it.
func (k Key) plainDefault() any {
	v := reflect.ValueOf(k.Default)
	switch k.typeName() {
	case "duration":
		return literal.ShortDuration(time.Duration(v.Int()))
	case "integer":
		if word, ok := k.Default.(fmt.Stringer); ok {
			if text := word.String(); text != strconv.FormatInt(v.Int(), 10) {
				return text
			}
		}
		return v.Int()
	case "text":
		return v.String()
	}
	return k.Default
}

// plainRange is a range from one number to another one, and the words beside it.
var plainRange = regexp.MustCompile(`^([0-9,]+) to ([0-9,]+)(?:, or ([a-z]+))?$`)

// splitRange turns a list of values into Values, and a plain range into Min and Max.
func splitRange(s *admin.Setting) {
	if s.Type == "text" && s.Range != "" && !strings.Contains(s.Range, " to ") {
		words, optional := strings.CutSuffix(s.Range, ", or empty")
		s.Values, s.Range = strings.Split(words, ", "), ""
		if optional {
			s.Values = append(s.Values, "")
		}
		return
	}
	m := plainRange.FindStringSubmatch(s.Range)
	if m == nil || s.Type != "integer" && s.Type != "number" {
		return
	}
	s.Min, s.Max = bound(m[1]), bound(m[2])
	if m[3] != "" {
		s.Values = []string{m[3]}
	}
}

// bound reads a number with commas; nil if it is too large.
func bound(text string) *int64 {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
