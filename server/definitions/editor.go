package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/feed"
)

const (
	// changeTries bounds how often a change is tried that other changes overtake.
	changeTries = 20
	// writeTimeout bounds the writing of a change.
	writeTimeout = 20 * time.Second
)

// Editor is how administrators read and change definitions. It is safe for concurrent use.
type Editor struct {
	cfg       *config.Config
	records   records
	feed      Feed
	check     *checker
	examples  examples
	sources   sources
	catalogue *Catalogue
	log       *slog.Logger
	searching longlock.Lock // held by the one list with a pattern
}

var _ admin.Catalogue = (*Editor)(nil)

// Editor returns the editor of the same definitions.
func (c *Catalogue) Editor() *Editor {
	store := c.builder.env.Store
	return &Editor{
		cfg: c.cfg, records: c.records, feed: c.seeder.feed, catalogue: c, log: c.log, sources: c.sources,
		examples: examples{decode: c.builder.decode, now: c.builder.env.Now},
		check: &checker{
			decode: c.builder.decode, shapes: c.builder.shapes.onRecord, store: store,
			sources: c.sources, now: c.records.now, stoppedFor: c.states.stoppedFor, shown: c.shown,
		},
	}
}

// configured is what the configuration says of a biz type.
func (e *Editor) configured(name string) admin.BizType {
	text, _ := e.cfg.Definition(name)
	return e.shown(name, 0, 0, stored{Definition: text, Enabled: true, Source: fromConfig})
}

// Get implements [admin.Catalogue].
func (e *Editor) Get(ctx context.Context, name string) (admin.BizType, error) {
	if e.catalogue.locked {
		if _, ok := e.catalogue.states.get(name); !ok {
			return admin.BizType{}, noBizType(name)
		}
		return e.configured(name), nil
	}
	doc, said, err := e.records.read(ctx, name)
	if errors.Is(err, errDamaged) {
		return e.shown(name, doc.Revision, doc.Timestamp, said), nil
	}
	if err == nil && (doc.Revision == 0 || said.Deleted) {
		err = noBizType(name)
	}
	if err != nil {
		return admin.BizType{}, err
	}
	return e.shown(name, doc.Revision, doc.Timestamp, said), nil
}

func noBizType(name string) error {
	return seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
}

// shown is a biz type as administrators see it.
func (e *Editor) shown(name string, version, ms int64, said stored) admin.BizType {
	b := admin.BizType{Name: name, Version: version, Enabled: said.Enabled, Source: said.Source}
	if ms > 0 {
		b.UpdatedAt = admin.Time(ms)
	}
	var err error
	if b.Definition, err = e.cfg.Hide(said.Definition); err != nil {
		b.Definition, b.Warnings = json.RawMessage("{}"), []string{"the definition in the store cannot be read"}
	}
	return b
}

// Put implements [admin.Catalogue].
func (e *Editor) Put(ctx context.Context, name string, definition []byte, change admin.Change) (b admin.BizType, created bool, err error) {
	b, err = e.change(ctx, name, "put", change, func(said *stored, there bool) error {
		created = !there
		if !there {
			// a deleted definition reveals no secrets
			*said = stored{Source: fromAPI, Enabled: true}
		}
		text, err := reveal(e.cfg, definition, said.Definition)
		if err != nil {
			return err
		}
		said.Definition, said.Deleted = text, false
		return nil
	})
	return b, created, err
}

// Patch implements [admin.Catalogue].
func (e *Editor) Patch(ctx context.Context, name string, patch []byte, change admin.Change) (admin.BizType, error) {
	var without []string
	b, err := e.change(ctx, name, "patch", change, existing(name, func(said *stored) error {
		if _, err := e.cfg.Hide(patch); err != nil { // such as a duplicate key
			return &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "the patch: " + err.Error()}
		}
		merged, err := mergePatch(said.Definition, patch)
		if err != nil {
			return err
		}
		without = removesNothing(said.Definition, patch)
		said.Definition, err = reveal(e.cfg, merged, said.Definition)
		return err
	}))
	if err == nil && without != nil {
		b.Warnings = append(b.Warnings, fmt.Sprintf("the patch removes what is not there: %.200s", strings.Join(without, ", ")))
	}
	return b, err
}

