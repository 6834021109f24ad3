package definitions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/server/rejection"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy"
)

// faulty is a store whose writes a test can interfere with.
type faulty struct {
	persist.Store
	shared bool
	lossy  bool
	docs   faultyDocuments
}

func newFaulty(shared bool) *faulty {
	store := memory.New(time.Now)
	return &faulty{Store: store, shared: shared, docs: faultyDocuments{Documents: store.Documents()}}
}

func (f *faulty) Shared() bool                 { return f.shared }
func (f *faulty) Lossy() bool                  { return f.lossy }
func (f *faulty) Documents() persist.Documents { return &f.docs }

// faultyDocuments calls update before each update of a definition, and returns what after returns
// after it.
type faultyDocuments struct {
	persist.Documents
	delay  time.Duration // of every read
	mu     sync.Mutex    // guards what follows
	before func(ctx context.Context, doc persist.Document)
	after  func(ctx context.Context, err error) error
}

func (f *faultyDocuments) hooks() (before func(context.Context, persist.Document), after func(context.Context, error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, after = f.before, f.after
	f.before, f.after = nil, nil
	return before, after
}

func (f *faultyDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, err := f.Documents.Read(ctx, kind, key)
	time.Sleep(f.delay)
	return doc, err
}

func (f *faultyDocuments) Update(ctx context.Context, doc persist.Document) error {
	if doc.Kind != kind {
		return f.Documents.Update(ctx, doc)
	}
	before, after := f.hooks()
	if before != nil {
		before(ctx, doc)
	}
	err := f.Documents.Update(ctx, doc)
	if after != nil {
		err = after(ctx, err)
	}
	return err
}

// node is what a node has to do with definitions.
type node struct {
	*Editor
	issuer *issuer.Issuer
	feed   *feed.Feed
	others atomic.Pointer[[]admin.Node] // what the node is told of the other nodes
	times  atomic.Int64                 // how often these began to count this node
}

// onFakeClock runs a test in a bubble whose clock shows a year in which the default settings are
// valid.
func onFakeClock(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)))
		test(t)
	})
}

// newNode returns a node without biz types of its own.
func newNode(t testing.TB, store persist.Store) *node {
	t.Helper()
	return newNodeOf(t, store, configuredWith(t, "{bizTypesFrom: store, bizTypeFolder: "+os.TempDir()+"}"))
}

// newNodeOf returns a node with a configuration. change, if there is any, changes its options.
func newNodeOf(t testing.TB, store persist.Store, cfg *config.Config, change ...func(*Options)) *node {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n := &node{feed: feed.New(feed.Options{Documents: store.Documents(), Shared: store.Shared(), Now: time.Now, Log: log})}
	must.Do(t, n.feed.Begin(t.Context()))
	env := strategy.Env{
		Store: store, Now: time.Now, Log: log, Observer: seqd.NopObserver{}, RedisPrefix: cfg.Redis.KeyPrefix,
		Addr: "127.0.0.1:1", Cluster: strings.Repeat("f", 32),
	}
	handlers := rejection.New(rejection.Options{Env: PluginEnv(env), CloseTimeout: cfg.Server.StopTimeout, Log: log})
	opts := Options{Config: cfg, Env: env, Handlers: handlers, Feed: n.feed, Others: func(context.Context) ([]admin.Node, error) {
		if others := n.others.Load(); others != nil {
			return *others, nil
		}
		return nil, nil
	}, Present: func(context.Context) (int64, error) { return n.times.Load(), nil }}
	for _, f := range change {
		f(&opts)
	}
	catalogue := New(opts)
	n.times.Store(1)
	follower, _ := catalogue.Follower()
	n.feed.Add(Kind, follower)
	n.issuer = must.Get(catalogue.Open(t.Context(), issuer.Options{Log: log}))(t)
	n.Editor = catalogue.Editor()
	t.Cleanup(func() { _ = n.issuer.Close(context.Background()) })
	return n
}

// always is a change without a condition.
var always = admin.Change{Check: func(int64) error { return nil }}

func forced() admin.Change {
	c := always
	c.Force = true
	return c
}

func (c *node) mustPut(t *testing.T, name, definition string, change admin.Change) admin.BizType {
	t.Helper()
	b, _, err := c.Put(t.Context(), name, []byte(definition), change)
	if err != nil {
		t.Fatalf("PUT %s %s: %v", name, definition, err)
	}
	return b
}

