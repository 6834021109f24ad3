package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
)

// sharedStore is a memory that several nodes of a test share.
type sharedStore struct{ persist.Store }

func (sharedStore) Shared() bool { return true }

// reader is a node that follows documents of the kind "thing" and keeps what they say.
type reader struct {
	*feed
	mu      sync.Mutex
	things  map[string]string
	reloads int
}

func newReader(t *testing.T, store persist.Store) *reader {
	cfg := config.Default()
	r := &reader{things: make(map[string]string)}
	r.feed = newFeed(&runtime{cfg: &cfg, store: store, options: options{now: time.Now, log: slog.New(slog.DiscardHandler)}})
	keep := func(key, body string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.things[key] = body
	}
	r.add("thing", follower{
		changed: func(ctx context.Context, key string) error {
			doc, err := store.Documents().Read(ctx, "thing", key)
			if errors.Is(err, persist.ErrNotFound) {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.things, key)
				return nil
			}
			if err == nil {
				keep(key, doc.Body)
			}
			return err
		},
		reload: func(ctx context.Context) error {
			r.reloads++
			docs, err := store.Documents().List(ctx, "thing", "", 10_000)
			for _, doc := range docs {
				keep(doc.Key, doc.Body)
			}
			return err
		},
	})
	if err := r.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *reader) thing(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.things[key]
}

// putThing announces and writes a document.
func putThing(t *testing.T, f *feed, key, body string, revision int64) {
	t.Helper()
	if err := f.announce(t.Context(), "thing", key); err != nil {
		t.Fatal(err)
	}
	writeThing(t, f.store, key, body, revision)
}

func writeThing(t *testing.T, store persist.Store, key, body string, revision int64) {
	t.Helper()
	doc := persist.Document{Kind: "thing", Key: key, Revision: revision, Body: body}
	write := store.Documents().Update
	if revision == 1 {
		write = store.Documents().Create
	}
	if err := write(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
}

// Without Redis, a change is found by the next poll.
func TestPollFindsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		a, b := newReader(t, store), newReader(t, store)
		go b.follow(t.Context())
		for i := range 5 {
			putThing(t, a.feed, "x", strconv.Itoa(i), int64(i+1))
			time.Sleep(pollInterval)
			synctest.Wait()
			if got := b.thing("x"); got != strconv.Itoa(i) {
				t.Errorf("x is %q, want %d", got, i)
			}
		}
		if b.reloads > 0 {
			t.Errorf("everything was read %d times", b.reloads)
		}
	})
}

// A document that is written long after it was announced, by a node that ends before it can say so,
// is found all the same.
func TestPollFindsLateWrites(t *testing.T) {
	for _, late := range []time.Duration{0, pollInterval / 2, 2 * pollInterval, 3*pollInterval + 1, watchFor - pollInterval} {
		synctest.Test(t, func(t *testing.T) {
			store := sharedStore{memory.New(time.Now)}
			a := newReader(t, store)
			if late > 0 {
				go newReader(t, store).follow(t.Context())
			}
			if err := a.announce(t.Context(), "thing", "x"); err != nil {
				t.Fatal(err)
			}
			// which begin after the announcement
			b, early := newReader(t, store), newReader(t, store)
			go b.follow(t.Context())
			go early.follow(t.Context())
			time.Sleep(late)
			writeThing(t, store, "x", "late", 1)
			time.Sleep(pollInterval + time.Second)
			synctest.Wait()
			if b.thing("x") != "late" || early.thing("x") != "late" {
				t.Errorf("written %s late: x is %q and %q", late, b.thing("x"), early.thing("x"))
			}
		})
	}
}

// A node that misses more announcements than are kept reads everything.
func TestPollAfterManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		a, b := newReader(t, store), newReader(t, store)
		for i := range mostRecent + 1 {
			putThing(t, a.feed, fmt.Sprint("x", i), "y", 1)
		}
		go b.follow(t.Context())
		time.Sleep(pollInterval)
		synctest.Wait()
		for i := range mostRecent + 1 {
			if b.thing(fmt.Sprint("x", i)) != "y" {
				t.Errorf("x%d was not seen", i)
			}
		}
		if b.reloads != 1 {
			t.Errorf("everything was read %d times", b.reloads)
		}
	})
}

