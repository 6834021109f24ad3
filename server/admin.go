package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/server/httpapi"
)

var _ httpapi.Catalogue = (*catalogue)(nil)

// changeTries bounds how often a change is tried again that another one came before.
const changeTries = 20

// page is how many documents are read at a time where many of them are left out.
const page = 1000

// List implements [httpapi.Catalogue].
func (c *catalogue) List(ctx context.Context, after string, limit int) (list []httpapi.BizType, next string, err error) {
	if c.locked {
		return c.listConfigured(after, limit)
	}
	for many := limit + 1; ; many = page { // one more, to know whether this is the last page
		docs, err := c.store.Documents().List(ctx, definitionKind, after, many)
		if err != nil {
			return nil, "", refusal(err)
		}
		for _, doc := range docs {
			after = doc.Key
			said, err := decodeEntry(doc)
			switch {
			case err == nil && said.Deleted:
			case len(list) == limit:
				return list, list[limit-1].Name, nil
			default:
				list = append(list, c.shown(doc.Key, doc.Revision, doc.Timestamp, said))
			}
		}
		if len(docs) < many {
			return list, "", nil
		}
	}
}

// listConfigured lists what the configuration says.
func (c *catalogue) listConfigured(after string, limit int) (list []httpapi.BizType, next string, err error) {
	var names []string
	for _, b := range c.cfg.BizTypes {
		if b.Name > after {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(limit, len(names))] {
		list = append(list, c.configured(name))
	}
	if len(names) > limit {
		next = names[limit-1]
	}
	return list, next, nil
}

// configured is what the configuration says of a biz type.
func (c *catalogue) configured(name string) httpapi.BizType {
	text, _ := c.cfg.Definition(name)
	return c.shown(name, 0, 0, entry{Definition: text, Enabled: true, Source: fromConfig})
}

// Get implements [httpapi.Catalogue].
func (c *catalogue) Get(ctx context.Context, name string) (httpapi.BizType, error) {
	if c.locked {
		if _, ok := c.knows(name); !ok {
			return httpapi.BizType{}, noBizType(name)
		}
		return c.configured(name), nil
	}
	doc, said, err := c.read(ctx, name)
	if errors.Is(err, errDamaged) {
		return c.shown(name, doc.Revision, doc.Timestamp, said), nil
	}
	if err == nil && (doc.Revision == 0 || said.Deleted) {
		err = noBizType(name)
	}
	if err != nil {
		return httpapi.BizType{}, err
	}
	return c.shown(name, doc.Revision, doc.Timestamp, said), nil
}

func noBizType(name string) error {
	return seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
}

// read returns what the store says of a biz type; of revision 0 where there is nothing.
func (c *catalogue) read(ctx context.Context, name string) (doc persist.Document, said entry, err error) {
	doc, err = c.store.Documents().Read(ctx, definitionKind, name)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Document{}, said, nil
	}
	if err != nil {
		return doc, said, refusal(err)
	}
	said, err = decodeEntry(doc)
	return doc, said, err
}

// shown is a biz type as administrators see it.
func (c *catalogue) shown(name string, version, ms int64, said entry) httpapi.BizType {
	b := httpapi.BizType{Name: name, Version: version, Enabled: said.Enabled, Source: said.Source}
	if ms > 0 {
		b.UpdatedAt = httpapi.Time(ms)
	}
	var err error
	if b.Definition, err = c.cfg.Hide(said.Definition); err != nil {
		b.Definition, b.Warnings = json.RawMessage("{}"), []string{"the definition in the store cannot be read"}
	}
	return b
}

// Put implements [httpapi.Catalogue].
func (c *catalogue) Put(ctx context.Context, name string, definition []byte, change httpapi.Change) (b httpapi.BizType, created bool, err error) {
	b, err = c.change(ctx, name, change, func(said *entry, there bool) error {
		created = !there
		if !there {
			*said = entry{Source: fromAPI, Enabled: true} // what was deleted gives no secrets
		}
		text, err := c.reveal(definition, said.Definition)
		if err != nil {
			return err
		}
		said.Definition, said.Deleted = text, false
		return nil
	})
	return b, created, err
}