func (c *node) mustIssue(t testing.TB, name string) string {
	t.Helper()
	seq := must.Get(c.issuer.Next(t.Context(), name, 1))(t)
	return seq.IDs()[0]
}

const formatted = `{"plugins":[{"name":"format","template":"A-{seq}"}]}`

// A forced change that is not made leaves the shape as it was: otherwise no node could issue
// after its next start.
func TestForcedChangeThatIsRefused(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	store.docs.before = func(context.Context, persist.Document) { // another change comes first
		doc := other.records.document("order", 2, stored{Definition: []byte(`{"step":7}`), Enabled: true, Source: fromAPI})
		must.Report(t, store.docs.Documents.Update(t.Context(), doc))
		other.catalogue.follow(t.Context(), doc)
		other.mustIssue(t, "order") // the shape that is not to be is not on record
	}
	change := forced()
	change.Check = func(version int64) error {
		if version != 1 {
			return seqd.Errorf(seqd.CodePreconditionFailed, "it is %d", version)
		}
		return nil
	}
	if _, _, err := c.Put(t.Context(), "order", []byte(formatted), change); seqd.CodeOf(err) != seqd.CodePreconditionFailed {
		t.Fatalf("error %v", err)
	}
	newNode(t, store).mustIssue(t, "order")
	must.Report(t, other.feed.Poll(t.Context()))
	other.mustIssue(t, "order")
}

// Of changes that are forced at the same time that one counts whose definition does, on every node
// and after a start.
func TestForcedAtTheSameTime(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	store.docs.before = func(context.Context, persist.Document) {
		other.mustPut(t, "order", `{"plugins":[{"name":"format","template":"B-{seq}"}]}`, forced())
		other.mustIssue(t, "order")
	}
	change := forced()
	change.Check = func(version int64) error {
		if version != 1 {
			return seqd.Errorf(seqd.CodePreconditionFailed, "it is %d", version)
		}
		return nil
	}
	if _, _, err := c.Put(t.Context(), "order", []byte(formatted), change); seqd.CodeOf(err) != seqd.CodePreconditionFailed {
		t.Fatalf("error %v", err)
	}
	must.Get(c.catalogue.reload(t.Context()))(t)
	for _, node := range []*node{c, other, newNode(t, store)} {
		if id := node.mustIssue(t, "order"); !strings.HasPrefix(id, "B-") {
			t.Errorf("issued %s", id)
		}
	}
}

// A node whose section gives a biz type another shape than the one that was forced refuses it at
// once, and not only when another node has put that on record: nobody would tell it that. Then it
// would issue the same IDs as the others, if the numbers of one of them reset.
func TestForcedShapeThatANodeDoesNotMake(t *testing.T) {
	const template = `{"plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]}`
	store := newFaulty(true)
	never, daily := newNode(t, store), newNodeOf(t, store, configuredWith(t, "{bizTypesFrom: store, segment: {reset: daily}}"))
	never.mustPut(t, "order", template, always)
	never.mustIssue(t, "order")
	_, err := daily.issuer.Next(t.Context(), "order", 1)
	must.Code(t, err, seqd.CodeConflict)
	shape := must.Get(Shape(must.Get(daily.catalogue.builder.decode("order", []byte(template)))(t), ""))(t)
	said := stored{Definition: []byte(template), Enabled: true, Source: fromAPI, Reshaped: 2, Shape: shape}
	doc := daily.records.document("order", 2, said)
	must.Do(t, store.docs.Update(t.Context(), doc))
	never.catalogue.follow(t.Context(), doc) // the first one
	_, err = never.issuer.Next(t.Context(), "order", 1)
	must.Code(t, err, seqd.CodeConflict)
	daily.catalogue.follow(t.Context(), doc)
	daily.mustIssue(t, "order")
	_, err = never.issuer.Next(t.Context(), "order", 1)
	must.Code(t, err, seqd.CodeConflict)
}

