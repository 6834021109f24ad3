package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
)

// definitionKind is the kind of the documents that say what biz types there are.
const definitionKind = "definition"

// entry is the body of such a document.
type entry struct {
	// Definition is a JSON object as an item of bizTypes is, without the name. It stays after a
	// delete.
	Definition json.RawMessage `json:"definition"`
	// Enabled is false while no numbers shall be issued.
	Enabled bool `json:"enabled"`
	// Deleted marks a tombstone: the name can be used again, and its numbers go on where they
	// ended.
	Deleted bool `json:"deleted,omitempty"`
	// Source is who defined it first: config or api.
	Source string `json:"source"`
	// Reshaped is the version at which the shape of its IDs was last forced to be this one, 0 for
	// never: what refused because of the shape tries again.
	Reshaped int64 `json:"reshaped,omitempty"`
	// Shape is the one that was forced then, "" where none was or where it is another one now. It
	// is put on record by whoever builds the definition.
	Shape string `json:"shape,omitempty"`
}

// The values of entry.Source.
const (
	fromConfig = "config"
	fromAPI    = "api"
)

// catalogue is which biz types there are: what the store says, and a copy of it in this process
// that follows. It is safe for concurrent use.
type catalogue struct {
	*runtime
	locked bool // the configuration says what there is, and nothing can change it

	mu    sync.Mutex // guards what follows
	known map[string]known
	// the rejection handlers that biz types use, where they use any
	rejected map[string][]seqd.RejectedBinding

	turns turns // one change of a biz type at a time
}

// known is what this process made of a biz type: no more than it must be, for there may be very
// many.
type known struct {
	revision int64  // of the document, 0 for none
	said     digest // of what it says
	enabled  bool
	deleted  bool
	damaged  bool // it cannot be read
	unusable bool // this process cannot build it
}

func knownAs(revision int64, said entry) known {
	return known{revision: revision, said: digestOf(said), enabled: said.Enabled, deleted: said.Deleted, damaged: said.Definition == nil}
}

// onlyDisabledBy reports whether the biz type could issue, and an entry changes nothing else of it.
func (k known) onlyDisabledBy(said entry) bool {
	said.Enabled = true
	return !k.unusable && digestOf(said) == k.said
}

// digest stands for an entry: for all that same compares.
type digest [16]byte

func digestOf(e entry) (d digest) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%t %t %d %s", e.Enabled, e.Deleted, e.Reshaped, canonical(e.Definition)))
	return digest(sum[:len(d)])
}

func newCatalogue(r *runtime) *catalogue {
	c := &catalogue{runtime: r, locked: r.cfg.BizTypesFrom == config.FromConfig, known: make(map[string]known), rejected: make(map[string][]seqd.RejectedBinding)}
	if !c.locked {
		c.feed.add(definitionKind, follower{changed: c.changed, reload: c.reload})
	}
	return c
}

// load returns what biz types there are, after putting those of the configuration into the store
// that it does not know yet. Those that cannot be written now are left to seedRest: they must not
// keep others from issuing. It builds nothing.
func (c *catalogue) load(ctx context.Context) (map[string]persist.Document, error) {
	all, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, b := range c.cfg.BizTypes {
		text, ok := c.cfg.Definition(b.Name)
		doc, there := all[b.Name]
		switch {
		case !ok: // it did not come from a file, and stays as it is
		case there:
			c.compare(b.Name, text, doc)
		default:
			missing = append(missing, b.Name)
		}
	}
	made, err := c.seedAll(ctx, missing)
	if err != nil && !errors.Is(err, persist.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		c.log.Error("definitions of the configuration cannot be written to the store yet", "error", err)
	}
	maps.Copy(all, made)
	return all, nil
}

// seedAll puts definitions of the configuration into the store. It returns those that are there
// now, and why others are not. A part is announced when the one before is written: so a node that
// has missed announcements misses no definition.
func (c *catalogue) seedAll(ctx context.Context, names []string) (map[string]persist.Document, error) {
	all := make(map[string]persist.Document)
	for part := range slices.Chunk(names, mostSeeded) {
		made, err := c.seedPart(ctx, part)
		if maps.Copy(all, made); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (c *catalogue) seedPart(ctx context.Context, names []string) (map[string]persist.Document, error) {
	if err := c.feed.announceAll(ctx, definitionKind, names); err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex // guards made and failed
		made   = make(map[string]persist.Document)
		failed error
		wg     sync.WaitGroup
	)
	slots := make(chan struct{}, parallelWrites)
	for _, name := range names {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			doc, err := c.first(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made[name] = doc
			} else if failed == nil || errors.Is(failed, persist.ErrUnavailable) {
				failed = err // one that cannot pass is worth more
			}
		})
	}
	wg.Wait()
	c.feed.publish(ctx, definitionKind, allKeys)
	return made, failed
}

