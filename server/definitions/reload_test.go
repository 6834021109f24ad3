package definitions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// fetchDuringReload lets a node fetch a biz type while it is disabled, and while so much is
// announced that the node misses the announcement.
func fetchDuringReload(t *testing.T) (store *faulty, c, other *node) {
	store = newFaulty(true)
	other = newNode(t, store)
	other.write(t, "order", 1, `{"step":1}`) // announced long ago
	c = newNode(t, store)
	must.Do(t, c.feed.Poll(t.Context()))
	read, written := make(chan struct{}), make(chan struct{})
	slow := &slowReads{Documents: store.Documents(), read: read, written: written}
	c.catalogue.records.documents = slow
	fetched := make(chan error)
	go func() { fetched <- c.catalogue.Fetch(t.Context(), "order") }()
	<-read // the definition that is about to change
	must.Get(other.Enable(t.Context(), "order", false, always))(t)
	for part := range 5 { // such as a seeding of 320 biz types, or a script that makes them
		var names []string
		for i := range 64 {
			names = append(names, fmt.Sprintf("bulk%d-%d", part, i))
		}
		must.Do(t, other.Editor.feed.AnnounceAll(t.Context(), kind, names))
	}
	if err := c.feed.Poll(t.Context()); err != nil { // has missed announcements: reload
		t.Fatal(err)
	}
	close(written)
	must.Do(t, <-fetched)
	for range 3 {
		must.Do(t, c.feed.Poll(t.Context()))
	}
	return store, c, other
}

// A node that has missed announcements reads again what it is fetching.
func TestReloadDuringAFetch(t *testing.T) {
	_, c, _ := fetchDuringReload(t)
	if id, err := c.issuer.Next(t.Context(), "order", 1); seqd.CodeOf(err) != seqd.CodeDisabled {
		t.Fatalf("order is disabled, and this node issues %v (error %v)", id, err)
	}
}

// The same, with another strategy forced after settleTime by a node that obeys all rules: no number
// is issued twice.
func TestForcedStrategyDuringAFetch(t *testing.T) {
	_, c, other := fetchDuringReload(t)
	_, _ = c.issuer.Next(t.Context(), "order", 1) // with the old strategy
	now := time.Now().Add(settleTime + time.Second)
	other.catalogue.states.now = func() time.Time { return now }
	other.mustPut(t, "order", `{"strategy":"gapless"}`, forced())
	must.Get(other.Enable(t.Context(), "order", true, always))(t)
	seen := make(map[string]string)
	for range 30 {
		for at, n := range map[string]*node{"gapless": other, "stale": c} {
			seq, err := n.issuer.Next(t.Context(), "order", 1)
			if err != nil {
				if at == "gapless" {
					t.Fatal(err)
				}
				continue
			}
			id := seq.IDs()[0]
			if before, twice := seen[id]; twice {
				t.Fatalf("%s was issued twice: by %s and %s", id, before, at)
			}
			seen[id] = at
		}
		must.Do(t, errors.Join(c.feed.Poll(t.Context()), other.feed.Poll(t.Context())))
	}
}

// A change that changes nothing is announced: what was written may have come long after it was
// announced, so that another node stopped looking.
func TestNothingNewIsAnnounced(t *testing.T) {
	store := newFaulty(true)
	here, other := newNode(t, store), newNode(t, store)
	here.mustPut(t, "order", `{}`, always)
	must.Do(t, other.feed.Poll(t.Context()))
	before := other.feed.Number()
	here.mustPut(t, "order", `{}`, always)
	must.Do(t, other.feed.Poll(t.Context()))
	if other.feed.Number() == before {
		t.Error("it is not announced")
	}
}

// A node was held up while a biz type got another strategy by the documented steps. It gives no
// number of the old strategy that the new one gives too, and goes on with the new one.
func TestHeldUpWhileTheStrategyChanges(t *testing.T) {
	const ordered, each, gapless = `{"sequencer":"store"}`, `{"sequencer":"store","ordering":"per-node","step":1,"maxStep":1}`, `{"strategy":"gapless"}`
	const inHand = `{"sequencer":"store","ordering":"per-node","step":50}`
	for _, change := range [][2]string{{ordered, gapless}, {each, gapless}, {inHand, gapless}, {gapless, ordered}, {gapless, each}} {
		t.Run(change[0]+" "+change[1], func(t *testing.T) {
			onFakeClock(t, func(t *testing.T) {
				store := newFaulty(true)
				here, late := newNode(t, store), newNode(t, store)
				here.mustPut(t, "order", change[0], always)
				must.Do(t, late.feed.Poll(t.Context()))
				given := make(map[string]bool)
				issue := func(n *node) error {
					seq, err := n.issuer.Next(t.Context(), "order", 1)
					if err != nil {
						return err
					}
					if id := seq.IDs()[0]; given[id] {
						t.Fatalf("%s was given twice", id)
					} else {
						given[id] = true
					}
					return nil
				}
				must.Do(t, errors.Join(issue(late), issue(here), issue(late)))
				must.Get(here.Enable(t.Context(), "order", false, always))(t)
				time.Sleep(settleTime + time.Second)
				here.mustPut(t, "order", change[1], forced())
				must.Get(here.Enable(t.Context(), "order", true, always))(t)
				repeated := func() *seqd.Call { return &seqd.Call{BizType: "order", Count: 1, Once: "key", AnswerKept: true} }
				must.Do(t, here.issuer.Issue(t.Context(), repeated()))
				if err := late.issuer.Issue(t.Context(), repeated()); err == nil {
					t.Error("a key got a second answer")
				}
				for range 3 {
					must.Do(t, issue(here))
					_ = issue(late)
				}
				must.Do(t, late.feed.Poll(t.Context()))
				time.Sleep(time.Minute) // what waits for the store is given up
				must.Do(t, errors.Join(late.feed.Poll(t.Context()), issue(late), issue(here)))
			})
		})
	}
}

