package config

import (
	"reflect"
	"slices"
)

// Changed returns the keys whose values are others in another configuration of the same program, in the
// order of docs/CONFIGURATION.md, and bizTypes last.
func (c *Config) Changed(other *Config) []string {
	changed := []string{}
	mine, theirs := c.everyKey(), other.everyKey()
	for i, k := range mine {
		if !reflect.DeepEqual(k.field.Interface(), theirs[i].field.Interface()) {
			changed = append(changed, k.Path)
		}
	}
	if !slices.Contains(changed, bizTypesKey) && !reflect.DeepEqual(c.definitions, other.definitions) {
		changed = append(changed, bizTypesKey)
	}
	return changed
}

// everyKey lists all keys, also those of the strategies' sections, with their present values.
func (c *Config) everyKey() []Key {
	keys := keysOf("", reflect.ValueOf(c).Elem())
	for _, s := range c.sections() {
		keys = append(keys, keysOf(s.factory.Name+".", reflect.ValueOf(s.settings).Elem())...)
	}
	return keys
}
