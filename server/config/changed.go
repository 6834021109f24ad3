package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist/driver"
)

// Change is what a node does with a configuration that it has read again.
type Change struct {
	// Now has the values with which the node works from then on: those that it was started with, and of
	// the keys that apply live those that it has read.
	Now *Config
	// Applied are the keys whose change counts from then on, and Restart those that need a restart, in
	// the order of docs/CONFIGURATION.md. A key whose value is the name of a file is among Applied if the
	// file has another content.
	Applied, Restart []string
}

// Applies says when a change of the key counts: "live" at a reload, "contents" at a restart, but if the
// contents of the file change, at once or at a reload, and "" at a restart.
func (k Key) Applies() string { return k.Field.Tag.Get("applies") }

// Reread compares a configuration that was read again with c, which the node was started with, and with
// the one that it read last.
func (c *Config) Reread(last, read *Config) Change {
	now := *c
	change := Change{Now: &now, Applied: []string{}, Restart: []string{}}
	started, before, after, mine := c.everyKey(), last.everyKey(), read.everyKey(), now.everyKey()
	for i, k := range started {
		was, is := before[i].field.Interface(), after[i].field.Interface()
		switch file := fileOf(started, k); {
		case k.Applies() == "live":
			mine[i].field.Set(after[i].field)
			change.note(k.Path, !reflect.DeepEqual(was, is), true)
		case file == nil || read.valueOf(file.Path) != file.field.Interface():
			change.note(k.Path, !reflect.DeepEqual(k.field.Interface(), is), false)
		case c.readsAgain(file, read):
			change.note(file.Path, !reflect.DeepEqual(was, is), true)
		default:
			change.note(file.Path, !reflect.DeepEqual(k.field.Interface(), is), false)
		}
	}
	change.tokens(c, last, read)
	for i, d := range c.defaults {
		change.note(rejectedAt(d.strategy), !reflect.DeepEqual(d.rejected, read.defaults[i].rejected), false)
	}
	change.note(bizTypesKey, !reflect.DeepEqual(c.definitions, read.definitions), false)
	return change
}

// note notes that a key has changed.
func (c *Change) note(path string, changed, live bool) {
	list := &c.Restart
	if live {
		list = &c.Applied
	}
	if changed && !slices.Contains(*list, path) {
		*list = append(*list, path)
	}
}

// tokens compares the tokens. They apply live if the node asks for tokens. Whether it does is decided at its
// start: one that asks goes on to ask, although no token is left.
func (c *Change) tokens(started, last, read *Config) {
	asked := started.Auth.Enforced()
	if asked {
		c.Now.Auth.Tokens = read.Auth.Tokens
		c.note(tokensKey, !reflect.DeepEqual(last.Auth.Tokens, read.Auth.Tokens), true)
	}
	c.note(tokensKey, !asked && !reflect.DeepEqual(started.Auth.Tokens, read.Auth.Tokens) || asked != read.Auth.Enforced() && started.Auth.Mode == read.Auth.Mode, false)
}

// fileOf returns the key of the file that a secret comes from, nil if it comes from none.
func fileOf(keys []Key, secret Key) *Key {
	i := slices.IndexFunc(keys, func(k Key) bool { return secret.secret && k.Path == secret.Path+"File" })
	if i < 0 || keys[i].field.String() == "" {
		return nil
	}
	return &keys[i]
}

// valueOf returns the value of a key.
func (c *Config) valueOf(path string) any {
	keys := c.everyKey()
	return keys[slices.IndexFunc(keys, func(k Key) bool { return k.Path == path })].field.Interface()
}

// readsAgain reports whether the node reads what has changed in the file of a secret without a restart.
func (c *Config) readsAgain(file *Key, read *Config) bool {
	if file.Applies() != "contents" || strings.HasPrefix(file.Path, "coordination.") && c.Coordination.Driver == CoordinateZooKeeper {
		return false
	}
	for name, settings := range c.Store.Settings {
		if login, has := settings.(driver.Login); has && strings.HasPrefix(file.Path, "store."+name+".") {
			return login.SameButLogin(read.Store.Settings[name])
		}
	}
	return true
}

// everyKey lists all keys, also those of the strategies' sections, with their present values.
func (c *Config) everyKey() []Key {
	keys := keysOf("", reflect.ValueOf(c).Elem())
	for _, s := range c.sections() {
		keys = append(keys, keysOf(s.factory.Name+".", reflect.ValueOf(s.settings).Elem())...)
	}
	return keys
}

// Version returns a text that is the same for configurations that say the same, and one that is the same
// if they say the same of what all nodes need alike. Neither tells anything of secrets, nor changes with
// them.
func (c *Config) Version() (all, alike string) {
	every, some := map[string]any{}, map[string]any{}
	for _, k := range c.everyKey() {
		if k.secret {
			continue
		}
		every[k.Path] = k.field.Interface()
		if k.Field.Tag.Get("nodes") == "same" {
			some[k.Path] = every[k.Path]
		}
	}
	every["store"] = c.Store.Place()
	for _, t := range c.Auth.Tokens {
		t.Secrets = nil
		every[tokensKey+" "+t.Name] = t
	}
	for _, d := range c.defaults {
		for i, r := range d.rejected {
			every[rejectedPath(d.strategy, i)] = r.Name
		}
	}
	for name, d := range c.definitions {
		text, _ := c.Hide([]byte(d)) // it was read
		every[bizTypesKey+" "+name] = string(text)
		if c.BizTypesFrom == FromConfig {
			some[bizTypesKey+" "+name] = string(text)
		}
	}
	return digest(every), digest(some)
}

// digest returns the beginning of a hash. The order of keys does not matter.
func digest(values map[string]any) string {
	text, _ := json.Marshal(values) // they are plain
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}
