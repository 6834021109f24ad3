package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// The values of bizTypesFrom.
const (
	FromStore  = "store"
	FromConfig = "config"
)

// hidden is what the value of a secret setting reads as.
const hidden = "(secret)"

// definitionPath precedes the keys of a definition while it is decoded.
const definitionPath = "definition"

// Definition returns what the configuration says of a biz type, as a JSON object without its name.
// ok is false for a biz type that is in neither a file nor the environment.
func (c *Config) Definition(name string) (text []byte, ok bool) {
	d, ok := c.definitions[name]
	return []byte(d), ok
}

// definition is a JSON object that may hold secrets; printing it does not show them.
type definition string

// String implements [fmt.Stringer].
func (definition) String() string { return "(definition)" }

// defaults are what the section of a strategy says.
type defaults struct {
	strategy string
	settings any
	rejected []seqd.RejectedBinding
}

// sections returns the sections as they were configured, without their keys: they were checked.
func (c *Config) sections() []section {
	list := keyless()
	for i := range list {
		for _, d := range c.defaults {
			if d.strategy == list[i].factory.Name {
				list[i].settings, list[i].rejected = d.settings, d.rejected
			}
		}
	}
	return list
}

// DecodeDefinition reads the definition of a biz type, a JSON object as an item of bizTypes is. A
// key that it leaves out has the default of its strategy's section. It returns every problem, and
// opens nothing.
func (c *Config) DecodeDefinition(name string, text []byte) (seqd.BizType, []seqd.Problem) {
	l := &loader{}
	var b seqd.BizType
	tree, err := object(text)
	if err != nil {
		return b, []seqd.Problem{{Text: err.Error()}}
	}
	tree = l.once(definitionPath+".", tree)
	if given, ok := takeKey(tree, "name"); ok {
		text, isText := given.(string)
		if !isText {
			l.check(false, definitionPath+".name", "%v", wrongType("text", given))
		} else {
			l.check(text == name, definitionPath+".name", "it is %.100q, and the biz type is called %q", text, name)
		}
	}
	tree["name"] = name
	b = l.bizType(definitionPath, tree, c.sections())
	if len(l.problems) == 0 {
		c.validateBizType(&l.problems, definitionPath, b)
	}
	for i := range l.problems {
		l.problems[i].Key = strings.TrimPrefix(strings.TrimPrefix(l.problems[i].Key, definitionPath), ".")
	}
	return b, l.problems
}

// object reads one JSON object without keys that appear twice.
func object(text []byte) (map[string]any, error) {
	value, err := literal.JSON(text)
	tree, ok := value.(map[string]any)
	if errors.Is(err, literal.ErrNotJSON) || err == nil && !ok {
		return nil, errNoObject
	}
	return tree, err
}

var errNoObject = errors.New("it is not one JSON object")

// Hide returns a definition with (secret) in place of every secret.
func (c *Config) Hide(text []byte) ([]byte, error) {
	tree, err := object(text)
	if err != nil {
		return nil, err
	}
	eachSecret(tree, func(_ string, section map[string]any, key string) { section[key] = hidden })
	return json.Marshal(tree)
}

// Reveal returns a definition in which every secret that reads (secret) has the value from the same
// place in before. A secret that has none there is an error with its path.
func (c *Config) Reveal(text, before []byte) ([]byte, error) {
	tree, err := object(text)
	if err != nil {
		return nil, err
	}
	known, unclear := make(map[string]any), make(map[string]bool)
	if len(before) > 0 {
		old, err := object(before)
		if err != nil {
			return nil, err
		}
		eachSecret(old, func(path string, section map[string]any, key string) {
			known[path], section[key] = section[key], hidden
		})
		unclear = lookAlikes(tree, old)
	}
	var missing []string
	eachSecret(tree, func(path string, section map[string]any, key string) {
		if section[key] != hidden {
			return
		}
		value, ok := known[path]
		if item, _, _ := strings.Cut(path, ")."); !ok || unclear[item+")."] {
			missing = append(missing, path)
		}
		section[key] = value
	})
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s reads %s, which means the stored value; but none is stored at this place, or it could be that of another item of the same name: "+
			"give the value", strings.Join(missing, ", "), hidden)
	}
	return json.Marshal(tree)
}