// A strategy that a biz type never had starts from the beginning when it is forced. One that it had
// before continues.
func TestForceAnotherStrategy(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	const daily = `{"reset":"daily","plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]}`
	c.mustPut(t, "order", daily, always)
	c.mustIssue(t, "order")
	c.mustPut(t, "order", `{}`, forced())
	must.Equal(t, c.mustIssue(t, "order"), "1", "issued")
	c.mustPut(t, "order", daily, forced())
	c.mustIssue(t, "order")
	c.mustPut(t, "order", `{}`, forced())
	if id := c.mustIssue(t, "order"); id == "1" {
		t.Errorf("issued %s twice", id)
	}
	c.mustPut(t, "order", `{"step":7}`, always)
	c.mustIssue(t, "order")
	newNode(t, store).mustIssue(t, "order")
}

// A counter that is lost stays lost, also under a shape that was forced.
func TestForceNoLostCounter(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	must.Do(t, store.Counters().Delete(t.Context(), "order"))
	late := newNode(t, store)
	late.mustPut(t, "order", formatted, forced())
	must.Code(t, must.Err(late.issuer.Next(t.Context(), "order", 1)), seqd.CodeConflict)
}

// What a forced change that ended half-way left behind is mended by forcing either definition.
func TestForceTheDefinitionThatIsThere(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	reshape(t, store)
	late := newNode(t, store)
	if _, err := late.issuer.Next(t.Context(), "order", 1); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Fatalf("error %v", err)
	}
	c.mustPut(t, "order", `{}`, forced())
	must.Get(late.catalogue.reload(t.Context()))(t)
	late.mustIssue(t, "order")
	newNode(t, store).mustIssue(t, "order")
}

// A change that was written although the write returned an error counts on this node too, even
// without a feed.
func TestChangeOfUnknownOutcome(t *testing.T) {
	store := newFaulty(false)
	c := newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	store.docs.after = func(context.Context, error) error { return context.DeadlineExceeded }
	if _, err := c.Enable(t.Context(), "order", false, always); err == nil {
		t.Fatal("no error")
	}
	c.awaitRefusal(t, "order", seqd.CodeDisabled)
}

func (c *node) awaitRefusal(t *testing.T, name string, code seqd.Code) {
	t.Helper()
	await.Eventually(t, name+" is refused", func() error {
		if _, err := c.issuer.Next(t.Context(), name, 1); seqd.CodeOf(err) != code {
			return fmt.Errorf("error %w, want %s", err, code)
		}
		return nil
	})
}

// If the caller of a change leaves while it is written, the change is made nevertheless.
func TestChangeWhoseCallerLeaves(t *testing.T) {
	store := newFaulty(false)
	c := newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	ctx, cancel := context.WithCancel(t.Context())
	store.docs.after = func(ctx context.Context, err error) error { // as bolt does
		cancel()
		return errors.Join(err, ctx.Err())
	}
	_, _ = c.Enable(ctx, "order", false, always)
	c.awaitRefusal(t, "order", seqd.CodeDisabled)
}

// What cannot issue can be disabled: that it cannot is no reason against it.
func TestDisableWhatCannotIssue(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	reshape(t, store)
	b, err := c.Enable(t.Context(), "order", false, always)
	if err != nil || b.Enabled {
		t.Fatalf("%v, %v", b, err)
	}
}

// The last page says that it is the last, also when it is full and only tombstones follow.
func TestLastPage(t *testing.T) {
	c := newNode(t, newFaulty(true))
	for _, name := range []string{"a", "b", "c", "d"} {
		c.mustPut(t, name, `{}`, always)
	}
	for _, name := range []string{"b", "d"} {
		must.Get(c.Delete(t.Context(), name, always))(t)
	}
	list, next, err := c.List(t.Context(), admin.Listing{After: "", Limit: 1})
	if err != nil || len(list) != 1 || list[0].Name != "a" || next != "a" {
		t.Errorf("%v, %q, %v", list, next, err)
	}
	list, next, err = c.List(t.Context(), admin.Listing{After: "a", Limit: 1})
	if err != nil || len(list) != 1 || list[0].Name != "c" || next != "" {
		t.Errorf("%v, %q, %v", list, next, err)
	}
}