// A node with definitions of its own was held up, so that the others did not count it any more,
// while they gave the biz type another strategy. It gives none of the numbers that it gets from then
// on, and refuses the biz type, also if its strategy gets none from the store.
func TestHeldUpWithDefinitionsOfItsOwn(t *testing.T) {
	for _, own := range []string{`"sequencer":"store"`, `"sequencer":"store","ordering":"per-node","step":1,"maxStep":1`, `"strategy":"snowflake"`} {
		onFakeClock(t, func(t *testing.T) {
			store := newFaulty(true)
			late := newNodeOf(t, store, configuredWith(t, `{bizTypesFrom: config, bizTypes: [{"name":"order",`+own+`}]}`))
			_, _ = late.issuer.Next(t.Context(), "order", 1)
			time.Sleep(10 * time.Second) // a new registry of machine IDs waits
			here, given := newNode(t, store), map[string]bool{late.mustIssue(t, "order"): true}
			note := func(id string) {
				if given[id] {
					t.Errorf("%s: %s was given twice", own, id)
				}
				given[id] = true
			}
			here.mustPut(t, "order", "{"+own+"}", always)
			must.Get(here.Enable(t.Context(), "order", false, always))(t)
			time.Sleep(settleTime + time.Second)
			here.mustPut(t, "order", `{"strategy":"gapless"}`, forced())
			must.Get(here.Enable(t.Context(), "order", true, always))(t)
			late.times.Add(1) // it writes that it is there
			go late.catalogue.Mend(t.Context())
			for range 12 {
				note(here.mustIssue(t, "order"))
				if seq, err := late.issuer.Next(t.Context(), "order", 1); err == nil {
					note(seq.IDs()[0])
				}
				time.Sleep(time.Second)
			}
			must.Code(t, must.Err(late.issuer.Next(t.Context(), "order", 1)), seqd.CodeConflict, "another strategy")
		})
	}
}

// stuck is an issuer whose biz types go on although they were to close.
type stuck struct{ Issuer }

func (stuck) Put(_ context.Context, _ string, build func() (issuer.Definition, error)) error {
	_, err := build()
	return errors.Join(err, context.DeadlineExceeded)
}
func (stuck) Disable(context.Context, string, *seqd.Error) error { return context.DeadlineExceeded }

// A node follows each change, but what it had before closes late. It gives nothing meanwhile.
func TestClosesLate(t *testing.T) {
	const segment, gapless = `{"sequencer":"store","ordering":"per-node","step":1,"maxStep":1}`, `{"strategy":"gapless"}`
	for _, change := range [][2]string{{segment, gapless}, {gapless, segment}} {
		onFakeClock(t, func(t *testing.T) {
			store := newFaulty(true)
			here, late := newNode(t, store), newNode(t, store)
			here.mustPut(t, "order", change[0], always)
			_ = must.Get(late.issuer.Next(t.Context(), "order", 1))(t)
			late.catalogue.issuer = stuck{late.issuer}
			must.Get(here.Enable(t.Context(), "order", false, always))(t)
			for range 6 {
				must.Do(t, late.feed.Poll(t.Context()))
				time.Sleep(4 * time.Second)
			}
			here.mustPut(t, "order", change[1], forced())
			must.Get(here.Enable(t.Context(), "order", true, always))(t)
			must.Do(t, late.feed.Poll(t.Context()))
			for range 3 { // it may have some in hand
				_, _ = late.issuer.Next(t.Context(), "order", 1)
			}
			if seq, err := late.issuer.Next(t.Context(), "order", 1); err == nil {
				t.Errorf("%s gave %v after it had become %s", change[0], seq.IDs(), change[1])
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = late.issuer.Close(ctx)
		})
	}
}

// Keys of a gapless biz type whose zone was forced to the east and back get numbers, each of them
// one.
func TestZoneForcedBack(t *testing.T) {
	c := newNode(t, newFaulty(false))
	given := make(map[string]string)
	for i, zone := range []string{"Pacific/Niue", "Pacific/Kiritimati", "Pacific/Niue", "UTC"} {
		c.mustPut(t, "order", fmt.Sprintf(`{"strategy":"gapless","reset":"daily","timeZone":%q,`+
			`"plugins":[{"name":"format","template":"{date:20060102}-{seq}"}]}`, zone), forced())
		for _, key := range slices.Concat(slices.Collect(maps.Keys(given)), []string{fmt.Sprint("new-", i)}) {
			call := &seqd.Call{BizType: "order", Count: 1, Once: key, AnswerKept: true}
			must.Do(t, c.issuer.Issue(t.Context(), call))
			got := call.Sequence.IDs()[0]
			if before, repeated := given[key]; repeated != call.Replayed || repeated && got != before {
				t.Errorf("%q got %s in %s, and %q before", key, got, zone, before)
			}
			given[key] = got
		}
	}
}
