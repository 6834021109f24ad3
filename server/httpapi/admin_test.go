package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/httpapi"
)

// definitions is a catalogue in memory that accepts any JSON object as a definition.
type definitions struct {
	mu   sync.Mutex // guards what follows
	list map[string]httpapi.BizType
}

var _ httpapi.Catalogue = (*definitions)(nil)

func newDefinitions() *definitions {
	return &definitions{list: map[string]httpapi.BizType{"order": {Name: "order", Version: 1, Enabled: true, Definition: json.RawMessage("{}")}}}
}

func (d *definitions) List(context.Context, httpapi.Listing) ([]httpapi.BizType, string, error) {
	return []httpapi.BizType{{Name: "order", Version: 1, Definition: json.RawMessage("{}")}}, "order", nil
}

func (d *definitions) Get(_ context.Context, name string) (httpapi.BizType, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.list[name]
	if !ok {
		return b, seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
	}
	return b, nil
}

func (d *definitions) Put(ctx context.Context, name string, definition []byte, c httpapi.Change) (b httpapi.BizType, created bool, err error) {
	before, err := d.Get(ctx, name)
	if wrong := c.Check(before.Version); wrong != nil {
		return before, false, wrong
	}
	var object map[string]any
	if json.Unmarshal(definition, &object) != nil || object == nil {
		return before, false, &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "it is none", Problems: []seqd.Problem{{Key: "x", Text: fmt.Sprintf("%.100q", definition)}}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b = httpapi.BizType{Name: name, Version: before.Version + 1, Enabled: true, Definition: json.RawMessage("{}"), Warnings: []string{"it is not looked at"}}
	if !c.DryRun && len(d.list) < 100 {
		d.list[name] = b
	}
	return b, err != nil, nil
}

func (d *definitions) Patch(ctx context.Context, name string, patch []byte, c httpapi.Change) (httpapi.BizType, error) {
	if _, err := d.Get(ctx, name); err != nil {
		return httpapi.BizType{}, err
	}
	b, _, err := d.Put(ctx, name, patch, c)
	return b, err
}

func (d *definitions) Enable(ctx context.Context, name string, _ bool, c httpapi.Change) (httpapi.BizType, error) {
	return d.Patch(ctx, name, []byte("{}"), c)
}

func (d *definitions) Delete(ctx context.Context, name string, c httpapi.Change) (httpapi.BizType, error) {
	return d.Patch(ctx, name, []byte("{}"), c)
}

// alone is the nodes of a cluster of one.
type alone struct{}

func (alone) Nodes(context.Context) ([]httpapi.Node, bool) {
	return []httpapi.Node{{ID: "x", Self: true}}, true
}