// A name that is used again with a start below its numbers says so, also when the definition is the
// one from before the delete.
func TestStartOfWhatIsMadeAgain(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"start":100}`, always)
	c.mustIssue(t, "order")
	must.Get(c.Delete(t.Context(), "order", always))(t)
	b := c.mustPut(t, "order", `{"start":100}`, always)
	if len(b.Warnings) != 1 || !slices.Equal(b.SettingWarnings, []admin.SettingText{{Key: "start", Text: b.Warnings[0]}}) {
		t.Errorf("warnings %q, %q", b.Warnings, b.SettingWarnings)
	}
}

// Counters that are still to begin do not begin lower, unless that is forced: another system may
// have issued the numbers below. A PUT without start lowers it too.
func TestStartOfCountersThatBeginLater(t *testing.T) {
	for _, settings := range []string{
		`"keyed":true`, `"reset":"daily","plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]`, `"keyed":true,"strategy":"gapless"`, `"keyed":true,"increment":10,"offset":3`,
	} {
		c := newNode(t, newFaulty(true))
		with, without := `{"start":100000,`+settings+`}`, `{`+settings+`}`
		c.mustPut(t, "order", with, always)
		refused := func(when, definition string, change admin.Change) {
			t.Helper()
			_, _, err := c.Put(t.Context(), "order", []byte(definition), change)
			must.Code(t, err, seqd.CodeConflict, "%s %s", when, definition)
			if err == nil || !strings.HasPrefix(seqd.AsError(err).Detail, "start: ") {
				t.Errorf("%s: %v", definition, err)
			}
		}
		refused("left out", without, always)
		refused("left out", without, dryRun())
		refused("lower", `{"start":99990,`+settings+`}`, always)
		for _, patch := range []string{`{"start":null}`, `{"start":7}`} {
			must.Code(t, must.Err(c.Patch(t.Context(), "order", []byte(patch), always)), seqd.CodeConflict, "PATCH %s", patch)
		}
		must.Get(c.Delete(t.Context(), "order", always))(t)
		refused("made again", without, always)
		c.mustPut(t, "order", `{"start":200000,`+settings+`}`, always)
		refused("raised", with, always)
		c.mustPut(t, "order", without, forced())
		c.mustPut(t, "order", without, always)
	}
	// The only counter has begun, so its start decides nothing any more.
	for _, settings := range []string{`"strategy":"gapless"`, `"step":20`} {
		c := newNode(t, newFaulty(true))
		c.mustPut(t, "order", `{"start":100,`+settings+`}`, always)
		c.mustIssue(t, "order")
		c.mustPut(t, "order", `{`+settings+`}`, always)
		must.Equal(t, c.mustIssue(t, "order"), "101", "issued")
	}
}

// unconfirmed is a store that has failed over, so that it creates no counter.
type unconfirmed struct{ *faulty }

func (u unconfirmed) Counters() persist.Counters { return uncreated{u.faulty.Counters()} }

type uncreated struct{ persist.Counters }

func (uncreated) Create(context.Context, persist.Counter) error { return persist.ErrFailedOver }

// The only counter of a biz type that was defined after a failover which nobody has confirmed is still
// to begin, so it does not begin lower.
func TestStartOfACounterThatIsNotCreated(t *testing.T) {
	c := newNode(t, unconfirmed{newFaulty(true)})
	c.mustPut(t, "order", `{"start":100}`, always)
	_, _, err := c.Put(t.Context(), "order", []byte(`{"step":20}`), always)
	must.Code(t, err, seqd.CodeConflict)
	c.mustPut(t, "order", `{"start":100,"step":20}`, always)
	c.mustPut(t, "order", `{"step":20}`, forced())
}

// A start that a disabled biz type got has not moved its counter, so it does not become lower either.
func TestStartOfWhatIsDisabled(t *testing.T) {
	for _, settings := range []string{`"step":20`, `"strategy":"gapless"`, `"step":20,"increment":10,"offset":3`} {
		c := newNode(t, newFaulty(true))
		with, without := `{"start":700000,`+settings+`}`, `{`+settings+`}`
		c.mustPut(t, "order", without, always)
		c.mustIssue(t, "order")
		must.Get(c.Enable(t.Context(), "order", false, always))(t)
		c.mustPut(t, "order", with, always)
		_, _, err := c.Put(t.Context(), "order", []byte(without), always)
		must.Code(t, err, seqd.CodeConflict, settings)
		must.Get(c.Enable(t.Context(), "order", true, always))(t)
		if id := c.mustIssue(t, "order"); len(id) != 6 || id[0] != '7' {
			t.Errorf("%s: issued %s", settings, id)
		}
		c.mustPut(t, "order", without, always)
	}
}

