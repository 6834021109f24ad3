package definitions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
)

// write writes a definition that nobody announces.
func (c *node) write(t testing.TB, name string, revision int64, definition string) {
	t.Helper()
	doc := c.records.document(name, revision, stored{Definition: []byte(definition), Enabled: true, Source: fromAPI})
	write := c.records.documents.Update
	if revision == 1 {
		write = c.records.documents.Create
	}
	must.Do(t, write(t.Context(), doc))
}

func (c *node) wantHeld(t *testing.T, names ...string) {
	t.Helper()
	must.Equal(t, c.catalogue.Count(), len(names), "the biz types held")
	for _, name := range names {
		if _, held := c.catalogue.states.get(name); !held {
			t.Errorf("%s is not held", name)
		}
	}
}

// A node begins without the biz types of the store, and holds those that are asked for.
func TestNothingIsReadBeforeItIsNeeded(t *testing.T) {
	store := newFaulty(true)
	newNode(t, store).mustPut(t, "order", `{}`, always)
	newNode(t, store).mustPut(t, "invoice", `{"start":7}`, always)
	late := newNode(t, store)
	late.wantHeld(t)
	must.Equal(t, late.mustIssue(t, "invoice"), "7")
	late.wantHeld(t, "invoice")
	must.Get(late.catalogue.reload(t.Context()))(t)
	late.wantHeld(t, "invoice")
}

// A name that does not exist is looked up once in a while, until it is announced.
func TestAbsentName(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	now := time.Now()
	c.catalogue.states.now = func() time.Time { return now }
	c.awaitRefusal(t, "order", seqd.CodeUnknownBizType)
	other.write(t, "order", 1, `{}`) // as a tool would that announces nothing
	c.awaitRefusal(t, "order", seqd.CodeUnknownBizType)
	now = now.Add(absentFor)
	c.mustIssue(t, "order")

	c.awaitRefusal(t, "invoice", seqd.CodeUnknownBizType)
	other.mustPut(t, "invoice", `{}`, always)
	must.Do(t, c.feed.Poll(t.Context()))
	c.mustIssue(t, "invoice")
	for i := range mostAbsent + 10 {
		c.catalogue.absent.add(fmt.Sprint(i), now)
	}
	if n := len(c.catalogue.absent.until); n > mostAbsent {
		t.Errorf("%d names are known not to exist", n)
	}
}

// A change that is written while its biz type is fetched is found: by the message that comes after
// it, or by the next poll.
func TestChangeDuringAFetch(t *testing.T) {
	for name, learn := range map[string]func(c *node, change func()) error{
		"message": func(c *node, change func()) error {
			heard := make(chan error)
			go func() { // it waits for the fetch
				change()
				heard <- c.catalogue.changed(t.Context(), "order")
			}()
			return <-heard
		},
		"poll": func(c *node, change func()) error {
			change()
			return c.feed.Poll(t.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFaulty(true)
			other := newNode(t, store)
			other.mustPut(t, "order", `{}`, always)
			c := newNode(t, store)
			read, written := make(chan struct{}), make(chan struct{})
			slow := &slowReads{Documents: store.Documents(), read: read, written: written}
			c.catalogue.records.documents = slow
			fetched := make(chan error)
			go func() { fetched <- c.catalogue.Fetch(t.Context(), "order") }()
			<-read // the definition that is about to change
			err := learn(c, func() {
				must.Report(t, must.Err(other.Enable(t.Context(), "order", false, always)))
				close(written)
			})
			must.Do(t, <-fetched)
			must.Do(t, err)
			c.awaitRefusal(t, "order", seqd.CodeDisabled)
		})
	}
}

// slowReads returns from its first read when something else was written.
type slowReads struct {
	persist.Documents
	once          sync.Once
	read, written chan struct{}
}

func (s *slowReads) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, err := s.Documents.Read(ctx, kind, key)
	s.once.Do(func() { close(s.read); <-s.written })
	return doc, err
}

// A change of a biz type that was announced, dropped and fetched before it was written is found at
// the next poll.
func TestChangeAfterADrop(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	other.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	store.docs.before = func(context.Context, persist.Document) { // between announcement and write
		must.Report(t, c.feed.Poll(t.Context()))
		c.catalogue.issuer.Idle("order")
		if !c.catalogue.drop("order") {
			t.Error("it was not dropped")
		}
		must.Report(t, c.feed.Poll(t.Context()))
		c.mustIssue(t, "order")
	}
	must.Get(other.Enable(t.Context(), "order", false, always))(t)
	must.Do(t, c.feed.Poll(t.Context()))
	c.awaitRefusal(t, "order", seqd.CodeDisabled)
}