// Patch implements [httpapi.Catalogue].
func (c *catalogue) Patch(ctx context.Context, name string, patch []byte, change httpapi.Change) (httpapi.BizType, error) {
	return c.change(ctx, name, change, func(said *entry, there bool) error {
		if !there {
			return noBizType(name)
		}
		if _, err := c.cfg.Hide(patch); err != nil { // such as a key that stands twice
			return &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "the patch: " + err.Error()}
		}
		merged, err := mergePatch(said.Definition, patch)
		if err != nil {
			return err
		}
		said.Definition, err = c.reveal(merged, said.Definition)
		return err
	})
}

// Enable implements [httpapi.Catalogue].
func (c *catalogue) Enable(ctx context.Context, name string, enabled bool, change httpapi.Change) (httpapi.BizType, error) {
	return c.change(ctx, name, change, func(said *entry, there bool) error {
		if !there {
			return noBizType(name)
		}
		said.Enabled = enabled
		return nil
	})
}

// Delete implements [httpapi.Catalogue].
func (c *catalogue) Delete(ctx context.Context, name string, change httpapi.Change) (httpapi.BizType, error) {
	return c.change(ctx, name, change, func(said *entry, there bool) error {
		if !there {
			return noBizType(name)
		}
		said.Deleted = true
		return nil
	})
}

// reveal puts the stored secrets into a definition that was read without them.
func (c *catalogue) reveal(text, before []byte) ([]byte, error) {
	revealed, err := c.cfg.Reveal(text, before)
	if err != nil {
		return nil, &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "the definition: " + err.Error()}
	}
	return revealed, nil
}

// errLocked refuses changes where the configuration says what there is.
var errLocked = &seqd.Error{Code: seqd.CodeConflict, Detail: "bizTypesFrom is config: biz types are changed in the configuration of every node"}

// change does one change of one biz type: edit is given what is there, and may be called again
// where another change came first. What it leaves as it was is not written.
func (c *catalogue) change(ctx context.Context, name string, change httpapi.Change, edit func(said *entry, there bool) error) (httpapi.BizType, error) {
	if c.locked {
		return httpapi.BizType{}, errLocked
	}
	for range changeTries {
		doc, before, err := c.read(ctx, name)
		if errors.Is(err, errDamaged) {
			// it can be put right, or deleted
			err, before = nil, entry{Enabled: true, Source: fromAPI}
		}
		if err != nil {
			return httpapi.BizType{}, err
		}
		next, err := c.plan(ctx, name, change, doc, before, edit)
		if err != nil {
			return httpapi.BizType{}, err
		}
		if next.nothing {
			c.apply(ctx, doc) // this node may not have heard of it yet
		}
		if next.nothing || change.DryRun {
			return c.warned(c.shown(name, doc.Revision, doc.Timestamp, next.entry), next.warnings), nil
		}
		written := c.document(name, doc.Revision+1, next.entry)
		if err := written.Validate(); err != nil {
			return httpapi.BizType{}, &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "the definition takes more room than the store has for one", Err: err}
		}
		err = c.write(ctx, written)
		if errors.Is(err, persist.ErrConflict) || errors.Is(err, persist.ErrExists) {
			continue // another change came first
		}
		if err != nil {
			return httpapi.BizType{}, refusal(err)
		}
		if k, _ := c.knows(name); k.revision == written.Revision && k.unusable {
			next.warnings = append(next.warnings, "this node cannot use the definition and refuses to issue; its log says more")
		}
		return c.warned(c.shown(name, written.Revision, written.Timestamp, next.entry), next.warnings), nil
	}
	return httpapi.BizType{}, &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the biz type is being changed by too many at once", RetryAfter: time.Second}
}

// plan is what a change makes of what is there.
type plan struct {
	entry    entry
	warnings []string
	nothing  bool // it is there already
}