// A gap becomes smaller only by force if a failover can lose numbers: a node that does not know of it
// yet continues above a failover by the former one, which the next failover may lose.
func TestLowerGap(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		store := newFaulty(true)
		store.lossy = lossy
		c := newNode(t, store)
		for _, change := range []struct {
			definition string
			warned     bool
		}{{`{"restoreGap":2000,"step":10}`, lossy}, {`{"restoreGap":2000,"step":10,"maxStep":100}`, false}} {
			b := c.mustPut(t, "order", change.definition, always)
			must.Equal(t, strings.Contains(fmt.Sprint(b.SettingWarnings), "a failover of the store skips 2000 numbers"), change.warned, "%s warns", change.definition)
		}
		for _, lower := range []string{`"auto"`, "1999", "0"} {
			_, err := c.Patch(t.Context(), "order", []byte(`{"restoreGap":`+lower+`}`), dryRun())
			if lossy {
				must.Code(t, err, seqd.CodeConflict, "a gap of %s instead of 2000", lower)
			} else {
				must.Do(t, err)
			}
		}
		c.mustPut(t, "order", `{"step":10}`, always) // a million
		c.mustPut(t, "order", `{"restoreGap":"auto","step":10}`, forced())
		c.mustPut(t, "order", `{"restoreGap":"auto","step":1}`, always)
		c.mustPut(t, "order", `{"restoreGap":"auto","step":51}`, always) // ten steps
		if _, err := c.Patch(t.Context(), "order", []byte(`{"step":50}`), dryRun()); lossy {
			must.Code(t, err, seqd.CodeConflict, "a step of 50 instead of 51")
		} else {
			must.Do(t, err)
		}
		c.mustPut(t, "order", `{"strategy":"snowflake"}`, forced())
	}
}

// Who forces a change for one reason learns of the others: before from the refusal, and afterwards
// from a warning.
func TestForcedForTwoReasons(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"start":700000}`, always)
	c.mustIssue(t, "order")
	const next = `{"keyed":true,"start":5}`
	_, _, err := c.Put(t.Context(), "order", []byte(next), always)
	must.Code(t, err, seqd.CodeConflict)
	for _, part := range []string{"another shape", "and start: counters of order that have not begun would begin at 5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v: want %q", err, part)
		}
	}
	changed, _, err := c.Put(t.Context(), "order", []byte(next), forced())
	if err != nil || !strings.Contains(fmt.Sprint(changed.Warnings), "this was forced: counters of order") {
		t.Errorf("%+v, %v", changed, err)
	}
}

// A start above what was issued and below what nodes have in hand moves numbers up, so no answer
// may say that it has no effect.
func TestStartWithinWhatNodesHave(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"step":1000}`, always)
	c.mustIssue(t, "order")
	b := c.mustPut(t, "order", `{"step":1000,"start":500}`, always)
	must.Equal(t, c.mustIssue(t, "order"), "500")
	for _, text := range b.Warnings {
		if strings.HasSuffix(text, "it has no effect") {
			t.Errorf("start is 500, and the answer says: %s", text)
		}
	}
}

// A start that moves nothing is accepted, and the answer says so, also for numbers without gaps.
func TestStartBelowALedger(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"strategy":"gapless"}`, always)
	for range 7 {
		c.mustIssue(t, "order")
	}
	b := c.mustPut(t, "order", `{"strategy":"gapless","start":7}`, always)
	must.Equal(t, fmt.Sprint(b.Warnings), "[start 7 is not above 7, up to which numbers were handed out: it has no effect]")
	must.Equal(t, c.mustIssue(t, "order"), "8")
	b = c.mustPut(t, "order", `{"strategy":"gapless","start":20}`, always)
	must.Equal(t, len(b.Warnings), 0, "warnings")
	must.Equal(t, c.mustIssue(t, "order"), "20")
}

// Numbers of a ledger are shown anew if a request is repeated: in another time zone only by force, even
// if they never reset.
func TestZoneOfALedger(t *testing.T) {
	shown := `,"plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]`
	for _, plugins := range []string{shown, ""} {
		for _, kind := range []string{"gapless", "segment"} {
			c := newNode(t, newFaulty(true))
			zone := func(name string) string {
				return `{"strategy":"` + kind + `","timeZone":"` + name + `"` + plugins + `}`
			}
			c.mustPut(t, "order", zone("UTC"), always)
			c.mustPut(t, "order", zone("Asia/Tokyo"), always) // it has issued nothing
			c.mustIssue(t, "order")
			_, _, err := c.Put(t.Context(), "order", []byte(zone("UTC")), always)
			if kind == "gapless" && plugins != "" {
				must.Code(t, err, seqd.CodeConflict)
				b := c.mustPut(t, "order", zone("UTC"), forced())
				must.Equal(t, len(b.Warnings), 1, "warnings")
			} else {
				must.Do(t, err)
			}
		}
	}
}