// Enable implements [admin.Catalogue].
func (e *Editor) Enable(ctx context.Context, name string, enabled bool, change admin.Change) (admin.BizType, error) {
	what := "disabled"
	if enabled {
		what = "enabled"
	}
	return e.change(ctx, name, what, change, existing(name, func(said *stored) error {
		said.Enabled = enabled
		return nil
	}))
}

// Delete implements [admin.Catalogue].
func (e *Editor) Delete(ctx context.Context, name string, change admin.Change) (admin.BizType, error) {
	return e.change(ctx, name, "deleted", change, existing(name, func(said *stored) error {
		said.Deleted = true
		return nil
	}))
}

// edit changes a definition. there is false if there is none, or it was deleted.
type edit func(said *stored, there bool) error

// existing is an edit of a biz type that must exist.
func existing(name string, change func(said *stored) error) edit {
	return func(said *stored, there bool) error {
		if !there {
			return noBizType(name)
		}
		return change(said)
	}
}

// reveal puts the stored secrets into a definition that was read without them.
func reveal(cfg *config.Config, text, before []byte) ([]byte, error) {
	revealed, err := cfg.Reveal(text, before)
	if err != nil {
		return nil, &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "the definition: " + err.Error()}
	}
	return revealed, nil
}

// errLocked refuses changes if the configuration says what there is.
var errLocked = &seqd.Error{
	Code: seqd.CodeConflict, Detail: "bizTypesFrom is config: biz types are changed in the configuration of every node",
}

// change makes one change of one biz type; what is the word for it. It tries again, and calls edit
// again, if another change was written first.
func (e *Editor) change(ctx context.Context, name, what string, change admin.Change, edit edit) (admin.BizType, error) {
	if e.catalogue.locked {
		return admin.BizType{}, errLocked
	}
	for range changeTries {
		b, err := e.tryChange(ctx, name, what, change, edit)
		if !persist.Overtaken(err) {
			return b, err
		}
	}
	return admin.BizType{}, &seqd.Error{
		Code: seqd.CodeStoreUnavailable, Detail: "the biz type is being changed by too many at once", RetryAfter: time.Second,
	}
}

// tryChange makes one change. Its error is [persist.Overtaken] if another change was written first.
func (e *Editor) tryChange(ctx context.Context, name, what string, change admin.Change, edit edit) (b admin.BizType, err error) {
	doc, before, err := e.records.read(ctx, name)
	if errors.Is(err, errDamaged) { // it can be replaced or deleted
		err, before = nil, stored{Enabled: true, Source: fromAPI}
	}
	if err != nil {
		return b, err
	}
	if change.Force && doc.Revision > 0 {
		e.catalogue.learn(ctx, doc) // from then on this node knows for how long it has not issued
	}
	next, err := e.plan(ctx, name, change, doc, before, edit)
	if err != nil {
		return b, err
	}
	if next.nothing {
		e.catalogue.learn(ctx, doc) // this node may not have followed it yet
	}
	if next.nothing && !change.DryRun && doc.Revision > 0 {
		// Nor may others: what was written was announced, but it may have come long after that.
		if err := e.feed.Announce(ctx, kind, name); err != nil {
			return b, storeError(err)
		}
		e.feed.Publish(ctx, kind, name)
	}
	if next.nothing || change.DryRun {
		b = warned(e.shown(name, doc.Revision, doc.Timestamp, next.said), next.warnings)
		if change.DryRun && !next.said.Deleted {
			known := next.said.Shape
			if known == "" {
				if known, err = shapeOnRecord(ctx, e.check.shapes, name); err != nil {
					return b, storeError(err)
				}
			}
			b.Example = e.examples.of(ctx, name, next.said.Definition, known, func(b seqd.BizType) bool { return e.check.unread(name, b, before) == "" })
		}
		return b, nil
	}
	if err := e.tell(ctx, name, before, &next.said, doc.Revision+1, what, change.By); err != nil {
		return b, storeError(err)
	}
	written := e.records.document(name, doc.Revision+1, next.said)
	if err := written.Validate(); err != nil {
		return b, &seqd.Error{
			Code: seqd.CodeInvalidDefinition, Detail: "the definition takes more room than the store has for one", Err: err,
		}
	}
	if err = e.write(ctx, written); err != nil {
		if persist.Overtaken(err) {
			return b, err
		}
		return b, storeError(err)
	}
	_ = e.copyEvent(context.WithoutCancel(ctx), name, next.said.Event) // the leader copies what was left
	if known, _ := e.catalogue.states.get(name); known.revision == written.Revision && known.unusable {
		next.warnings = append(next.warnings, seqd.Problem{Text: "this node cannot use the definition and refuses to issue; its log says more"})
	}
	return warned(e.shown(name, written.Revision, written.Timestamp, next.said), next.warnings), nil
}