// seedRest puts those definitions of the configuration into the store that could not be written at
// the start, until all are there or ctx ends.
func (c *catalogue) seedRest(ctx context.Context) {
	for !c.locked {
		missing := c.unseeded()
		made, err := c.seedAll(ctx, missing)
		for _, doc := range made {
			c.apply(ctx, doc)
		}
		if len(missing) == len(made) && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
}

// unseeded returns which definitions of the configuration are not in the store as far as this
// process knows.
func (c *catalogue) unseeded() (names []string) {
	for _, b := range c.cfg.BizTypes {
		_, ok := c.cfg.Definition(b.Name)
		if k, _ := c.knows(b.Name); ok && k.revision == 0 {
			names = append(names, b.Name)
		}
	}
	return names
}

// mostSeeded is how many definitions of the configuration are announced and written at once: so few
// that others keep their place among the announcements.
const mostSeeded = mostRecent / 4

// parallelWrites bounds how many definitions are written at once; the store merges what comes
// together.
const parallelWrites = 64

// list reads all definitions.
func (c *catalogue) list(ctx context.Context) (map[string]persist.Document, error) {
	all := make(map[string]persist.Document)
	for doc, err := range persist.EveryDocument(ctx, c.store.Documents(), definitionKind) {
		if err != nil {
			return nil, err
		}
		all[doc.Key] = doc
	}
	return all, nil
}

// first puts a definition of the configuration, which is announced, into the store, or returns the
// one that another node was faster with.
func (c *catalogue) first(ctx context.Context, name string) (persist.Document, error) {
	text, _ := c.cfg.Definition(name)
	doc := c.document(name, 1, entry{Definition: text, Enabled: true, Source: fromConfig})
	err := c.store.Documents().Create(ctx, doc)
	if errors.Is(err, persist.ErrExists) {
		return c.store.Documents().Read(ctx, definitionKind, name)
	}
	return doc, err
}

// compare says so where the store has another definition than the configuration.
func (c *catalogue) compare(name string, text []byte, doc persist.Document) {
	said, err := decodeEntry(doc)
	switch {
	case err != nil: // building it will say so
	case said.Deleted:
		c.log.Warn("the biz type of the configuration was deleted by the API and stays so", "bizType", name, "version", doc.Revision)
	case !equalJSON(said.Definition, text):
		c.log.Warn("the store has another definition of the biz type than the configuration, and that counts; change it by the API, or set bizTypesFrom to config",
			"bizType", name, "version", doc.Revision)
	}
}

func (c *catalogue) document(name string, revision int64, said entry) persist.Document {
	body, err := json.Marshal(said)
	if err != nil {
		panic(err) // a definition is JSON
	}
	return persist.Document{Kind: definitionKind, Key: name, Revision: revision, Body: string(body), Timestamp: c.now().UnixMilli()}
}

func decodeEntry(doc persist.Document) (said entry, err error) {
	if err = json.Unmarshal([]byte(doc.Body), &said); err != nil {
		return entry{}, fmt.Errorf("%w: %s: %w", errDamaged, doc.Key, err)
	}
	return said, nil
}

var errDamaged = errors.New("a definition in the store is damaged")

// equalJSON compares two JSON texts without their white space and the order of their keys.
func equalJSON(a, b []byte) bool { return bytes.Equal(a, b) || bytes.Equal(canonical(a), canonical(b)) }

// canonical returns a JSON text without white space and with its keys in order, and what is none as
// it is.
func canonical(text []byte) []byte {
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return text
	}
	ordered, err := json.Marshal(tree)
	if err != nil {
		return text
	}
	return ordered
}

// definitions builds every biz type there is at the start.
func (c *catalogue) definitions(ctx context.Context) ([]seqd.Definition, error) {
	var list []seqd.Definition
	stored := map[string]persist.Document{}
	if !c.locked && c.gate == nil {
		var err error
		if stored, err = c.load(ctx); err != nil {
			return nil, err
		}
	}
	for _, b := range c.cfg.BizTypes {
		if _, ok := stored[b.Name]; ok {
			continue
		}
		text, _ := c.cfg.Definition(b.Name)
		d, err := c.definition(b)
		if err != nil {
			return nil, fmt.Errorf("biz type %s: %w", b.Name, err)
		}
		if claim, ok := d.Claim.(claim); ok && c.gate != nil {
			c.claims = append(c.claims, claim)
		}
		c.known[b.Name] = knownAs(0, entry{Definition: text, Enabled: true})
		c.uses(b.Name, b.Rejected)
		list = append(list, d)
	}
	for name, doc := range stored {
		k, rejected, d := c.built(name, doc)
		c.known[name] = k
		c.uses(name, rejected)
		if d != nil {
			list = append(list, *d)
		}
	}
	return list, nil
}

// built builds what a document says; nil where that is nothing. What this node cannot build refuses
// to issue.
func (c *catalogue) built(name string, doc persist.Document) (k known, rejected []seqd.RejectedBinding, d *seqd.Definition) {
	said, err := decodeEntry(doc)
	k = knownAs(doc.Revision, said)
	switch {
	case err == nil && said.Deleted:
		return k, nil, nil
	case err == nil && !said.Enabled:
		return k, nil, c.idle(name, said)
	}
	made := seqd.Definition{BizType: seqd.BizType{Name: name}}
	if err == nil {
		made.BizType, err = c.decode(name, said.Definition)
	}
	if err == nil {
		made, err = c.definition(made.BizType)
	}
	if made.Rejected != nil {
		rejected = made.BizType.Rejected
	}
	if of, ok := made.Claim.(claim); ok {
		of.forced = said.Shape
		made.Claim = of
	}
	if err != nil {
		made.BizType.Name, made.Strategy, made.Claim = name, unusable{err}, nil
	}
	_, k.unusable = made.Strategy.(unusable)
	made.Aside = doc.Revision > 1 || said.Source != fromConfig
	return k, rejected, &made
}

