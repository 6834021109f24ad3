// Command configdoc writes docs/CONFIGURATION.md from the settings of the configuration. The
// description of a key is the comment of its field; its range, unit and the meaning of zero are
// tags. Run it in the root of the module:
//
//	go run ./internal/configdoc >docs/CONFIGURATION.md
//
// With the argument help it writes the comments of the settings of strategies, plugins and
// rejection handlers, for GET /settings:
//
//	go run ./internal/configdoc help >server/config/help.json
package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

const module = "github.com/seqd/seqd"

// head is the part of the document before the tables.
//
//go:embed head.md
var head string

// tail is the part of the document after the tables.
//
//go:embed tail.md
var tail string

func main() {
	write := document
	if slices.Equal(os.Args[1:], []string{"help"}) {
		write = helpTexts
	}
	text, err := write(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "configdoc:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// document returns the document. root is the folder of the module.
func document(root string) (string, error) {
	comments := comments{root: root, ofType: make(map[string]map[string]string)}
	var b strings.Builder
	b.WriteString(head)
	section := ""
	for _, k := range config.Keys() {
		meaning, err := comments.of(k)
		if err != nil {
			return "", err
		}
		if s := sectionOf(k.Path); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s\n\n| key | default | range | environment | applies | meaning |\n|---|---|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | `%s` | %s | %s |\n", k.Path, k.Text(), rangeOf(k), k.Env(), appliesOf(k), meaning+zeroOf(k))
	}
	b.WriteString("\n" + tail)
	return b.String(), nil
}

// sectionOf returns the heading of a key.
func sectionOf(path string) string {
	section, _, nested := strings.Cut(path, ".")
	if !nested {
		return "Top level"
	}
	return section
}

// rangeOf returns the allowed values of a key, with their unit.
func rangeOf(k config.Key) string {
	text := k.Field.Tag.Get("range")
	switch {
	case text == "" && k.Field.Type.Kind() == reflect.Bool:
		return "`false`, `true`"
	case text == "" && k.Field.Type.Kind() == reflect.Slice:
		return "a list of text"
	case text == "":
		return "text"
	case k.Field.Type.Kind() == reflect.String && !strings.Contains(text, " to "):
		return "`" + strings.ReplaceAll(text, ", ", "`, `") + "`"
	}
	if unit := k.Field.Tag.Get("unit"); unit != "" {
		text += " " + unit
	}
	return text
}

// appliesOf says when a change of a key counts.
func appliesOf(k config.Key) string {
	switch k.Applies() {
	case "":
		return "restart"
	case "contents":
		return "restart, contents live"
	}
	return k.Applies()
}

// zeroOf returns the meaning of zero, "" if it has no special meaning.
func zeroOf(k config.Key) string {
	text := k.Field.Tag.Get("zero")
	if text == "" {
		return ""
	}
	zero := "0"
	if k.Field.Type == reflect.TypeFor[time.Duration]() {
		zero = "0s"
	}
	return fmt.Sprintf(" `%s`: %s.", zero, text)
}

// comments finds the comments of fields in source files.
type comments struct {
	root   string
	ofType map[string]map[string]string // by package and type, then by field
}

// of returns the comment of a key's field, without the name of the field.
func (c *comments) of(k config.Key) (string, error) {
	owner := k.Owner.PkgPath() + "." + k.Owner.Name()
	if c.ofType[owner] == nil {
		if err := c.parse(k.Owner.PkgPath()); err != nil {
			return "", err
		}
	}
	text := strings.Join(strings.Fields(c.ofType[owner][k.Field.Name]), " ")
	meaning, named := strings.CutPrefix(text, k.Field.Name+" ")
	if !named {
		return "", fmt.Errorf("%s: the comment of %s.%s does not begin with its name", k.Path, owner, k.Field.Name)
	}
	for _, verb := range []string{"is ", "are "} {
		meaning = strings.TrimPrefix(meaning, verb)
	}
	if strings.Contains(meaning, "|") {
		return "", fmt.Errorf("%s: its comment has a |, which would end a cell", k.Path)
	}
	return strings.ToUpper(meaning[:1]) + meaning[1:], nil
}

// parse reads the structs of a package of this module.
func (c *comments) parse(pkg string) error {
	folder, ours := strings.CutPrefix(pkg, module)
	if !ours {
		return fmt.Errorf("%s is not in %s", pkg, module)
	}
	files, err := filepath.Glob(filepath.Join(c.root, folder, "*.go"))
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				c.add(pkg+"."+spec.Name.Name, spec)
			}
			return true
		})
	}
	return nil
}

func (c *comments) add(name string, spec *ast.TypeSpec) {
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	c.ofType[name] = make(map[string]string)
	for _, field := range body.Fields.List {
		for _, id := range field.Names {
			c.ofType[name][id.Name] = field.Doc.Text()
		}
	}
}
