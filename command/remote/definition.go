package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd/command/clitool"
	"github.com/seqd/seqd/internal/literal"
)

// largestDefinition is how many bytes of a definition are read: more than a service takes.
const largestDefinition = 1 << 20

// readDefinition returns the JSON of a definition or patch from a file, or from the standard input
// if the name is - or missing.
func readDefinition(env *clitool.Env, args []string) ([]byte, error) {
	name, from := "standard input", env.In
	switch {
	case len(args) > 0 && args[0] != "-":
		file, err := os.Open(args[0])
		if err != nil {
			return nil, clitool.AsUsage(err)
		}
		defer file.Close()
		name, from = args[0], file
	case len(args) == 0 && env.Terminal(env.In):
		return nil, clitool.Usage("a FILE is needed, or a definition on standard input")
	}
	text, err := io.ReadAll(io.LimitReader(from, largestDefinition+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(text) > largestDefinition:
		return nil, clitool.Usage("%s is larger than %d bytes: it is not a definition", name, largestDefinition)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, clitool.Usage("%s is empty: want a definition in YAML or JSON, such as {start: 1000}", name)
	}
	if text, err = toJSON(text); err != nil {
		return nil, clitool.Usage("%s: %w", name, err)
	}
	return text, nil
}

// toJSON returns a YAML or JSON document, which must be a section, as JSON. JSON stays as it is.
func toJSON(text []byte) ([]byte, error) {
	if json.Valid(text) && bytes.TrimSpace(text)[0] == '{' {
		return text, nil
	}
	text, err := literal.YAML(text)
	if err == nil && (len(text) == 0 || text[0] != '{') {
		err = errors.New("it is not a section with keys, such as {start: 1000}")
	}
	return text, err
}

// toYAML returns a JSON object as YAML, with its keys in the same order.
func toYAML(text []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(escaped(text), &doc); err != nil {
		return "", err
	}
	if len(doc.Content) == 1 && len(doc.Content[0].Content) == 0 {
		return "{}\n", nil
	}
	unstyle(&doc)
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	err := encoder.Encode(&doc)
	return b.String(), err
}

// escaped returns JSON with escapes for characters that a string in YAML cannot contain, or that end
// a line there.
func escaped(text []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(text) {
		if r > '~' && r <= 0xffff && !unicode.IsPrint(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// unstyle lets the encoder choose how a node is written: JSON has quotes and braces everywhere.
func unstyle(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.SequenceNode && flat(n) {
		n.Style = yaml.FlowStyle
	}
	for _, inner := range n.Content {
		unstyle(inner)
	}
}

// flat reports whether a list has only scalars.
func flat(n *yaml.Node) bool {
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return false
		}
	}
	return true
}

// patchOf returns the JSON of a patch given as KEY=VALUE, with dots for keys in sections. Values are
// YAML.
func patchOf(settings []string) ([]byte, error) {
	patch := make(map[string]any)
	for _, setting := range settings {
		path, text, found := strings.Cut(setting, "=")
		if !found || path == "" {
			return nil, clitool.Usage("--set %s: want KEY=VALUE, such as --set step=5000", strconv.Quote(setting))
		}
		value, err := valueOf(text)
		if err != nil {
			return nil, clitool.Usage("--set %s: %w", path, err)
		}
		if !put(patch, strings.Split(path, "."), value) {
			return nil, clitool.Usage("--set %s: it is set twice, or is a section and a value", path)
		}
	}
	return json.Marshal(patch)
}

// valueOf returns the JSON of a value in YAML. Nothing is text without characters.
func valueOf(text string) (json.RawMessage, error) {
	value, err := literal.YAML([]byte(text))
	if err == nil && value == nil {
		return json.RawMessage(`""`), nil
	}
	return value, err
}

// put sets the value at a path of nested sections. It returns false if there is one already.
func put(section map[string]any, path []string, value any) bool {
	last := len(path) - 1
	for _, name := range path[:last] {
		if section[name] == nil {
			section[name] = make(map[string]any)
		}
		inner, ok := section[name].(map[string]any)
		if !ok {
			return false
		}
		section = inner
	}
	_, there := section[path[last]]
	section[path[last]] = value
	return !there
}
