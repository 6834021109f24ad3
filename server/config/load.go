package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/secretfile"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/strategy"
)

// Sources say where the configuration comes from, the weakest first.
type Sources struct {
	// File is a YAML or JSON file; "" for none.
	File string
	// Env are NAME=value pairs, as os.Environ returns them.
	Env []string
	// Flags are values by key, as they were typed.
	Flags map[string]string
}

// Load reads, merges and validates. It opens nothing but the file, and those of secrets. Its error
// names every key that is wrong.
func Load(src Sources) (*Config, error) {
	if src.File == "" {
		return load(nil, src)
	}
	if ext := filepath.Ext(src.File); !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
		return nil, fmt.Errorf("read configuration %s: the name must end in .yaml, .yml or .json", src.File)
	}
	text, err := readFile(src.File)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	read := decode
	if filepath.Ext(src.File) == ".json" {
		read = decodeJSON
	}
	tree, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", src.File, err)
	}
	return load(tree, src)
}

// largestFile is how many bytes a configuration may have. A node that issues reads it again: a wrong file
// must not take its memory.
const largestFile = 16 << 20

// readFile reads a file that is not larger than a configuration may be.
func readFile(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, largestFile+1))
	if err == nil && len(text) > largestFile {
		err = fmt.Errorf("%s has more than %d bytes: it is not a configuration of seqd", name, largestFile)
	}
	return text, err
}

// LoadYAML is Load with the text of a file instead of its name.
func LoadYAML(text []byte, src Sources) (*Config, error) {
	tree, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return load(tree, src)
}

// loader is one Load.
type loader struct {
	problems
	viper    *viper.Viper
	keys     []Key
	bizTypes any // the list as the strongest source gives it
	lists    []list
}

// list is a list of sections inside a section, as the strongest source gives it: tokens, or the
// rejection handlers of a strategy.
type list struct {
	path string
	raw  any
}

// listAt returns where the list with this path goes, or nil.
func (l *loader) listAt(path string) *any {
	for i := range l.lists {
		if strings.EqualFold(l.lists[i].path, path) {
			return &l.lists[i].raw
		}
	}
	return nil
}

func load(tree map[string]any, src Sources) (*Config, error) {
	c := Default()
	c.file = src.File
	strategies := sections()
	l := &loader{viper: viper.New(), keys: allKeys(&c, strategies), lists: []list{{path: tokensKey}}}
	for _, s := range strategies {
		l.lists = append(l.lists, list{path: rejectedAt(s.factory.Name)})
	}
	l.file(tree)
	l.environment(src.Env)
	l.flags(src.Flags)
	for _, k := range l.keys {
		if raw := l.viper.Get(k.Path); raw != nil && !l.has(k.Path) {
			l.add(k.Path, k.assign(k.field, raw))
		}
	}
	l.secretFiles()
	for i, s := range strategies {
		l.settings(s.factory.Name+".", s.settings)
		strategies[i].rejected = l.rejectedList(s.factory.Name, *l.listAt(rejectedAt(s.factory.Name)))
	}
	c.Auth.Tokens = l.tokens(*l.listAt(tokensKey))
	c.BizTypes = l.decodeBizTypes(strategies)
	for _, s := range strategies {
		c.defaults = append(c.defaults, defaults{s.factory.Name, s.settings, s.rejected})
	}
	c.reach = c.newReach()
	c.validate(&l.problems)
	l.missing(c.BizTypes)
	l.check(len(c.BizTypes) > 0 || l.viper.IsSet("bizTypesFrom"), bizTypesKey, noBizTypes)
	l.keepDefinitions(&c)
	if err := l.err(); err != nil {
		return nil, err
	}
	return &c, nil
}

// secretFiles reads the secrets that are in files of their own, such as that of redis.passwordFile.
func (l *loader) secretFiles() {
	for _, k := range l.keys {
		file, is := l.key(k.Path + "File")
		if !k.secret || !is || file.field.String() == "" {
			continue
		}
		if l.viper.Get(k.Path) != nil {
			l.check(false, file.Path, "%s is set too: leave one of them out", k.Path)
			continue
		}
		text, err := secretfile.Read(file.field.String())
		if err != nil {
			l.add(file.Path, err)
			continue
		}
		k.field.SetString(text)
	}
}

// missing reports what plugins will miss. Definitions of the store are not checked so: that would
// tell whoever sends them what there is.
func (l *loader) missing(bizTypes []seqd.BizType) {
	for i, b := range bizTypes {
		for j, binding := range b.Plugins {
			path := pluginPath(bizTypePath(i), j)
			if factory, err := plugin.Lookup(binding.Name); err == nil && factory.Missing != nil && !l.hasBelow(path) {
				_, err := factory.Missing(binding)
				l.add(path+"."+seqd.TraitsOf(binding.Settings).OutsideKey, err)
			}
		}
	}
}

