package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Scope is a part of a page in which things are found.
type Scope struct {
	page *Page
	in   *Scope // nil for the whole page
	role string
	name string
	what string
}

// Element is something that a screen reader knows.
type Element struct {
	// Role is the role, and Name the accessible name.
	Role, Name string
	// Description is what aria-describedby says.
	Description string
	// Value is the value of a field.
	Value string
	// Properties has states such as disabled, expanded and invalid.
	Properties map[string]string
	id         cdp.BackendNodeID
}

// In returns the part of the scope that has a role and a name, such as a dialog or a row. It is
// found anew whenever it is used.
func (s *Scope) In(role, name string) *Scope {
	return &Scope{page: s.page, in: s, role: role, name: name, what: fmt.Sprintf("the %s %q in %s", role, name, s.what)}
}

// object returns the DOM object of the scope.
func (s *Scope) object() (runtime.RemoteObjectID, error) {
	if s.in != nil {
		e, err := s.in.one(s.role, s.name)
		if err != nil {
			return "", err
		}
		return s.page.resolve(e)
	}
	var found *runtime.RemoteObject
	err := s.page.try(chromedp.Evaluate("document", &found))
	if err != nil {
		return "", err
	}
	return found.ObjectID, nil
}

// resolve returns the DOM object of an element.
func (p *Page) resolve(e Element) (id runtime.RemoteObjectID, err error) {
	err = p.try(chromedp.ActionFunc(func(ctx context.Context) error {
		object, err := dom.ResolveNode().WithBackendNodeID(e.id).Do(ctx)
		if err != nil {
			return err
		}
		id = object.ObjectID
		return nil
	}))
	return id, err
}