// Many biz types of the configuration are put into a store that others write to as well.
func TestSeedOfMany(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	store.docs.delay = time.Millisecond
	items := ""
	for i := range 1000 {
		items += fmt.Sprintf("{name: b%d},", i)
	}
	cfg := must.Get(config.LoadYAML([]byte("bizTypes: ["+items+"]"), config.Sources{}))(t)
	c.catalogue.seeder.cfg = cfg
	must.Get(c.catalogue.seeder.load(t.Context()))(t)
}

// A key that stands twice in a patch is refused: which of the two counts would be chance.
func TestPatchWithAKeyTwice(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"step":1}`, always)
	for _, patch := range []string{`{"step":2,"step":3}`, `{"step":2,"STEP":3}`, `{"a":{"b":1,"B":2}}`, `{"step":2,"\u017ftep":3}`, `{"\u017ftep":3}`} {
		if _, err := c.Patch(t.Context(), "order", []byte(patch), always); seqd.CodeOf(err) != seqd.CodeInvalidDefinition || !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "no such key") {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// Who removes a key that is not there, such as a mistyped one, is told.
func TestPatchRemovesNothing(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"Step":1,"start":5}`, always)
	b, err := c.Patch(t.Context(), "order", []byte(`{"step":null,"strat":null,"maxStep":null}`), always)
	if err != nil || !slices.Equal(b.Warnings, []string{"the patch removes what is not there: maxStep, strat"}) || string(b.Definition) != `{"start":5}` {
		t.Errorf("%s, warnings %q, error %v", b.Definition, b.Warnings, err)
	}
}