// key finds a key by its path in any case.
func (l *loader) key(path string) (Key, bool) {
	i := slices.IndexFunc(l.keys, func(k Key) bool { return strings.EqualFold(k.Path, path) })
	if i < 0 {
		return Key{}, false
	}
	return l.keys[i], true
}

// environment applies the variables that begin with SEQD_. One that sets nothing is an error, and
// so is one that would set something in upper case.
func (l *loader) environment(env []string) {
	byName := make(map[string]Key, len(l.keys))
	for _, k := range l.keys {
		byName[k.Env()] = k
	}
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		source, meant := "environment variable "+name, strings.ToUpper(name)
		if _, known := byName[meant]; name != meant && (known || l.listOf(meant) != nil) {
			l.check(false, source, "it is called %s", meant)
			continue
		}
		if !strings.HasPrefix(name, envPrefix) || strings.HasPrefix(name, testPrefix) || strings.HasPrefix(name, clientPrefix) {
			continue
		}
		if list := l.listOf(name); list != nil {
			items, err := jsonList(text)
			l.add(source, err)
			*list = items
			continue
		}
		k, known := byName[name]
		l.check(known, source, "no key has this name")
		if known {
			l.set(k, source, text)
		}
	}
}

// listOf returns where the list goes that an environment variable gives as JSON, or nil if it gives
// none.
func (l *loader) listOf(env string) *any {
	if env == envPrefix+strings.ToUpper(bizTypesKey) {
		return &l.bizTypes
	}
	for i := range l.lists {
		if env == (Key{Path: l.lists[i].path}).Env() {
			return &l.lists[i].raw
		}
	}
	return nil
}

// flags applies values given by key on the command line.
func (l *loader) flags(flags map[string]string) {
	for path, text := range flags {
		k, known := l.key(path)
		l.check(known, "flag --"+path, "no key has this name")
		if known {
			l.set(k, "flag --"+path, text)
		}
	}
}

// set gives a key the value in text. It is checked here so that the message names its source.
func (l *loader) set(k Key, source, text string) {
	raw := fromText(k.field, text)
	err := k.assign(reflect.New(k.field.Type()).Elem(), raw)
	l.add(source, err)
	if err == nil {
		l.viper.Set(k.Path, raw)
	}
}

// decodeBizTypes decodes the list of biz types, each on top of the defaults of its strategy.
func (l *loader) decodeBizTypes(strategies []section) []seqd.BizType {
	items, ok := l.bizTypes.([]any)
	if !ok && l.bizTypes != nil {
		l.add(bizTypesKey, wrongKind("a list", l.bizTypes))
	}
	list := make([]seqd.BizType, 0, len(items))
	for i, item := range items {
		list = append(list, l.bizType(bizTypePath(i), item, strategies))
	}
	return list
}

func (l *loader) bizType(path string, raw any, strategies []section) seqd.BizType {
	values, ok := raw.(map[string]any)
	if !ok {
		l.add(path, wrongKind("a section with name, strategy and settings", raw))
		return seqd.BizType{}
	}
	b := seqd.BizType{Strategy: defaultStrategy}
	values = l.once(path+".", values)
	l.take(values, path, Key{Path: "strategy", field: reflect.ValueOf(&b.Strategy).Elem()})
	l.take(values, path, Key{Path: "name", field: reflect.ValueOf(&b.Name).Elem()})
	l.take(values, path, Key{Path: "events", field: reflect.ValueOf(&b.Events).Elem()})
	l.name(path, b.Name)
	at := slices.IndexFunc(strategies, func(s section) bool { return s.factory.Name == b.Strategy })
	if at < 0 {
		l.check(false, path+".strategy", "%q is not one of the strategies %q", b.Strategy, strategy.Names())
		return b
	}
	// A copy of the section's settings: what the biz type does not say stays as the section says.
	defaults := reflect.ValueOf(strategies[at].settings).Elem()
	settings := reflect.New(defaults.Type())
	settings.Elem().Set(defaults)
	before := len(l.problems)
	for _, k := range keysOf("", settings.Elem()) {
		l.take(values, path, k)
	}
	sectionWrong := slices.ContainsFunc(strategies[at].keys, func(k Key) bool { return l.has(k.Path) })
	if len(l.problems) == before && !sectionWrong { // else it would only say the same again
		l.settings(path+".", settings.Interface())
	}
	b.Plugins = l.plugins(path, values)
	b.Rejected = strategies[at].rejected
	if raw, ok := takeKey(values, rejectedKey); ok {
		l.check(raw != nil, rejectedAt(path), "it has no value; a list is needed")
		b.Rejected = l.rejectedList(path, raw)
	}
	l.rest(values, path, "the strategy "+b.Strategy)
	b.Settings = settings.Interface()
	if len(l.problems) == before && !sectionWrong {
		l.chain(path, b)
	}
	return b
}

