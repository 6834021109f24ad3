package literal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how many lists and sections may contain each other: more than any setting has. Others
// that work on what was read may take the square of its depth.
const maxDepth = 32

// Bounds of what YAML may become, because an alias repeats what it stands for.
const (
	mostBytes = 16 << 20
	mostNodes = 1 << 20
)

// ErrNotJSON is returned by [JSON] for a text that is not one JSON value.
var ErrNotJSON = errors.New("it is not JSON")

// JSON reads one JSON value: a map[string]any, []any, string, [json.Number], bool or nil. Numbers
// stay as they are written. A key that appears twice is an error. It takes time in proportion to
// the text, and returns the first thing that is wrong.
func JSON(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrNotJSON) // the decoder would replace bytes
	}
	var skipped json.RawMessage
	if err := json.Unmarshal(text, &skipped); err != nil {
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("line %d: %w: %w", 1+bytes.Count(text[:at.Offset], []byte("\n")), ErrNotJSON, err)
		}
		return nil, ErrNotJSON
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return readValue(decoder, 0)
}

// readValue reads the next value, which is in depth lists and objects.
func readValue(from *json.Decoder, depth int) (any, error) {
	token, err := from.Token()
	if err != nil {
		return nil, err
	}
	delim, nested := token.(json.Delim)
	switch {
	case nested && depth == maxDepth:
		return nil, errDepth
	case nested && delim == '{':
		return readObject(from, depth+1)
	case nested:
		return readList(from, depth+1)
	}
	return token, nil
}

var errDepth = fmt.Errorf("it is nested more than %d deep", maxDepth)

func readObject(from *json.Decoder, depth int) (any, error) {
	tree := make(map[string]any)
	for from.More() {
		token, err := from.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if _, twice := tree[key]; twice {
			return nil, fmt.Errorf("the key %.100q appears twice", key)
		}
		if tree[key], err = readValue(from, depth); err != nil {
			return nil, err
		}
	}
	_, err := from.Token() // the end
	return tree, err
}

func readList(from *json.Decoder, depth int) (any, error) {
	list := []any{}
	for from.More() {
		value, err := readValue(from, depth)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := from.Token() // the end
	return list, err
}

// YAML returns a YAML document as JSON, nil if there is none. What looks like a number of JSON,
// true, false or nothing is that; every other scalar is text, also if YAML has another meaning for
// it: so 010, 0x10, 1_000, .inf, yes and 2027-01-31 are text, as in JSON. Its errors show no
// values, because any of them can be a secret.
func YAML(text []byte) ([]byte, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, quiet(err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	var w writer
	err := w.value(doc.Content[0], 0)
	return w.Bytes(), err
}

// quoted matches the places where an error of the YAML package shows values.
var quoted = regexp.MustCompile("(?s)( `.*`|(anchor) '.*'|(invalid map key): .*)")

// quiet removes values from an error of the YAML package.
func quiet(err error) error { return errors.New(quoted.ReplaceAllString(err.Error(), "$2$3")) }

// writer writes YAML as JSON.
type writer struct {
	bytes.Buffer
	nodes int // that were entered
}

// enter returns an error if a node, which is in depth others, is one too many.
func (w *writer) enter(n *yaml.Node, depth int) error {
	w.nodes++
	switch {
	case depth > maxDepth:
		return fmt.Errorf("line %d: %w", n.Line, errDepth)
	case w.nodes > mostNodes || w.Len() > mostBytes:
		return fmt.Errorf("line %d: it is too large with all aliases", n.Line)
	}
	return nil
}

// value writes a node that is in depth others.
func (w *writer) value(n *yaml.Node, depth int) error {
	if err := w.enter(n, depth); err != nil {
		return err
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return w.value(n.Alias, depth+1)
	case n.Style&yaml.TaggedStyle != 0 && n.ShortTag() != "!!str":
		return fmt.Errorf("line %d: no tag is supported but !!str", n.Line)
	case n.Kind == yaml.MappingNode:
		return w.object(n, depth)
	case n.Kind == yaml.SequenceNode:
		return w.list(n, depth)
	}
	return w.scalar(n)
}

func (w *writer) scalar(n *yaml.Node) error {
	plain := n.Style&(yaml.TaggedStyle|yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	_, isBool := Bool(n.Value)
	switch {
	case plain && n.ShortTag() == "!!null":
		w.WriteString("null")
	case plain && (isBool || isNumber(n.Value)):
		w.WriteString(n.Value)
	default:
		return w.text(n.Value)
	}
	return nil
}

// text writes a string, without the escapes for HTML.
func (w *writer) text(s string) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(s)
	w.Truncate(w.Len() - 1) // the end of the line
	return err
}

func (w *writer) list(n *yaml.Node, depth int) error {
	separator := byte('[')
	for _, item := range n.Content {
		w.WriteByte(separator)
		if err := w.value(item, depth+1); err != nil {
			return err
		}
		separator = ','
	}
	if separator == '[' {
		w.WriteByte('[')
	}
	return w.WriteByte(']')
}

func (w *writer) object(n *yaml.Node, depth int) error {
	pairs, err := w.pairsOf(n, depth)
	if err != nil {
		return err
	}
	w.WriteByte('{')
	for i, p := range pairs {
		if i > 0 {
			w.WriteByte(',')
		}
		if err := w.text(p.key); err != nil {
			return err
		}
		w.WriteByte(':')
		if err := w.value(p.value, depth+1); err != nil {
			return err
		}
	}
	return w.WriteByte('}')
}

type pair struct {
	key   string
	value *yaml.Node
}

// pairsOf returns the keys of a section, and then those that it has from others by the key <<.
func (w *writer) pairsOf(n *yaml.Node, depth int) (pairs []pair, err error) {
	var merged []pair
	seen := make(map[string]bool)
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			from, err := w.mergedOf(value, depth+1)
			if err != nil {
				return nil, err
			}
			merged = append(merged, from...)
			continue
		case key.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: a key must be text", key.Line)
		case seen[key.Value]:
			return nil, fmt.Errorf("line %d: the key %.100q appears twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		pairs = append(pairs, pair{key.Value, value})
	}
	for _, p := range merged {
		if !seen[p.key] {
			seen[p.key] = true
			pairs = append(pairs, p)
		}
	}
	return pairs, nil
}

// mergedOf returns the keys of a section, or of several, the first of which wins.
func (w *writer) mergedOf(n *yaml.Node, depth int) (pairs []pair, err error) {
	if err := w.enter(n, depth); err != nil {
		return nil, err
	}
	switch {
	case n.Kind == yaml.AliasNode:
		return w.mergedOf(n.Alias, depth+1)
	case n.Kind == yaml.MappingNode:
		return w.pairsOf(n, depth)
	case n.Kind != yaml.SequenceNode:
		return nil, fmt.Errorf("line %d: << needs a section", n.Line)
	}
	for _, item := range n.Content {
		from, err := w.mergedOf(item, depth+1)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, from...)
	}
	return pairs, nil
}
