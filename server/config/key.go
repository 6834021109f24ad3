package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/strategy"
)

// envPrefix begins the name of every environment variable that is read.
const envPrefix = "SEQD_"

// testPrefix begins variables that belong to the tests.
const testPrefix = envPrefix + "TEST_"

// clientPrefix begins variables that belong to commands which talk to a running service, such as
// SEQD_CLIENT_ADDR. They are no part of the configuration.
const clientPrefix = envPrefix + "CLIENT_"

// bizTypesKey is the one key of the outermost section that holds a list of sections.
const bizTypesKey = "bizTypes"

// defaultStrategy is that of a biz type that names none.
const defaultStrategy = "segment"

// tokensKey is the list of tokens.
const tokensKey = "auth.tokens"

// pluginsKey is the list of bindings inside a biz type.
const pluginsKey = "plugins"

// rejectedKey is the list of rejection handlers inside a biz type or the section of a strategy.
const rejectedKey = "rejected"

// Key is one setting.
type Key struct {
	// Path is its name, such as server.maxCount.
	Path string
	// Default is its value when nothing sets it.
	Default any
	// Owner is the struct that Field, the field that holds the value, belongs to. Together with the
	// comment of the field, the tags range, unit and zero are what docs/CONFIGURATION.md says.
	Owner reflect.Type
	Field reflect.StructField

	field  reflect.Value
	secret bool // no message may show its value
}

// assign sets field, which is of the key's type, to raw, a value as a configuration file gives it.
func (k Key) assign(field reflect.Value, raw any) error {
	err := assign(field, raw)
	if err == nil || !k.secret {
		return err
	}
	want := "text; put it between quotes"
	if field.Kind() == reflect.Slice {
		want = "a list of text"
	}
	return fmt.Errorf("its value, which is not shown, is not %s", want)
}

// Env is the environment variable that sets the key.
func (k Key) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// Text is the default as it is written in a configuration.
func (k Key) Text() string {
	switch v := k.Default.(type) {
	case time.Duration:
		return literal.ShortDuration(v)
	case []string:
		return "[" + strings.Join(v, ", ") + "]"
	case string:
		// which YAML would take for nothing or for a section
		if v == "" || strings.HasSuffix(v, ":") {
			return strconv.Quote(v)
		}
	}
	return fmt.Sprint(k.Default)
}

// Keys lists every key but bizTypes in the order of the documentation: those of the program, then
// those of each registered strategy.
func Keys() []Key {
	c := Default()
	return allKeys(&c, sections())
}

// allKeys lists the keys whose fields are in c and in the settings of the strategies.
func allKeys(c *Config, strategies []section) []Key {
	keys := keysOf("", reflect.ValueOf(c).Elem())
	at := slices.IndexFunc(keys, func(k Key) bool { return k.Path == "store.driver" })
	keys[at].Field.Tag = reflect.StructTag(`range:"` + strings.Join(driver.Names(), ", ") + `"`)
	for _, s := range strategies {
		keys = append(keys, s.keys...)
	}
	return keys
}

// section is the part of the configuration that holds the defaults of one strategy.
type section struct {
	factory  strategy.Factory
	settings any // pointer to the struct the keys point into
	keys     []Key
	rejected []seqd.RejectedBinding
}

// sections returns that of each registered strategy, with the defaults that the strategy has.
func sections() []section {
	list := keyless()
	for i, s := range list {
		list[i].keys = keysOf(s.factory.Name+".", reflect.ValueOf(s.settings).Elem())
	}
	return list
}

// keyless is sections without the keys: listing those is most of the work.
func keyless() []section {
	var list []section
	for _, name := range strategy.Names() {
		factory, err := strategy.Lookup(name)
		if err != nil {
			continue
		}
		list = append(list, section{factory: factory, settings: factory.Settings()})
	}
	return list
}

// keysOf lists the fields of a struct that carry a config tag, nested structs with a dot between.
// The fields of an embedded struct are listed as those of the outer one. A map holds the sections
// of the drivers.
func keysOf(prefix string, v reflect.Value) []Key {
	var keys []Key
	for i := range v.NumField() {
		info, field := v.Type().Field(i), v.Field(i)
		name := info.Tag.Get("config")
		switch {
		case info.Anonymous:
			keys = append(keys, keysOf(prefix, field)...)
		case name == "":
		case field.Kind() == reflect.Map:
			sections := field.Interface().(map[string]driver.Settings)
			for _, name := range slices.Sorted(maps.Keys(sections)) {
				keys = append(keys, keysOf(prefix+name+".", reflect.ValueOf(sections[name]).Elem())...)
			}
		case field.Kind() == reflect.Struct:
			keys = append(keys, keysOf(prefix+name+".", field)...)
		default:
			keys = append(keys, Key{
				Path: prefix + name, Default: field.Interface(), Owner: v.Type(), Field: info,
				field: field, secret: info.Tag.Get("secret") == "true",
			})
		}
	}
	return keys
}
