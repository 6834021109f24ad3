// Package openapi holds the description of the HTTP API: an OpenAPI 3.1 document, openapi.yaml,
// which [Load] returns as JSON and as an HTML page. Package httpapi implements the API; tests
// compare the two. To describe a new route, edit openapi.yaml.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var source []byte

// Document is the description in the forms in which it is served. Do not modify it.
type Document struct {
	// JSON is the document itself.
	JSON []byte
	// Page is an HTML page made from it. It needs no scripts and no other files.
	Page []byte
	// Policy is the Content-Security-Policy of the page. It allows the page's own style, by hash,
	// and nothing else.
	Policy string
}

// Load returns the document. It converts it once per process.
var Load = sync.OnceValues(func() (*Document, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(source, &root); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	content, err := toJSON(&root)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	var d description
	if err := root.Decode(&d); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	page, err := render(d)
	if err != nil {
		return nil, fmt.Errorf("the page of openapi.yaml: %w", err)
	}
	return &Document{JSON: append(content, '\n'), Page: page, Policy: policy}, nil
})

// toJSON converts a YAML document to JSON. It keeps the order of keys, which is made for readers.
func toJSON(root *yaml.Node) ([]byte, error) {
	var buf bytes.Buffer
	if err := appendNode(&buf, root); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

func appendNode(buf *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return appendNode(buf, n.Content[0])
	case yaml.MappingNode:
		return appendMapping(buf, n)
	case yaml.SequenceNode:
		return appendSequence(buf, n)
	case yaml.ScalarNode:
		return appendScalar(buf, n)
	}
	return fmt.Errorf("line %d: only mappings, lists and scalars are allowed", n.Line)
}

func appendMapping(buf *bytes.Buffer, n *yaml.Node) error {
	buf.WriteByte('{')
	seen := make(map[string]bool)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			return fmt.Errorf("line %d: %s appears twice", key.Line, key.Value)
		}
		seen[key.Value] = true
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := appendValue(buf, key.Value); err != nil {
			return err
		}
		buf.WriteByte(':')
		if err := appendNode(buf, n.Content[i+1]); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

func appendSequence(buf *bytes.Buffer, n *yaml.Node) error {
	buf.WriteByte('[')
	for i, item := range n.Content {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := appendNode(buf, item); err != nil {
			return err
		}
	}
	buf.WriteByte(']')
	return nil
}

func appendScalar(buf *bytes.Buffer, n *yaml.Node) error {
	if n.Tag == "!!timestamp" { // a date in an example is a string
		return appendValue(buf, n.Value)
	}
	var v any
	if err := n.Decode(&v); err != nil {
		return err
	}
	return appendValue(buf, v)
}

func appendValue(buf *bytes.Buffer, v any) error {
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - len("\n"))
	return nil
}