// plan finds out what a change makes of what is there, or why it must not be made.
func (c *catalogue) plan(ctx context.Context, name string, change httpapi.Change, doc persist.Document, before entry,
	edit func(said *entry, there bool) error) (p plan, err error) {
	there := doc.Revision > 0 && !before.Deleted
	version := doc.Revision
	if !there {
		version = 0
	}
	if err := change.Check(version); err != nil {
		return p, err
	}
	p.entry = before
	if err := edit(&p.entry, there); err != nil {
		return p, err
	}
	var reshaped bool
	if p.warnings, p.entry.Shape, reshaped, err = c.check(ctx, name, before, p.entry, change); err != nil {
		return p, err
	}
	p.entry.Definition = withoutName(p.entry.Definition)
	if reshaped {
		p.entry.Reshaped = doc.Revision + 1
		c.log.Warn("the IDs of a biz type get another shape, by force: they can repeat those of before", "bizType", name, "dryRun", change.DryRun)
	}
	p.nothing = doc.Revision > 0 && same(before, p.entry)
	return p, nil
}

func (c *catalogue) warned(b httpapi.BizType, warnings []string) httpapi.BizType {
	b.Warnings = append(b.Warnings, warnings...)
	return b
}

// withoutName drops the name from a definition: it is that of the document.
func withoutName(text []byte) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return text
	}
	maps.DeleteFunc(fields, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, "name") })
	without, err := json.Marshal(fields)
	if err != nil {
		return text
	}
	return without
}

func same(a, b entry) bool {
	return a.Enabled == b.Enabled && a.Deleted == b.Deleted && a.Reshaped == b.Reshaped && equalJSON(a.Definition, b.Definition)
}

// writeTimeout bounds the writing of a change.
const writeTimeout = 20 * time.Second

// write announces a change, makes it, does it in this process and tells the others. It does not end
// with ctx: whoever asked may go away, and what was begun is still done.
func (c *catalogue) write(ctx context.Context, doc persist.Document) error {
	ctx = context.WithoutCancel(ctx)
	err := c.record(ctx, doc)
	if err == nil {
		c.feed.publish(ctx, definitionKind, doc.Key)
		c.apply(ctx, doc)
	}
	return err
}

// record is [catalogue.write] without what comes of it.
func (c *catalogue) record(ctx context.Context, doc persist.Document) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := c.feed.announce(ctx, definitionKind, doc.Key); err != nil {
		return err
	}
	write := c.store.Documents().Update
	if doc.Revision == 1 {
		write = c.store.Documents().Create
	}
	err := write(ctx, doc)
	if err != nil && !isDefinite(err) {
		go c.find(doc)
	}
	return err
}

// isDefinite reports whether a write did certainly not happen.
func isDefinite(err error) bool {
	return errors.Is(err, persist.ErrConflict) || errors.Is(err, persist.ErrExists) || errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrInvalid)
}

// find makes this process do what it wrote, once that is in the store, where it is not known
// whether it will be. Other nodes have the announcement.
func (c *catalogue) find(doc persist.Document) {
	ctx, cancel := context.WithTimeout(context.Background(), watchFor)
	defer cancel()
	for ctx.Err() == nil {
		err := c.changed(ctx, doc.Key)
		if k, _ := c.knows(doc.Key); k.revision >= doc.Revision || errors.Is(err, persist.ErrClosed) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(openRetry):
		}
	}
}

// check finds out whether a definition can be used, and what it does not do although it looks so.
// shape is the one that its IDs got by force, now where reshaped is true, "" for none.
func (c *catalogue) check(ctx context.Context, name string, before, said entry, change httpapi.Change) (warnings []string, shape string, reshaped bool, err error) {
	if said.Deleted || !said.Enabled && !change.Force && bytes.Equal(said.Definition, before.Definition) {
		// what is wrong with a definition is no reason to keep it issuing
		return nil, before.Shape, false, nil
	}
	b, err := c.decode(name, said.Definition)
	if err != nil {
		return nil, "", false, err
	}
	if shape, reshaped, err = c.checkShape(ctx, b, before.Shape, change); err != nil {
		return nil, "", false, err
	}
	if start := keyOf(said.Definition, "start"); start != nil && (before.Deleted || !bytes.Equal(start, keyOf(before.Definition, "start"))) {
		warnings, err = c.checkStart(ctx, b)
	}
	return warnings, shape, reshaped, err
}