// Everyone who announces at once is heard.
func TestAnnouncementsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		b := newReader(t, store)
		go b.follow(t.Context())
		var wg sync.WaitGroup
		for i := range 20 {
			a := newReader(t, store)
			wg.Go(func() { putThing(t, a.feed, fmt.Sprint("x", i), "y", 1) })
		}
		wg.Wait()
		time.Sleep(pollInterval)
		synctest.Wait()
		for i := range 20 {
			if b.thing(fmt.Sprint("x", i)) != "y" {
				t.Errorf("x%d was not seen", i)
			}
		}
	})
}

// What is deleted is seen as well; a store that is away for a while is read afterwards, and nothing
// that was announced meanwhile is lost.
func TestPollAfterTheStoreWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		var unreached atomic.Bool
		b := newReader(t, away{store, &unreached, func(context.Context) error { return nil }})
		a := newReader(t, store)
		go b.follow(t.Context())
		putThing(t, a.feed, "x", "1", 1)
		time.Sleep(pollInterval)
		synctest.Wait()
		unreached.Store(true)
		if err := a.announce(t.Context(), "thing", "x"); err != nil {
			t.Fatal(err)
		}
		if err := store.Documents().Delete(t.Context(), "thing", "x", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * watchFor)
		synctest.Wait()
		if b.thing("x") != "1" {
			t.Errorf("x is %q while the store is away", b.thing("x"))
		}
		unreached.Store(false)
		time.Sleep(pollInterval)
		synctest.Wait()
		if _, there := b.things["x"]; there {
			t.Error("x is still there")
		}
	})
}

// Announcements that cannot be read, or that went back, count as missed; they keep no node from
// starting, and nobody from changing anything.
func TestPollOfWrongAnnouncements(t *testing.T) {
	for name, body := range map[string]string{"damaged": "}", "none": "{}", "older": `{"last":1,"recent":[{"n":1,"kind":"thing","key":"old"}]}`} {
		t.Run(name, func(t *testing.T) {
			store := sharedStore{memory.New(time.Now)}
			writer, running := newReader(t, store), newReader(t, store)
			for i := range 3 {
				putThing(t, writer.feed, strconv.Itoa(i), "here", 1)
			}
			if err := running.poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			putThing(t, writer.feed, "missed", "here", 1)
			doc, err := store.Documents().Read(t.Context(), feedKind, feedKey)
			if err != nil {
				t.Fatal(err)
			}
			doc.Revision++
			doc.Body = body
			if err := store.Documents().Update(t.Context(), doc); err != nil {
				t.Fatal(err)
			}
			late := newReader(t, store)
			if err := running.poll(t.Context()); err != nil {
				t.Fatal(err)
			}
			putThing(t, writer.feed, "later", "here", 1)
			for _, r := range []*reader{running, late} {
				if err := r.poll(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if running.thing("missed") != "here" || running.thing("later") != "here" || late.thing("later") != "here" {
				t.Errorf("%v and %v", running.things, late.things)
			}
		})
	}
}

// A change that takes long to follow keeps no other from being followed, and is followed to its
// end.
func TestPollPastWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		writer, r := newReader(t, store), newReader(t, store)
		hangs, seen := make(chan struct{}), make(map[string]int)
		var mu sync.Mutex // guards seen
		r.add("thing", follower{
			changed: func(_ context.Context, key string) error {
				if key == "slow" {
					<-hangs
				}
				mu.Lock()
				defer mu.Unlock()
				seen[key]++
				return nil
			},
			reload: func(context.Context) error { return nil },
		})
		for _, key := range []string{"a", "slow", "b"} {
			putThing(t, writer.feed, key, "here", 1)
		}
		for range 2 {
			if err := r.poll(t.Context()); err != nil {
				t.Error(err)
			}
		}
		mu.Lock()
		if seen["a"] != 2 || seen["b"] != 2 || seen["slow"] != 0 {
			t.Errorf("%v", seen)
		}
		mu.Unlock()
		close(hangs)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if seen["slow"] != 2 { // it was announced again meanwhile
			t.Errorf("%v", seen)
		}
	})
}
