package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seqd/seqd/internal/literal"
)

// decode reads one YAML document. A key that appears twice in one spelling is an error here
// already.
func decode(text []byte) (map[string]any, error) {
	text, err := literal.YAML(text)
	if err != nil || text == nil {
		return nil, err
	}
	return decodeJSON(text)
}

// decodeJSON reads a section, or nothing.
func decodeJSON(text []byte) (map[string]any, error) {
	value, err := literal.JSON(text)
	if err != nil {
		return nil, err
	}
	tree, ok := value.(map[string]any)
	if !ok && value != nil {
		return nil, errors.New("it is not a section with keys, such as server: {addr: 127.0.0.1:8080}")
	}
	return tree, nil
}

// jsonList reads a JSON list.
func jsonList(text string) ([]any, error) {
	value, err := literal.JSON([]byte(text))
	list, ok := value.([]any)
	switch {
	case errors.Is(err, literal.ErrNotJSON), err == nil && !ok:
		return nil, errors.New("it is not a JSON list of sections")
	case err != nil:
		return nil, fmt.Errorf("it is not a JSON list of sections: %w", err)
	}
	return list, nil
}

// file checks the tree of a file against the known keys and passes its values to viper. viper takes
// keys in any case, splits them at dots and drops those without a value, and picks one at random if
// a key appears twice. So all of these are refused before viper sees them.
func (l *loader) file(tree map[string]any) {
	if values := l.section("", tree); len(values) > 0 {
		l.add("configuration", l.viper.MergeConfigMap(values))
	}
}

// section returns the good values of a section.
func (l *loader) section(prefix string, tree map[string]any) map[string]any {
	values := make(map[string]any)
	tree = l.once(prefix, tree)
	for _, name := range sortedKeys(tree) {
		path, raw := prefix+name, tree[name]
		inner, isSection := raw.(map[string]any)
		k, known := l.key(path)
		example, isPrefix := l.below(path)
		switch {
		case strings.Contains(name, "."):
			l.check(false, path, "a key has no dots: write it as a section in a section")
		case strings.EqualFold(path, bizTypesKey):
			l.check(raw != nil, bizTypesKey, "it has no value; a list is needed")
			l.bizTypes = raw
		case l.listAt(path) != nil:
			l.check(raw != nil, path, "it has no value; a list is needed")
			*l.listAt(path) = raw
		case known && isSection:
			l.check(false, k.Path, "%s is a value, not a section", k.Path)
		case known:
			l.check(raw != nil, k.Path, "it has no value: give it one, or remove the line to have the default")
			values[name] = raw
		case isPrefix && isSection:
			values[name] = l.section(path+".", inner)
		case isPrefix:
			l.check(false, path, "it is a section with keys of its own, such as %s, not a value", example)
		default:
			l.unknown(path, raw)
		}
	}
	return values
}

// below returns a key inside the section that path names.
func (l *loader) below(path string) (example string, ok bool) {
	prefix := strings.ToLower(path) + "."
	for _, k := range l.keys {
		if strings.HasPrefix(strings.ToLower(k.Path), prefix) {
			return k.Path, true
		}
	}
	return "", false
}

// unknown reports a key that does not exist, by its innermost names.
func (l *loader) unknown(path string, raw any) {
	inner, _ := raw.(map[string]any)
	for _, name := range sortedKeys(inner) {
		l.unknown(path+"."+name, inner[name])
	}
	l.check(len(inner) > 0, path, "there is no such key")
}

// once returns a copy without keys that appear twice in different case or are not ASCII, which are
// reported.
func (l *loader) once(prefix string, tree map[string]any) map[string]any {
	kept := make(map[string]any, len(tree))
	seen := make(map[string]string, len(tree))
	for _, name := range sortedKeys(tree) {
		if strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
			l.check(false, prefix+name, "there is no such key") // though ſ is an s in some comparisons
			continue
		}
		lower := strings.ToLower(name)
		if first, twice := seen[lower]; twice {
			l.check(false, prefix+name, "it appears twice, also as %s", first)
			continue
		}
		seen[lower] = name
		kept[name] = tree[name]
	}
	return kept
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
