package openapi

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed page.css
var style string

//go:embed page.html
var pageSource string

// policy allows the page's only style, by its hash.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// page is the data of the template.
type page struct {
	Title, Summary, Description string
	Style                       template.CSS
	Groups                      []group
	Schemas                     []shownSchema
	Statuses                    []status
}

// group is the routes of one tag.
type group struct {
	Name, Description string
	Routes            []route
}

// route is one method of one path. Head is true if HEAD works too.
type route struct {
	ID, Method, Path, Summary, Description, Scope, Curl string
	Head                                                bool
	Parameters                                          []parameter
	Body                                                []pair[schema]
	Good                                                []answer
	Bad                                                 []answer
}

// answer is one status of a route.
type answer struct {
	Status, Description string
	Headers             ordered[header]
	Content             []pair[schema]
	Codes               []string
	Ref                 string
}

// status is an error and what it means. Routes refer to it.
type status struct {
	Number, Description string
	Codes, Headers      []string
}

type shownSchema struct {
	Name   string
	Schema schema
	Fields []field
}

type field struct {
	Name     string
	Required bool
	Schema   schema
}

func render(d description) ([]byte, error) {
	p := page{Title: d.Info.Title, Summary: d.Info.Summary, Description: d.Info.Description, Style: template.CSS(style)}
	for _, t := range d.Tags {
		g := group{Name: t.Name, Description: t.Description}
		for _, path := range d.Paths {
			g.Routes = append(g.Routes, d.routes(path.Name, path.Value, t.Name)...)
		}
		p.Groups = append(p.Groups, g)
	}
	for _, s := range d.Components.Schemas {
		p.Schemas = append(p.Schemas, shownSchema{Name: s.Name, Schema: s.Value, Fields: fields(s.Value)})
	}
	p.Statuses = d.statuses()
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"prose": prose, "kind": kind, "limits": limits, "id": identifier, "lower": strings.ToLower, "in": where, "sample": sample, "values": values,
	}).Parse(pageSource)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	err = tmpl.Execute(&buf, p)
	return buf.Bytes(), err
}

// routes returns the methods of a path that have the tag.
func (d *description) routes(path string, i item, tag string) (routes []route) {
	for _, m := range []struct {
		method string
		op     *operation
	}{{"GET", i.Get}, {"POST", i.Post}, {"PUT", i.Put}, {"PATCH", i.Patch}, {"DELETE", i.Delete}} {
		if m.op == nil || !slices.Contains(m.op.Tags, tag) {
			continue
		}
		r := route{
			ID: m.op.OperationID, Method: m.method, Path: path, Summary: m.op.Summary, Description: m.op.Description, Scope: m.op.Scope, Curl: strings.TrimSpace(m.op.Curl),
			Head: m.method == "GET" && i.Head != nil,
		}
		for _, list := range [][]parameter{i.Parameters, m.op.Parameters} {
			for _, p := range list {
				r.Parameters = append(r.Parameters, d.parameter(p))
			}
		}
		if m.op.RequestBody != nil {
			r.Body = content(m.op.RequestBody.Content)
		}
		for _, e := range m.op.Responses {
			a := d.answer(e.Name, e.Value)
			if e.Name < "400" {
				r.Good = append(r.Good, a)
			} else {
				r.Bad = append(r.Bad, a)
			}
		}
		routes = append(routes, r)
	}
	return routes
}

func (d *description) parameter(p parameter) parameter {
	if p.Ref != "" {
		return d.Components.Parameters[name(p.Ref)]
	}
	return p
}

func (d *description) answer(number string, r response) answer {
	a := answer{Status: number, Ref: name(r.Ref)}
	if r.Ref != "" {
		r = d.Components.Responses[a.Ref]
	}
	a.Description, a.Content, a.Codes = r.Description, content(r.Content), r.Codes
	for _, h := range r.Headers {
		if h.Name == "X-Request-Id" || h.Name == "Cache-Control" { // the introduction describes them
			continue
		}
		if h.Value.Ref != "" {
			h.Value = d.Components.Headers[name(h.Value.Ref)]
		}
		a.Headers = append(a.Headers, h)
	}
	return a
}

// content returns media types with their schemas.
func content(list ordered[media]) (shown []pair[schema]) {
	for _, m := range list {
		shown = append(shown, pair[schema]{m.Name, m.Value.Schema})
	}
	return shown
}