// checkShape refuses a definition whose IDs could repeat those of before (invariant U6), unless it
// is forced, or was before: that is not on record before somebody has built it. forced is the shape
// that it got so, "" for none.
func (c *catalogue) checkShape(ctx context.Context, b seqd.BizType, before string, change httpapi.Change) (forced string, now bool, err error) {
	made := makes(b)
	if made != "" && c.store.Shared() {
		return "", false, seqd.Errorf(seqd.CodeConflict, "the plugin %s would have to make a new key, and every node another one: put the file of the key on every node first", made)
	}
	known, err := persist.ShapesIn(c.store.Documents()).Read(ctx, b.Name)
	fresh := errors.Is(err, persist.ErrNotFound)
	switch {
	case err != nil && !fresh:
		return "", false, refusal(err)
	case made != "" && (fresh || change.Force && change.DryRun):
		return "", false, nil // whoever only asks makes no key
	case made != "" && !change.Force:
		return "", false, seqd.Errorf(seqd.CodeConflict, "the plugin %s would have to make a new key, with which %s can repeat the IDs of before: put the file of the key "+
			"on this node, use a new name, or add force=true where you know that none repeats", made, b.Name)
	}
	shape, err := wholeShape(b)
	if err != nil {
		return "", false, &seqd.Error{Code: seqd.CodeConflict, Detail: "the plugins of the definition cannot be used on this node; its log says more", Err: err}
	}
	switch {
	case fresh:
		return "", false, nil
	case shape == before && (shape == known.Shape || !change.Force):
		return before, false, nil
	case shape == known.Shape:
		return "", false, nil
	case change.Force:
		return shape, true, nil
	}
	return "", false, &seqd.Error{
		Code: seqd.CodeConflict,
		Detail: b.Name + " has issued numbers in another shape than this definition gives them, which could repeat them: use a new name, " +
			"or add force=true where you know that none repeats",
		Err: fmt.Errorf("the store has %q, the definition says %q", known.Shape, shape),
	}
}

// makes returns the plugin of a biz type that would make something that is not there, "" where none
// would.
func makes(b seqd.BizType) string {
	for _, binding := range b.Plugins {
		if maker, ok := binding.Settings.(plugin.Maker); ok && maker.Makes() {
			return binding.Name
		}
	}
	return ""
}

// keyOf returns the value of a key of a definition, nil where there is none.
func keyOf(text []byte, name string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return nil
	}
	for key, value := range fields {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return nil
}

// checkStart warns of a start that can have no effect. The store knows up to where numbers were
// handed to nodes, not how many of them were issued.
func (c *catalogue) checkStart(ctx context.Context, b seqd.BizType) ([]string, error) {
	first, _ := seqd.BoundsOf(b)
	of := b.Name
	if calendar := seqd.CalendarOf(b); calendar.Reset != seqd.ResetNever {
		of = calendar.Now(c.now()).Counter(b.Name)
	}
	counter, err := c.store.Counters().Read(ctx, of)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, refusal(err)
	case first <= counter.Max:
		return []string{fmt.Sprintf("start %d is not above %d, up to which numbers were handed to nodes before: it moves nothing where these are beyond it already", first, counter.Max)}, nil
	}
	return nil, nil
}

// refusal is the error that a caller gets when the store fails.
func refusal(err error) error {
	_, known := errors.AsType[*seqd.Error](err)
	switch {
	case known, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return &seqd.Error{Code: seqd.CodeInternal, Detail: "what the store has cannot be used; the log of the service says more", Err: err}
	}
	return unavailable(err)
}