// rejectedList decodes a list of rejection handlers.
func (l *loader) rejectedList(owner string, raw any) (bindings []seqd.RejectedBinding) {
	l.list(rejectedAt(owner), raw, func(i int, item any) {
		var b seqd.RejectedBinding
		path := rejectedPath(owner, i)
		values := l.named(path, item, &b.Name)
		if factory, err := plugin.LookupRejected(b.Name); values != nil && !l.wrong(path+".name", err) {
			b.Settings = factory.Settings()
			l.fill(values, path, "the rejection handler "+b.Name, b.Settings)
		}
		bindings = append(bindings, b)
	})
	return bindings
}

// list calls each with the items of a list; none for nil.
func (l *loader) list(path string, raw any, each func(i int, item any)) {
	items, ok := raw.([]any)
	if !ok && raw != nil {
		l.add(path, wrongKind("a list", raw))
	}
	for i, item := range items {
		each(i, item)
	}
}

// named takes the name out of a section and returns what else is in it, nil when it is none.
func (l *loader) named(path string, raw any, name *string) (values map[string]any) {
	values, ok := raw.(map[string]any)
	if !ok {
		l.add(path, wrongKind("a section with name and settings", raw))
		return nil
	}
	values = l.once(path+".", values)
	l.take(values, path, Key{Path: "name", field: reflect.ValueOf(name).Elem()})
	return values
}

// wrong notes an error, and reports whether there is one.
func (l *loader) wrong(path string, err error) bool {
	l.add(path, err)
	return err != nil
}

// fill decodes what is left of a section into settings, and checks them.
func (l *loader) fill(values map[string]any, path, owner string, settings any) {
	before := len(l.problems)
	keys := keysOf("", reflect.ValueOf(settings).Elem())
	l.flatten(values, path, keys)
	for _, k := range keys {
		l.take(values, path, k)
	}
	l.rest(values, path, owner)
	if len(l.problems) == before {
		l.settings(path+".", settings)
	}
}

// flatten moves the keys of a nested section, such as file: {path: x}, to their names with a dot.
func (l *loader) flatten(values map[string]any, path string, keys []Key) {
	for _, k := range keys {
		section, _, nested := strings.Cut(k.Path, ".")
		if !nested {
			continue
		}
		raw, ok := takeKey(values, section)
		if !ok {
			continue // or an earlier key of the section has taken it out
		}
		inner, ok := raw.(map[string]any)
		if !ok {
			l.add(path+"."+section, wrongKind("a section", raw))
		}
		for key, value := range l.once(path+"."+section+".", inner) {
			name := section + "." + key
			_, twice := takeKey(values, name)
			l.check(!twice, path+"."+name, "it appears twice, also with a dot")
			values[name] = value
		}
	}
}

// plugins takes the list of plugins out of a biz type.
func (l *loader) plugins(path string, values map[string]any) (bindings []seqd.PluginBinding) {
	raw, ok := takeKey(values, pluginsKey)
	if ok && raw == nil {
		l.add(path+"."+pluginsKey, wrongKind("a list", raw))
	}
	l.list(path+"."+pluginsKey, raw, func(i int, item any) {
		bindings = append(bindings, l.plugin(pluginPath(path, i), item))
	})
	return bindings
}

func (l *loader) plugin(path string, raw any) (b seqd.PluginBinding) {
	values := l.named(path, raw, &b.Name)
	factory, err := plugin.Lookup(b.Name)
	if values == nil || l.wrong(path+".name", err) {
		return b
	}
	b.Order = factory.Order
	l.take(values, path, Key{Path: "order", field: reflect.ValueOf(&b.Order).Elem()})
	b.Settings = factory.Settings()
	l.fill(values, path, "the plugin "+b.Name, b.Settings)
	return b
}

// rest reports the keys that are left in a section.
func (l *loader) rest(values map[string]any, path, owner string) {
	for _, key := range sortedKeys(values) {
		l.check(false, path+"."+key, "there is no such key for %s%s", owner, ofOthers(owner, key))
	}
}

// ofOthers says which other strategies have a key that the owner, a strategy, does not; "" if none
// has.
func ofOthers(owner, key string) string {
	if !strings.HasPrefix(owner, "the strategy ") {
		return ""
	}
	var have []string
	for _, s := range keyless() {
		for _, k := range keysOf("", reflect.ValueOf(s.settings).Elem()) {
			if strings.EqualFold(k.Path, key) {
				have = append(have, s.factory.Name)
			}
		}
	}
	if len(have) == 0 {
		return ""
	}
	return "; it belongs to the strategy " + strings.Join(have, " or ")
}

// takeKey removes a key in any case.
func takeKey(values map[string]any, name string) (raw any, ok bool) {
	for key, raw := range values {
		if strings.EqualFold(key, name) {
			delete(values, key)
			return raw, true
		}
	}
	return nil, false
}

// take moves one value out of a section of a list into its field.
func (l *loader) take(values map[string]any, path string, k Key) {
	if raw, ok := takeKey(values, k.Path); ok {
		l.add(path+"."+k.Path, k.assign(k.field, raw))
	}
}