// statuses returns the errors that routes share.
func (d *description) statuses() (list []status) {
	seen := make(map[string]bool)
	for _, path := range d.Paths {
		for _, op := range []*operation{path.Value.Get, path.Value.Post, path.Value.Put, path.Value.Patch, path.Value.Delete} {
			if op == nil {
				continue
			}
			for _, e := range op.Responses {
				a := d.answer(e.Name, e.Value)
				if e.Name < "400" || seen[a.Ref] || len(a.Codes) == 0 {
					continue
				}
				seen[a.Ref] = true
				s := status{Number: e.Name, Description: a.Description, Codes: a.Codes}
				for _, h := range a.Headers {
					s.Headers = append(s.Headers, h.Name)
				}
				list = append(list, s)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b status) int { return strings.Compare(a.Number, b.Number) })
	return list
}

func fields(s schema) (list []field) {
	for _, p := range s.Properties {
		list = append(list, field{Name: p.Name, Required: slices.Contains(s.Required, p.Name), Schema: p.Value})
	}
	return list
}

// kind describes the values of a schema, such as "list of BizType", with links.
func kind(s schema) template.HTML {
	text := template.HTMLEscapeString
	switch {
	case s.Ref != "":
		return template.HTML(`<a href="#schema-` + text(name(s.Ref)) + `">` + text(name(s.Ref)) + `</a>`)
	case s.Items != nil:
		return "list of " + kind(*s.Items)
	case s.Values.Kind == yaml.MappingNode:
		var values schema
		if err := s.Values.Decode(&values); err == nil {
			return "object of " + kind(values)
		}
	}
	var types []string
	switch s.Type.Kind {
	case yaml.ScalarNode:
		types = []string{s.Type.Value}
	case yaml.SequenceNode:
		for _, t := range s.Type.Content {
			types = append(types, t.Value)
		}
	default:
		types = []string{"anything"}
	}
	shown := strings.Join(types, " or ")
	if s.Format == "date-time" {
		shown += ", a time"
	}
	return template.HTML(text(shown))
}

// limits describes the other conditions on a value.
func limits(s schema) (list []string) {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		list = append(list, strconv.FormatInt(*s.Minimum, 10)+" to "+strconv.FormatInt(*s.Maximum, 10))
	case s.Minimum != nil:
		list = append(list, "at least "+strconv.FormatInt(*s.Minimum, 10))
	}
	if s.MaxLength != nil {
		list = append(list, fmt.Sprintf("at most %d characters", *s.MaxLength))
	}
	switch {
	case len(s.Enum) == 1:
		list = append(list, "always "+s.Enum[0])
	case len(s.Enum) > 1 && len(s.Enum) < manyValues:
		list = append(list, "one of "+strings.Join(s.Enum, ", "))
	}
	if s.Const.Kind == yaml.ScalarNode {
		list = append(list, "always "+s.Const.Value)
	}
	if s.Default.Kind == yaml.ScalarNode {
		list = append(list, "default "+s.Default.Value)
	}
	if s.Pattern != "" {
		list = append(list, "matches "+s.Pattern)
	}
	if s.Example.Kind != 0 && len(s.Properties) == 0 { // the example of an object has its own place
		if example, err := toJSON(&s.Example); err == nil {
			list = append(list, "such as "+string(example))
		}
	}
	return list
}

// manyValues is how many values of an enumeration do not fit into a line.
const manyValues = 10

// sample returns the example of an object as indented JSON, "" if it has none.
func sample(s schema) (string, error) {
	if s.Example.Kind == 0 || len(s.Properties) == 0 {
		return "", nil
	}
	example, err := toJSON(&s.Example)
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	err = json.Indent(&buf, example, "", "  ")
	return buf.String(), err
}

// values returns the values of an enumeration that has many.
func values(s schema) []string {
	if len(s.Enum) < manyValues {
		return nil
	}
	return s.Enum
}

// where returns where a parameter is given.
func where(p parameter) string {
	if p.Required {
		return p.In
	}
	return p.In + ", optional"
}

// identifier makes a name usable in the fragment of a link.
func identifier(s string) string { return strings.ReplaceAll(s, " ", "-") }

// prose converts a description to HTML paragraphs. Text between backticks is code.
func prose(s string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		b.WriteString("<p>")
		for i, part := range strings.Split(paragraph, "`") {
			if i%2 == 1 {
				b.WriteString("<code>" + template.HTMLEscapeString(part) + "</code>")
			} else {
				b.WriteString(template.HTMLEscapeString(part))
			}
		}
		b.WriteString("</p>")
	}
	return template.HTML(b.String())
}