// A body of 60 KB costs little, whatever it has in it: it is not read to an unusual depth, a key of
// a patch is not compared with all others, and problems are not listed without end.
func TestLargeDefinitions(t *testing.T) {
	c := newNode(t, newFaulty(true))
	c.mustPut(t, "order", `{"Step":1,"start":5}`, always)
	for text, want := range map[string]string{
		strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000):               "nested more than 32 deep",
		`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}":         "nested more than 32 deep",
		`{"plugins":[` + strings.TrimSuffix(strings.Repeat("0,", 29_000), ",") + "]}": "the definition has 1000 problems",
	} {
		_, patched := c.Patch(t.Context(), "order", []byte(text), always)
		_, _, put := c.Put(t.Context(), "other", []byte(text), always)
		for _, err := range []error{patched, put} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.20s: %.100v", text, err)
			}
		}
	}
	must.Equal(t, string(must.Get(c.Patch(t.Context(), "order", []byte(`{"STEP":7,"START":null}`), always))(t).Definition), `{"STEP":7}`)
}

// A definition that is damaged refuses for that reason, on a node that starts too, and can be put
// right or deleted.
func TestDamagedDefinition(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	damage := func(revision int64) {
		t.Helper()
		doc := c.records.document("order", revision, stored{})
		doc.Body = "}"
		write := store.docs.Documents.Update
		if revision == 1 {
			write = store.docs.Documents.Create
		}
		must.Do(t, write(t.Context(), doc))
	}
	damage(1)
	late := newNode(t, store)
	must.Get(c.catalogue.reload(t.Context()))(t)
	for _, node := range []*node{c, late} {
		node.awaitRefusal(t, "order", seqd.CodeConflict)
		if b, err := node.Get(t.Context(), "order"); err != nil || len(b.Warnings) == 0 {
			t.Errorf("%v, %v", b, err)
		}
	}
	late.mustPut(t, "order", `{}`, always)
	late.mustIssue(t, "order")
	damage(3)
	must.Get(c.Delete(t.Context(), "order", always))(t)
	c.awaitRefusal(t, "order", seqd.CodeUnknownBizType)
	if list, _, err := late.List(t.Context(), admin.Listing{After: "", Limit: 10}); len(list) > 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// A change that this process follows while it stops loses no numbers.
func TestChangeWhileStopping(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	c.mustPut(t, "order", `{"step":1000}`, always)
	c.mustIssue(t, "order")
	must.Get(other.Patch(t.Context(), "order", []byte(`{"step":1001}`), always))(t)
	doc := must.Get(store.Documents().Read(t.Context(), kind, "order"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.catalogue.follow(ctx, doc)
	must.Equal(t, c.mustIssue(t, "order"), "2")
}

// A dry run, and a change that is refused, make no files. A dry run answers alike whatever the
// files and environment variables are that the biz type does not use yet.
func TestRefusedChangesMakeNothing(t *testing.T) {
	c := newNode(t, newFaulty(false))
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	dir := t.TempDir()
	path := filepath.Join(dir, "new.key")
	must.Do(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("no key"), 0o600))
	t.Setenv("OBFUSCATE_THERE", "correct horse")
	obfuscated := func(setting, value string) []byte {
		return []byte(`{"plugins":[{"name":"obfuscate","digits":8,"` + setting + `":"` + value + `"}]}`)
	}
	dry, dryForced := always, forced()
	dry.DryRun, dryForced.DryRun = true, true
	for _, named := range [][2]string{
		{"keyFile", path}, {"keyFile", filepath.Join(dir, "secret")}, {"keyFile", dir},
		{"keyEnv", "OBFUSCATE_THERE"}, {"keyEnv", "OBFUSCATE_NONE"},
	} {
		for _, change := range []admin.Change{dry, dryForced} {
			b, _, err := c.Put(t.Context(), "order", obfuscated(named[0], named[1]), change)
			if err != nil || b.Example != "" || len(b.Warnings) != 1 || !strings.HasPrefix(b.Warnings[0], "a dry run does not read") {
				t.Errorf("%v: example %q, warnings %q, error %v", named, b.Example, b.Warnings, err)
			}
		}
	}
	if _, _, err := c.Put(t.Context(), "order", obfuscated("keyFile", path), always); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a file was made")
	}
	c.mustPut(t, "order", string(obfuscated("keyFile", path)), forced())
	c.mustIssue(t, "order")
	if b, _, err := c.Put(t.Context(), "order", obfuscated("keyFile", path), dry); err != nil || len(b.Example) != 8 {
		t.Errorf("a dry run with the key in use: example %q, error %v", b.Example, err)
	}
}

// A definition names nothing outside its reach, whether or not that exists, and nothing that the
// service itself uses.
func TestReachOfDefinitions(t *testing.T) {
	dir := t.TempDir()
	cfg := configuredWith(t, fmt.Sprintf("{bizTypesFrom: store, bizTypeFolder: %s, store: {bolt: {path: %[1]s/seqd.db}}}", dir))
	c := newNodeOf(t, newFaulty(false), cfg)
	t.Setenv("SEQD_SECRET", "correct horse")
	history := func(path string) string {
		return `{"plugins":[{"name":"history","to":"file","file":{"path":"` + path + `"}}]}`
	}
	for name, definition := range map[string]string{
		"history outside": history("/etc/passwd"), "relative": history("history.jsonl"), "above": history(dir + "/../x"),
		"the store": history(dir + "/seqd.db"), "its history": history(dir + "/x/../SEQD.db-history"), "an older file": history(dir + "/a.000000000000001-000000000000002-000"),
		"a lock":         history(dir + "/a.lock"),
		"key outside":    `{"plugins":[{"name":"obfuscate","digits":8,"keyFile":"/elsewhere/none"}]}`,
		"key of ours":    `{"plugins":[{"name":"obfuscate","digits":8,"keyEnv":"SEQD_SECRET"}]}`,
		"variable":       `{"plugins":[{"name":"obfuscate","digits":8,"keyEnv":"PATH"}]}`,
		"variable, none": `{"plugins":[{"name":"obfuscate","digits":8,"keyEnv":"NONE"}]}`,
		"state outside":  `{"strategy":"snowflake","offlineStart":"1m","stateDir":"/etc"}`,
	} {
		if _, _, err := c.Put(t.Context(), "x", []byte(definition), always); seqd.CodeOf(err) != seqd.CodeInvalidDefinition {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, definition := range map[string]string{"a": history(dir + "/h/history.jsonl"), "b": `{"strategy":"snowflake","stateDir":"/etc"}`} {
		if b := c.mustPut(t, name, definition, always); len(b.Warnings) > 0 {
			t.Errorf("%s: %q", definition, b.Warnings)
		}
	}
}

// Where other nodes would make keys of their own, the file of a key must be there.
func TestKeysOfManyNodes(t *testing.T) {
	c := newNode(t, newFaulty(true))
	path := filepath.Join(t.TempDir(), "new.key")
	definition := []byte(`{"plugins":[{"name":"obfuscate","digits":8,"keyFile":"` + path + `"}]}`)
	for _, change := range []admin.Change{always, forced()} {
		if _, _, err := c.Put(t.Context(), "order", definition, change); seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), "every node") {
			t.Errorf("error %v", err)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
}

// What this node cannot build is refused where that shows beforehand, and the answer says so where
// it does not.
func TestDefinitionsThatThisNodeCannotUse(t *testing.T) {
	c := newNode(t, newFaulty(false))
	damaged := filepath.Join(t.TempDir(), "damaged.key")
	must.Do(t, os.WriteFile(damaged, []byte("no key"), 0o600))
	definition := func(path string) string {
		return `{"plugins":[{"name":"obfuscate","digits":8,"keyFile":"` + path + `"}]}`
	}
	if _, _, err := c.Put(t.Context(), "order", []byte(definition(damaged)), always); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Errorf("error %v", err)
	}
	dangling := filepath.Join(t.TempDir(), "dangling.key")
	must.Do(t, os.Symlink(filepath.Join(t.TempDir(), "none", "key"), dangling))
	if b := c.mustPut(t, "order", definition(dangling), always); len(b.Warnings) != 1 || b.SettingWarnings != nil {
		t.Errorf("warnings %q, %q", b.Warnings, b.SettingWarnings)
	}
	if b := c.mustPut(t, "order", `{}`, always); len(b.Warnings) > 0 {
		t.Errorf("warnings %q", b.Warnings)
	}
	c.mustIssue(t, "order")
}

// reshape puts another shape on record.
func reshape(t *testing.T, store persist.Store) {
	t.Helper()
	shapes := persist.ShapesIn(store.Documents())
	known, err := shapes.Read(t.Context(), "order")
	if err == nil {
		_, err = shapes.Replace(t.Context(), known, "another", time.Now())
	}
	must.Do(t, err)
}

// Numbers are not handed over to or from gapless while other nodes may issue.
func TestForceGaplessWaits(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	now := time.Now()
	c.catalogue.states.now = func() time.Time { return now }
	other.catalogue.states.now = c.catalogue.states.now
	refuses := func(n *node, definition, why string) {
		t.Helper()
		_, _, err := n.Put(t.Context(), "order", []byte(definition), forced())
		if seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), why) {
			t.Fatalf("PUT %s: error %v, want %q", definition, err, why)
		}
	}
	enable := func(n *node, enabled bool) {
		t.Helper()
		must.Get(n.Enable(t.Context(), "order", enabled, always))(t)
	}
	follow := func() {
		t.Helper()
		must.Get(c.catalogue.reload(t.Context()))(t)
		must.Get(other.catalogue.reload(t.Context()))(t)
	}
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	follow()
	daily := `{"strategy":"gapless","reset":"daily","plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]}`
	for _, next := range []string{`{"strategy":"gapless"}`, daily, `{}`} {
		now = now.Add(time.Hour)
		refuses(c, next, "wait 20 s")
		enable(c, false)
		enable(c, true)
		enable(c, false)
		now = now.Add(settleTime - time.Second)
		refuses(c, next, "wait 1 s")
		refuses(other, next, "wait 20 s") // it has not followed yet
		follow()
		now = now.Add(time.Hour)
		enable(c, true)
		refuses(other, next, "wait 20 s") // it believes that nobody issues
		enable(c, false)
		refuses(other, next, "wait 20 s")
		follow()
		refuses(other, next, "wait 20 s") // it has missed a version in which c issued
		now = now.Add(settleTime)
		other.mustPut(t, "order", next, forced())
		c.mustPut(t, "order", next, forced()) // again, and nothing else was there in between
		enable(other, true)
		other.mustIssue(t, "order")
		follow()
		c.mustIssue(t, "order")
	}
}