// fits reports whether a name is that which is looked for; * stands for any characters, and "" for
// any name.
func fits(pattern, name string) bool {
	if pattern == "" || pattern == name {
		return true
	}
	if !strings.Contains(pattern, "*") {
		return false
	}
	// A slash ends what * matches in path.Match.
	plain := strings.NewReplacer("/", "\x00", `\`, `\\`, "[", `\[`, "?", `\?`)
	ok, _ := path.Match(plain.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return ok
}

// all returns what has one of some roles, separated by |, and a name. In names * stands for any
// characters.
func (s *Scope) all(roles, name string) ([]Element, error) {
	object, err := s.object()
	if err != nil {
		return nil, err
	}
	var found []Element
	for role := range strings.SplitSeq(roles, "|") {
		var nodes []node
		err := s.page.try(chromedp.ActionFunc(func(ctx context.Context) (err error) {
			nodes, err = nodesOf(ctx, accessibility.CommandQueryAXTree, accessibility.QueryAXTree().WithObjectID(object).WithRole(role))
			return err
		}))
		if err != nil {
			return nil, err
		}
		for _, n := range nodes {
			e := element(n)
			if !n.Ignored && fits(name, e.Name) {
				found = append(found, e)
			}
		}
	}
	return found, nil
}

// node is a node of the accessibility tree. The types of cdproto refuse what a newer browser adds.
type node struct {
	Ignored     bool  `json:"ignored"`
	Role        value `json:"role"`
	Name        value `json:"name"`
	Description value `json:"description"`
	Value       value `json:"value"`
	Properties  []struct {
		Name  string `json:"name"`
		Value value  `json:"value"`
	} `json:"properties"`
	BackendDOMNodeID cdp.BackendNodeID `json:"backendDOMNodeId"`
}

type value struct {
	Value any `json:"value"`
}

func (v value) String() string {
	if v.Value == nil {
		return ""
	}
	return fmt.Sprint(v.Value)
}

// nodesOf runs a command that returns nodes.
func nodesOf(ctx context.Context, command string, params any) ([]node, error) {
	var answer struct {
		Nodes []node `json:"nodes"`
	}
	err := cdp.Execute(ctx, command, params, &answer)
	return answer.Nodes, err
}

func element(n node) Element {
	e := Element{
		Role: n.Role.String(), Name: strings.Join(strings.Fields(n.Name.String()), " "), Description: n.Description.String(),
		Value: n.Value.String(), Properties: map[string]string{}, id: n.BackendDOMNodeID,
	}
	for _, p := range n.Properties {
		e.Properties[p.Name] = p.Value.String()
	}
	return e
}

// one returns the only element that has a role and a name.
func (s *Scope) one(roles, name string) (Element, error) {
	found, err := s.all(roles, name)
	switch {
	case err != nil:
		return Element{}, err
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Element{}, fmt.Errorf("%d elements are %s %q in %s", len(found), roles, name, s.what)
	}
	others, _ := s.all(roles, "")
	var names []string
	for _, e := range others {
		names = append(names, e.Name)
	}
	return Element{}, fmt.Errorf("nothing is %s %q in %s; there are %q", roles, name, s.what, names)
}

// fields are the roles of what a person fills in.
const fields = "textbox|searchbox|spinbutton|combobox|checkbox|switch|radio|listbox|slider"

// Find waits for the only element that has a role and a name. Roles may be alternatives, separated
// by |, and * in a name stands for any characters.
func (s *Scope) Find(roles, name string) Element {
	s.page.t.Helper()
	var e Element
	s.page.poll(fmt.Sprintf("%s %q", roles, name), func() (err error) {
		e, err = s.one(roles, name)
		return err
	})
	return e
}

// FindField waits for the only field that has a label.
func (s *Scope) FindField(label string) Element {
	s.page.t.Helper()
	return s.Find(fields, label)
}

// All returns all elements that have a role and a name now.
func (s *Scope) All(roles, name string) []Element {
	s.page.t.Helper()
	found, err := s.all(roles, name)
	if err != nil {
		s.page.fatalf("look for %s %q: %v", roles, name, err)
	}
	return found
}

// Has reports whether there is such an element now.
func (s *Scope) Has(roles, name string) bool {
	found, err := s.all(roles, name)
	return err == nil && len(found) > 0
}

// AwaitNone waits until there is no such element.
func (s *Scope) AwaitNone(roles, name string) {
	s.page.t.Helper()
	s.page.poll(fmt.Sprintf("no %s %q", roles, name), func() error {
		found, err := s.all(roles, name)
		if err == nil && len(found) > 0 {
			err = errors.New("it is there")
		}
		return err
	})
}

// Text returns the text that the scope shows, with single spaces.
func (s *Scope) Text() string {
	s.page.t.Helper()
	var shown string
	s.page.poll("the text of "+s.what, func() (err error) {
		shown, err = s.text()
		return err
	})
	return shown
}

func (s *Scope) text() (string, error) {
	var shown string
	err := s.call(`function() { return (this.body ?? this).innerText; }`, &shown)
	return strings.Join(strings.Fields(shown), " "), err
}

// call calls a JavaScript function with the scope's node as this.
func (s *Scope) call(function string, result any) error {
	object, err := s.object()
	if err != nil {
		return err
	}
	return s.page.callOn(object, function, result)
}

func (p *Page) callOn(object runtime.RemoteObjectID, function string, result any) error {
	return p.try(chromedp.ActionFunc(func(ctx context.Context) error {
		value, exception, err := runtime.CallFunctionOn(function).WithObjectID(object).WithReturnByValue(true).WithAwaitPromise(true).Do(ctx)
		switch {
		case err != nil:
			return err
		case exception != nil:
			return exception
		case result == nil || len(value.Value) == 0:
			return nil
		}
		return json.Unmarshal(value.Value, result)
	}))
}

// See waits until the scope shows all these texts, in capital or small letters.
func (s *Scope) See(texts ...string) {
	s.page.t.Helper()
	for _, want := range texts {
		s.page.poll("show "+want, func() error {
			shown, err := s.text()
			if err == nil && !strings.Contains(strings.ToLower(shown), strings.ToLower(strings.Join(strings.Fields(want), " "))) {
				err = fmt.Errorf("%s shows %q", s.what, shortened(shown))
			}
			return err
		})
	}
}

// Shows reports whether the scope shows a text now.
func (s *Scope) Shows(want string) bool {
	shown, err := s.text()
	return err == nil && strings.Contains(shown, want)
}

// SeeNot waits until the scope no longer shows a text.
func (s *Scope) SeeNot(unwanted string) {
	s.page.t.Helper()
	s.page.poll("no longer show "+unwanted, func() error {
		shown, err := s.text()
		if err == nil && strings.Contains(shown, unwanted) {
			err = errors.New("it is shown")
		}
		return err
	})
}

// Names returns the names of all elements that have a role.
func (s *Scope) Names(roles string) []string {
	s.page.t.Helper()
	var names []string
	for _, e := range s.All(roles, "") {
		names = append(names, e.Name)
	}
	return slices.Clip(names)
}
