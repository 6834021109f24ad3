package openapi

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// description is the part of the document that the page shows.
type description struct {
	Info struct {
		Title, Summary, Description, Version string
	}
	Tags       []tag
	Paths      ordered[item]
	Components struct {
		Parameters map[string]parameter
		Headers    map[string]header
		Responses  map[string]response
		Schemas    ordered[schema]
	}
}

type tag struct{ Name, Description string }

// ordered is a mapping that keeps the order of its keys.
type ordered[T any] []pair[T]

type pair[T any] struct {
	Name  string
	Value T
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (o *ordered[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: not a mapping", n.Line)
	}
	for i := 0; i < len(n.Content); i += 2 {
		e := pair[T]{Name: n.Content[i].Value}
		if err := n.Content[i+1].Decode(&e.Value); err != nil {
			return err
		}
		*o = append(*o, e)
	}
	return nil
}

// item is what a path offers.
type item struct {
	Parameters []parameter
	Get        *operation
	Head       *operation
	Put        *operation
	Post       *operation
	Patch      *operation
	Delete     *operation
}

type operation struct {
	OperationID string `yaml:"operationId"`
	Tags        []string
	Summary     string
	Description string
	Scope       string `yaml:"x-scope"`
	Curl        string `yaml:"x-curl"`
	Parameters  []parameter
	RequestBody *struct{ Content ordered[media] } `yaml:"requestBody"`
	Responses   ordered[response]
}

type parameter struct {
	Ref         string `yaml:"$ref"`
	Name, In    string
	Required    bool
	Description string
	Schema      schema
}

type header struct {
	Ref         string `yaml:"$ref"`
	Description string
	Schema      schema
}

type response struct {
	Ref         string `yaml:"$ref"`
	Description string
	Codes       []string `yaml:"x-codes"`
	Headers     ordered[header]
	Content     ordered[media]
}

type media struct{ Schema schema }

type schema struct {
	Ref         string `yaml:"$ref"`
	Type        yaml.Node
	Description string
	Format      string
	Pattern     string
	Enum        []string
	Const       yaml.Node
	Default     yaml.Node
	Example     yaml.Node
	Minimum     *int64
	Maximum     *int64
	MaxLength   *int64 `yaml:"maxLength"`
	Items       *schema
	Required    []string
	Properties  ordered[schema]
	Values      yaml.Node `yaml:"additionalProperties"`
}

// name returns the last part of a reference, "" if the reference is empty.
func name(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