// What is written by this node is held by it, also if it was dropped meanwhile, and an older
// version than the store has never takes effect.
func TestLearnWhatIsNotHeld(t *testing.T) {
	store := newFaulty(false) // nobody polls
	c := newNode(t, store)
	c.mustPut(t, "order", `{"start":5}`, always)
	c.wantHeld(t, "order")
	old, _, err := c.records.read(t.Context(), "order")
	must.Do(t, err)
	c.mustPut(t, "order", `{"start":50}`, always)
	if !c.catalogue.drop("order") {
		t.Fatal("it was not dropped")
	}
	c.wantHeld(t)
	c.catalogue.learn(t.Context(), old)
	must.Equal(t, c.mustIssue(t, "order"), "50", "the ID, if no old version took effect,")
}

// limited returns a node that keeps few biz types open.
func limited(t *testing.T, store persist.Store, live int) *node {
	n := newNode(t, store)
	n.cfg.LiveBizTypes = live
	return n
}

// A node keeps few biz types open, whatever it is asked for; their numbers continue.
func TestLiveBizTypes(t *testing.T) {
	store := newFaulty(true)
	c := limited(t, store, 10)
	const many = 300
	for i := range many {
		c.write(t, fmt.Sprint("type", i), 1, `{}`)
	}
	for round := range 2 {
		for i := range many {
			must.Equal(t, c.mustIssue(t, fmt.Sprint("type", i)), fmt.Sprint(round+1), "type%d in round %d", i, round)
		}
	}
	c.awaitDrops()
	// One more for each that found only biz types in use when it was to make room.
	if n := c.catalogue.Count(); n > 10+mostLooks {
		t.Errorf("%d biz types are held", n)
	}
	must.Equal(t, c.catalogue.residents.count(), c.catalogue.Count(), "the biz types in the queue, which are those held,")
}

// awaitDrops waits until nothing is being dropped.
func (c *node) awaitDrops() {
	closing := c.catalogue.residents.closing
	for range cap(closing) {
		closing <- struct{}{}
	}
	for range cap(closing) {
		<-closing
	}
}

// What is used stays, also if very many others come.
func TestWhatIsUsedStays(t *testing.T) {
	store := newFaulty(true)
	c := limited(t, store, 10)
	c.write(t, "busy", 1, `{}`)
	for i := range 200 {
		name := fmt.Sprint("type", i)
		c.write(t, name, 1, `{}`)
		c.mustIssue(t, name)
		c.mustIssue(t, "busy")
		c.awaitDrops()
		if _, held := c.catalogue.states.get("busy"); !held {
			t.Fatalf("dropped after %d others", i)
		}
	}
}

// Biz types that nobody uses are dropped, except those of the configuration, those that cannot be
// made anew, and those that were disabled a short time ago.
func TestTidy(t *testing.T) {
	store := newFaulty(true)
	c := newNodeOf(t, store, configuredWith(t, `bizTypes: [{name: configured}]`))
	for name, definition := range map[string]string{
		"idle": `{}`, "stats": `{"plugins":[{"name":"stats"}]}`, "limited": `{"plugins":[{"name":"rate-limit","rate":0.001,"burst":5}]}`,
		"formatted": formatted, "gapless": `{"strategy":"gapless"}`, "off": `{}`, "gone": `{}`,
	} {
		c.mustPut(t, name, definition, always)
		c.mustIssue(t, name)
	}
	c.mustIssue(t, "configured")
	must.Get(c.Enable(t.Context(), "off", false, always))(t)
	must.Get(c.Delete(t.Context(), "gone", always))(t)
	c.catalogue.tidy(t.Context())
	c.wantHeld(t, "configured", "idle", "stats", "limited", "formatted", "gapless", "off") // all were used
	c.catalogue.tidy(t.Context())
	c.wantHeld(t, "configured", "stats", "limited", "off")
	must.Equal(t, c.mustIssue(t, "formatted"), "A-2")
	now := time.Now().Add(keepStopped)
	c.catalogue.states.now = func() time.Time { return now }
	c.catalogue.tidy(t.Context())
	c.catalogue.tidy(t.Context())
	c.wantHeld(t, "configured", "stats", "limited")
	c.awaitRefusal(t, "off", seqd.CodeDisabled)
	c.awaitRefusal(t, "gone", seqd.CodeUnknownBizType)
}

// configuredWith returns a configuration. Callers wait longer than usual, for a machine that is
// slow.
func configuredWith(t testing.TB, yaml string) *config.Config {
	t.Helper()
	patient := map[string]string{"segment.acquireTimeout": "1m", "server.writeTimeout": "1h"}
	return must.Get(config.LoadYAML([]byte(yaml), config.Sources{Flags: patient}))(t)
}

// While the store is away nothing is dropped: what is in hand is all that there is.
func TestNothingIsDroppedWhileTheStoreIsAway(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "order", `{"ordering":"per-node"}`, always)
	c.mustIssue(t, "order")
	c.catalogue.records.documents = unreachable{store.Documents()}
	c.catalogue.tidy(t.Context())
	c.catalogue.tidy(t.Context())
	c.wantHeld(t, "order")
	c.mustIssue(t, "order")
	c.awaitRefusal(t, "other", seqd.CodeStoreUnavailable)
}