// idle is what is left of a biz type that is disabled: the plugins, for what they have to show.
func (c *catalogue) idle(name string, said entry) *seqd.Definition {
	d := &seqd.Definition{BizType: seqd.BizType{Name: name}, Disabled: disabled(name)}
	bizType, err := c.decode(name, said.Definition)
	if err == nil {
		d.Plugins, err = c.possible(bizType)
	}
	if err != nil {
		c.log.Warn("not all plugins of a biz type that is disabled can be made; those show nothing", "bizType", name, "error", err)
	}
	return d
}

// uses notes which rejection handlers a biz type uses, and returns those that it used before.
func (c *catalogue) uses(name string, rejected []seqd.RejectedBinding) (before []seqd.RejectedBinding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before = c.rejected[name]
	delete(c.rejected, name)
	if len(rejected) > 0 {
		c.rejected[name] = rejected
	}
	return before
}

// decode reads a definition.
func (c *catalogue) decode(name string, text []byte) (seqd.BizType, error) {
	b, problems := c.cfg.DecodeDefinition(name, text)
	if len(problems) > 0 {
		return b, invalidDefinition(problems)
	}
	return b, nil
}

// mostProblems is how many problems of a definition are told.
const mostProblems = 100

func invalidDefinition(problems []seqd.Problem) *seqd.Error {
	slices.SortFunc(problems, func(a, b seqd.Problem) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) })
	text := fmt.Sprintf("the definition has %d problems", len(problems))
	if len(problems) == 1 {
		text = problems[0].Text
		if problems[0].Key != "" {
			text = problems[0].Key + ": " + text
		}
	}
	return &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: text, Problems: problems[:min(mostProblems, len(problems))]}
}

// changed makes this process do what the document of a biz type says. There is none yet where one
// was announced and not written.
func (c *catalogue) changed(ctx context.Context, name string) error {
	doc, err := c.store.Documents().Read(ctx, definitionKind, name)
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	if err == nil {
		c.apply(ctx, doc)
	}
	return err
}

// reload makes this process do what all documents say.
func (c *catalogue) reload(ctx context.Context) error {
	all, err := c.list(ctx)
	for _, doc := range all {
		c.apply(ctx, doc)
	}
	return err
}

// apply makes this process do what a document says, unless it has done so already.
func (c *catalogue) apply(ctx context.Context, doc persist.Document) {
	defer c.turns.take(doc.Key)()
	before, was := c.knows(doc.Key)
	if was && doc.Revision <= before.revision {
		return
	}
	said, err := decodeEntry(doc)
	if was && err == nil && digestOf(said) == before.said {
		before.revision = doc.Revision
		c.knowing(doc.Key, before)
		return
	}
	// What has begun is ended, also when the node stops meanwhile: the numbers in hand would be
	// lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Server.StopTimeout)
	defer cancel()
	after := knownAs(doc.Revision, said)
	var rejected []seqd.RejectedBinding
	switch {
	case err == nil && said.Deleted:
		err = c.issuer.Remove(ctx, doc.Key, nil)
	case err == nil && !said.Enabled && was && before.onlyDisabledBy(said):
		// the plugins know what was counted until now
		err = c.issuer.Disable(ctx, doc.Key, disabled(doc.Key))
	default:
		err = c.issuer.Put(ctx, doc.Key, func() (seqd.Definition, error) {
			var d *seqd.Definition
			after, rejected, d = c.built(doc.Key, doc)
			return *d, nil
		})
	}
	c.releaseRejected(c.uses(doc.Key, rejected))
	if err != nil {
		c.log.Error("a biz type was changed, and what it was before did not close well", "bizType", doc.Key, "error", err)
	}
	c.log.Info("biz type changed", "bizType", doc.Key, "version", doc.Revision, "enabled", said.Enabled, "deleted", said.Deleted)
	c.knowing(doc.Key, after)
}

func disabled(name string) *seqd.Error {
	return seqd.Errorf(seqd.CodeDisabled, "the biz type %s is disabled", name)
}

func (c *catalogue) knows(name string) (known, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.known[name]
	return k, ok
}

func (c *catalogue) knowing(name string, k known) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[name] = k
}

// count returns how many biz types there are.
func (c *catalogue) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.known {
		if !k.deleted {
			n++
		}
	}
	return n
}

// catchUp does after a start without the store what the start could not.
func (c *catalogue) catchUp(ctx context.Context) error {
	if c.locked {
		return nil
	}
	all, err := c.load(ctx)
	if err != nil {
		return err
	}
	for _, doc := range all {
		c.apply(ctx, doc)
	}
	return nil
}