// lookAlikes returns the paths of the items that may not be the same items as in before, which is
// given without its secrets: those that share their name with others, unless there are as many as
// in before and this one is unchanged.
func lookAlikes(tree, before map[string]any) map[string]bool {
	unclear := make(map[string]bool)
	for _, list := range []string{pluginsKey, rejectedKey} {
		shown, counts, countsNow := make(map[string]string), make(map[string]int), make(map[string]int)
		eachItem(before, list, func(path, name string, item map[string]any) {
			text, _ := json.Marshal(item)
			shown[path] = string(text)
			counts[name]++
		})
		eachItem(tree, list, func(_, name string, _ map[string]any) { countsNow[name]++ })
		eachItem(tree, list, func(path, name string, item map[string]any) {
			text, _ := json.Marshal(item)
			several := counts[name] > 1 || countsNow[name] > 1
			unclear[path] = several && (counts[name] != countsNow[name] || string(text) != shown[path])
		})
	}
	return unclear
}

// eachSecret calls f with every secret in a definition: its path, its section and its key there.
func eachSecret(tree map[string]any, f func(path string, section map[string]any, key string)) {
	name, _ := anyCase(tree, "strategy").(string)
	if name == "" {
		name = defaultStrategy
	}
	if factory, err := strategy.Lookup(name); err == nil {
		secretsOf("", tree, factory.Settings(), f)
	}
	eachItem(tree, pluginsKey, func(path, name string, item map[string]any) {
		if factory, err := plugin.Lookup(name); err == nil {
			secretsOf(path, item, factory.Settings(), f)
		} else {
			allOf(path, item, f)
		}
	})
	eachItem(tree, rejectedKey, func(path, name string, item map[string]any) {
		if factory, err := plugin.LookupRejected(name); err == nil {
			secretsOf(path, item, factory.Settings(), f)
		} else {
			allOf(path, item, f)
		}
	})
}

// eachItem calls f with the sections of a list that have a name.
func eachItem(tree map[string]any, list string, f func(path, name string, item map[string]any)) {
	items, _ := anyCase(tree, list).([]any)
	for i, raw := range items {
		if item, ok := raw.(map[string]any); ok {
			name, _ := anyCase(item, "name").(string)
			f(fmt.Sprintf("%s[%d](%s).", list, i, name), name, item)
		}
	}
}

// allOf calls f with everything except the name in the section of something that this program does
// not have, such as a plugin of a newer one: any of it can be secret.
func allOf(path string, item map[string]any, f func(path string, section map[string]any, key string)) {
	for _, key := range sortedKeys(item) {
		if !strings.EqualFold(key, "name") {
			f(path+key, item, key)
		}
	}
}

// secretsOf calls f with the secrets in a section that is decoded into settings.
func secretsOf(path string, section map[string]any, settings any, f func(path string, section map[string]any, key string)) {
	for _, k := range keysOf("", reflect.ValueOf(settings).Elem()) {
		if !k.secret {
			continue
		}
		within, name := section, k.Path
		if outer, inner, nested := strings.Cut(k.Path, "."); nested {
			within, _ = anyCase(section, outer).(map[string]any)
			name = inner
		}
		for _, key := range sortedKeys(within) {
			if strings.EqualFold(key, name) {
				f(path+k.Path, within, key)
			}
		}
	}
}

// anyCase returns the value of a key in any case.
func anyCase(tree map[string]any, name string) any {
	for key, value := range tree {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

// keepDefinitions keeps what the list of biz types says, for [Config.Definition].
func (l *loader) keepDefinitions(c *Config) {
	c.definitions = make(map[string]definition, len(c.BizTypes))
	items, _ := l.bizTypes.([]any)
	for i, b := range c.BizTypes {
		item, _ := items[i].(map[string]any)
		tree := make(map[string]any, len(item))
		for key, value := range item {
			if !strings.EqualFold(key, "name") {
				tree[key] = value
			}
		}
		text, err := json.Marshal(tree)
		if err != nil {
			l.add(bizTypePath(i), fmt.Errorf("it cannot be written as JSON: %w", err))
			continue
		}
		c.definitions[b.Name] = definition(text)
	}
}