type unreachable struct{ persist.Documents }

func (unreachable) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, persist.ErrUnavailable
}

// Another strategy is forced upon a biz type by a node that did not hold it: from then on it knows
// that nobody issues.
func TestForceWhatIsNotHeld(t *testing.T) {
	store := newFaulty(true)
	c, other := newNode(t, store), newNode(t, store)
	now := time.Now()
	other.catalogue.states.now = func() time.Time { return now }
	c.mustPut(t, "order", `{}`, always)
	c.mustIssue(t, "order")
	must.Get(c.Enable(t.Context(), "order", false, always))(t)
	gapless := []byte(`{"strategy":"gapless"}`)
	_, _, err := other.Put(t.Context(), "order", gapless, forced())
	if seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), "wait 20 s") {
		t.Fatalf("error %v", err)
	}
	now = now.Add(settleTime)
	other.catalogue.tidy(t.Context())
	other.mustPut(t, "order", string(gapless), forced())
}

// Three nodes that hold very little at a time issue and change: no number is issued twice, numbers
// of a strict biz type increase, and in the end all do what the store says.
func TestDropsOnThreeNodes(t *testing.T) {
	onFakeClock(t, dropsOnThreeNodes)
}

func dropsOnThreeNodes(t *testing.T) {
	store := newFaulty(true)
	nodes := []*node{limited(t, store, 2), limited(t, store, 2), limited(t, store, 2)}
	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint("type", i))
		nodes[0].mustPut(t, names[i], `{"step":7}`, always)
	}
	done := make(chan struct{})
	var issuing, others sync.WaitGroup
	var mu sync.Mutex // guards seen
	seen := make(map[string]bool)
	every := func(n *node, pause time.Duration, f func() error) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(rand.N(pause)):
				}
				must.Report(t, f())
			}
		})
	}
	for _, n := range nodes {
		every(n, 20*time.Millisecond, func() error { return n.feed.Poll(t.Context()) })
		every(n, 2*time.Millisecond, func() error { n.catalogue.tidy(t.Context()); return nil })
		every(n, 5*time.Millisecond, func() error {
			_, err := n.Patch(t.Context(), names[rand.IntN(len(names))], fmt.Appendf(nil, `{"step":%d}`, 1+rand.IntN(20)), always)
			return err
		})
		for range 4 {
			issuing.Go(func() {
				last := make(map[string]int64)
				for range 100 {
					time.Sleep(rand.N(time.Millisecond))
					name := names[rand.IntN(len(names))]
					seq, err := n.issuer.Next(t.Context(), name, 1+rand.IntN(3))
					if err != nil {
						t.Errorf("%s: %v", name, err)
						continue
					}
					mu.Lock()
					for number := range seq.Numbers() {
						if at := fmt.Sprint(name, "-", number); seen[at] {
							t.Errorf("%s twice", at)
						} else {
							seen[at] = true
						}
						if number <= last[name] {
							t.Errorf("%s: %d after %d", name, number, last[name])
						}
						last[name] = number
					}
					mu.Unlock()
				}
			})
		}
	}
	issuing.Wait()
	close(done)
	others.Wait()
	for _, n := range nodes {
		must.Report(t, n.feed.Poll(t.Context()))
		for _, name := range names {
			converged(t, n, name)
		}
	}
}

// converged wants a node to do what the store says.
func converged(t *testing.T, node *node, name string) {
	t.Helper()
	_, said, err := node.records.read(t.Context(), name)
	must.Do(t, err)
	want := seqd.Code("")
	switch {
	case said.Deleted || said.Definition == nil:
		want = seqd.CodeUnknownBizType
	case !said.Enabled:
		want = seqd.CodeDisabled
	}
	must.Code(t, must.Err(node.issuer.Next(t.Context(), name, 1)), want, "%s: error", name)
	if k, _ := node.catalogue.states.get(name); k.said != said.digest() {
		t.Errorf("%s: the node has %+v, the store says %+v", name, k, said)
	}
}

// Only what is configured is read at the start, however much there is.
func TestBuildReadsWhatIsConfigured(t *testing.T) {
	store := newFaulty(true)
	c := newNode(t, store)
	c.mustPut(t, "configured", `{"start":7}`, always)
	c.mustPut(t, "other", `{}`, always)
	late := newNodeOf(t, store, configuredWith(t, `bizTypes: [{name: configured}, {name: fresh}]`))
	late.wantHeld(t, "configured", "fresh")
	must.Equal(t, late.mustIssue(t, "configured"), "7", "the ID, as the store decides,")
	if _, err := c.issuer.Next(t.Context(), "fresh", 1); err != nil {
		t.Errorf("it is not in the store: %v", err)
	}
}