// warned adds warnings to what administrators see.
func warned(b admin.BizType, warnings []seqd.Problem) admin.BizType {
	for _, w := range warnings {
		b.Warnings = append(b.Warnings, w.Text)
		if w.Key != "" {
			b.SettingWarnings = append(b.SettingWarnings, admin.SettingText(w))
		}
	}
	return b
}

// plan is what a change makes of what is there.
type plan struct {
	said     stored
	warnings []seqd.Problem // the key is "" if a warning concerns no setting
	nothing  bool           // the store says so already
}

// plan returns what a change makes of what is there, or why it must not be made.
func (e *Editor) plan(ctx context.Context, name string, change admin.Change, doc persist.Document, before stored, edit edit) (p plan, err error) {
	there := doc.Revision > 0 && !before.Deleted
	version := doc.Revision
	if !there {
		version = 0
	}
	if err := change.Check(version); err != nil {
		return p, err
	}
	p.said = before
	if err := edit(&p.said, there); err != nil {
		return p, err
	}
	var reshaped bool
	if p.warnings, p.said.Shape, reshaped, err = e.check.definition(ctx, name, doc.Revision, before, p.said, change); err != nil {
		return p, err
	}
	if there {
		if err := e.check.results(ctx, name, before, p.said, change); err != nil {
			return p, err
		}
	}
	p.said.Definition = withoutName(p.said.Definition)
	if reshaped {
		p.said.Reshaped = doc.Revision + 1
		e.log.Warn("the IDs of a biz type get another shape, by force: they can repeat previous ones",
			"bizType", name, "dryRun", change.DryRun)
	}
	if p.nothing = doc.Revision > 0 && before.equal(p.said); p.nothing {
		return p, nil
	}
	stops := there && before.Enabled && (p.said.Deleted || !p.said.Enabled)
	forced, err := e.check.unsettled(ctx, name, p.said)
	if err != nil {
		return p, err
	}
	unfollowed, err := e.sources.change(ctx, name, stops, forced)
	p.warnings = append(p.warnings, unfollowed...)
	return p, err
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

// write announces a change, writes it, applies it in this process and publishes it. It does not end
// with ctx: the caller may leave, and what has begun is finished.
func (e *Editor) write(ctx context.Context, doc persist.Document) error {
	ctx = context.WithoutCancel(ctx)
	err := e.record(ctx, doc)
	if err == nil {
		e.feed.Publish(ctx, kind, doc.Key)
		e.catalogue.learn(ctx, doc)
	}
	return err
}

// record announces and writes a change.
func (e *Editor) record(ctx context.Context, doc persist.Document) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := e.feed.Announce(ctx, kind, doc.Key); err != nil {
		return err
	}
	err := persist.Put(ctx, e.records.documents, doc)
	if err != nil && !persist.Overtaken(err) && !errors.Is(err, persist.ErrNotFound) && !errors.Is(err, persist.ErrInvalid) {
		go e.find(doc) // it may have been written
	}
	return err
}

// find applies a change in this process if it turns out to have been written. Other nodes have its
// announcement.
func (e *Editor) find(doc persist.Document) {
	ctx, cancel := context.WithTimeout(context.Background(), feed.WatchFor)
	defer cancel()
	// its only error is the end of ctx
	_ = retry.Do(ctx, retry.Policy{First: retryPause}, func(ctx context.Context) error {
		_, err := e.catalogue.look(ctx, doc.Key, true)
		if known, _ := e.catalogue.states.get(doc.Key); known.revision >= doc.Revision || errors.Is(err, persist.ErrClosed) {
			return nil
		}
		return errUnwritten
	})
}

// errUnwritten is why a change is looked for again.
var errUnwritten = errors.New("the change is not in the store yet")
