package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// sharedStore is a memory that several nodes of a test share.
type sharedStore struct{ persist.Store }

func (sharedStore) Shared() bool { return true }

// away is a store whose documents cannot be read while it is.
type away struct {
	persist.Store
	is atomic.Bool
}

func (a *away) Documents() persist.Documents { return awayDocuments{a.Store.Documents(), a} }

type awayDocuments struct {
	persist.Documents
	store *away
}

func (d awayDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if d.store.is.Load() {
		return persist.Document{}, persist.ErrUnavailable
	}
	return d.Documents.Read(ctx, kind, key)
}

func (d awayDocuments) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if d.store.is.Load() {
		return nil, persist.ErrUnavailable
	}
	return d.Documents.List(ctx, kind, after, limit)
}

// testNode is a node that follows documents of the kind "thing" and keeps what they say.
type testNode struct {
	*Feed
	mu      sync.Mutex
	things  map[string]string
	reloads int
}

func newNode(t *testing.T, store persist.Store) *testNode {
	r := &testNode{things: make(map[string]string)}
	r.Feed = New(Options{Documents: store.Documents(), Shared: store.Shared(), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	keep := func(key, body string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.things[key] = body
	}
	r.Add("thing", Follower{
		Changed: func(ctx context.Context, key string) error {
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
		Reload: func(ctx context.Context) (left []string, err error) {
			r.reloads++
			docs, err := store.Documents().List(ctx, "thing", "", 10_000)
			for _, doc := range docs {
				keep(doc.Key, doc.Body)
			}
			return nil, err
		},
	})
	must.Do(t, r.Begin(t.Context()))
	return r
}

func (r *testNode) thing(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.things[key]
}

// putThing announces and writes a document.
func putThing(t *testing.T, f *Feed, key, body string, revision int64) {
	t.Helper()
	must.Do(t, f.Announce(t.Context(), "thing", key))
	writeThing(t, f.opts.Documents, key, body, revision)
}

func writeThing(t *testing.T, docs persist.Documents, key, body string, revision int64) {
	t.Helper()
	doc := persist.Document{Kind: "thing", Key: key, Revision: revision, Body: body}
	write := docs.Update
	if revision == 1 {
		write = docs.Create
	}
	must.Do(t, write(t.Context(), doc))
}

// Without Redis, a change is found by the next poll.
func TestPollFindsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		a, b := newNode(t, store), newNode(t, store)
		go b.Follow(t.Context())
		for i := range 5 {
			putThing(t, a.Feed, "x", strconv.Itoa(i), int64(i+1))
			time.Sleep(pollInterval)
			synctest.Wait()
			must.Equal(t, b.thing("x"), strconv.Itoa(i), "x")
		}
		if b.reloads > 0 {
			t.Errorf("everything was read %d times", b.reloads)
		}
	})
}

// A document is found even if it is written long after it was announced, by a node that ends before
// it can publish that.
func TestPollFindsLateWrites(t *testing.T) {
	for _, late := range []time.Duration{0, pollInterval / 2, 2 * pollInterval, 3*pollInterval + 1, WatchFor - pollInterval} {
		synctest.Test(t, func(t *testing.T) {
			store := sharedStore{memory.New(time.Now)}
			a := newNode(t, store)
			if late > 0 {
				go newNode(t, store).Follow(t.Context())
			}
			must.Do(t, a.Announce(t.Context(), "thing", "x"))
			// which begin after the announcement
			b, early := newNode(t, store), newNode(t, store)
			go b.Follow(t.Context())
			go early.Follow(t.Context())
			time.Sleep(late)
			writeThing(t, store.Documents(), "x", "late", 1)
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
		a, b := newNode(t, store), newNode(t, store)
		for i := range MostRecent + 1 {
			putThing(t, a.Feed, fmt.Sprint("x", i), "y", 1)
		}
		go b.Follow(t.Context())
		time.Sleep(pollInterval)
		synctest.Wait()
		for i := range MostRecent + 1 {
			must.Equal(t, b.thing(fmt.Sprint("x", i)), "y", "x%d was not seen", i)
		}
		must.Equal(t, b.reloads, 1, "the times that everything was read")
	})
}

// Everyone who announces at once is heard.
func TestAnnouncementsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		b := newNode(t, store)
		go b.Follow(t.Context())
		var wg sync.WaitGroup
		for i := range 20 {
			a := newNode(t, store)
			wg.Go(func() { putThing(t, a.Feed, fmt.Sprint("x", i), "y", 1) })
		}
		wg.Wait()
		time.Sleep(pollInterval)
		synctest.Wait()
		for i := range 20 {
			must.Equal(t, b.thing(fmt.Sprint("x", i)), "y", "x%d was not seen", i)
		}
	})
}

// Deletions are followed too. After the store was away it is read again, and nothing that was
// announced meanwhile is lost.
func TestPollAfterTheStoreWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		g := &away{Store: store}
		a, b := newNode(t, store), newNode(t, g)
		go b.Follow(t.Context())
		putThing(t, a.Feed, "x", "1", 1)
		time.Sleep(pollInterval)
		synctest.Wait()
		g.is.Store(true)
		must.Do(t, a.Announce(t.Context(), "thing", "x"))
		must.Do(t, store.Documents().Delete(t.Context(), "thing", "x", 1))
		time.Sleep(3 * WatchFor)
		synctest.Wait()
		must.Equal(t, b.thing("x"), "1", "x while the store is away")
		g.is.Store(false)
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
			writer, running := newNode(t, store), newNode(t, store)
			for i := range 3 {
				putThing(t, writer.Feed, strconv.Itoa(i), "here", 1)
			}
			must.Do(t, running.Poll(t.Context()))
			putThing(t, writer.Feed, "missed", "here", 1)
			doc := must.Get(store.Documents().Read(t.Context(), kind, key))(t)
			doc.Revision++
			doc.Body = body
			must.Do(t, store.Documents().Update(t.Context(), doc))
			late := newNode(t, store)
			must.Do(t, running.Poll(t.Context()))
			putThing(t, writer.Feed, "later", "here", 1)
			for _, r := range []*testNode{running, late} {
				must.Do(t, r.Poll(t.Context()))
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
		writer, r := newNode(t, store), newNode(t, store)
		hangs, seen := make(chan struct{}), make(map[string]int)
		var mu sync.Mutex // guards seen
		r.Add("thing", Follower{
			Changed: func(_ context.Context, key string) error {
				if key == "slow" {
					<-hangs
				}
				mu.Lock()
				defer mu.Unlock()
				seen[key]++
				return nil
			},
			Reload: func(context.Context) ([]string, error) { return nil, nil },
		})
		for _, key := range []string{"a", "slow", "b"} {
			putThing(t, writer.Feed, key, "here", 1)
		}
		for range 2 {
			must.Report(t, r.Poll(t.Context()))
		}
		mu.Lock()
		if seen["a"] != 2 || seen["b"] != 2 || seen["slow"] != 0 {
			t.Errorf("%v", seen)
		}
		if others, slow := r.Unfollowed("thing", "a"), r.Unfollowed("thing", "slow"); others != 0 || slow != pollInterval {
			t.Errorf("%v unfollowed, and what hangs %v", others, slow)
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

// A document that cannot be followed is the only one that counts as unfollowed, and the only one
// that is read again, until it can be. A kind whose documents cannot be listed counts as a whole.
func TestUnfollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		writer, r := newNode(t, store), newNode(t, store)
		bad, left, reloads := true, []string{"bad"}, 0
		failing := func() error {
			if bad {
				return persist.ErrNewer
			}
			return nil
		}
		r.Add("thing", Follower{
			Changed: func(_ context.Context, key string) error {
				if key == "bad" {
					return failing()
				}
				return nil
			},
			Reload: func(context.Context) ([]string, error) { reloads++; return left, failing() },
		})
		poll := func(all int, wanted map[string]time.Duration) {
			t.Helper()
			if err := r.Poll(t.Context()); (err != nil) != bad {
				t.Errorf("the poll says %v", err)
			}
			must.Equal(t, reloads, all, "the times that all were read")
			for key, want := range wanted {
				kind, key, _ := strings.Cut(key, " ")
				must.Equal(t, r.Unfollowed(kind, key), want, "%s %s", kind, key)
			}
			time.Sleep(pollInterval)
		}
		time.Sleep(pollInterval)
		putThing(t, writer.Feed, "bad", "here", 1)
		miss := func(round string) {
			for i := range MostRecent + 1 {
				putThing(t, writer.Feed, fmt.Sprint(round, i), "here", 1)
			}
		}
		poll(0, map[string]time.Duration{"thing bad": pollInterval, "thing good": 0, "token good": 0})
		time.Sleep(WatchFor)
		miss("many")
		poll(1, map[string]time.Duration{"thing bad": 2*pollInterval + WatchFor, "thing good": 0, "token good": 0})
		poll(1, map[string]time.Duration{"thing bad": 3*pollInterval + WatchFor, "thing good": 0, "token good": 0})
		left = nil
		miss("more")
		poll(2, map[string]time.Duration{"thing bad": 4*pollInterval + WatchFor, "thing good": pollInterval, "token good": 0})
		left = []string{"bad"}
		poll(3, map[string]time.Duration{"thing bad": 5*pollInterval + WatchFor, "thing good": 0, "token good": 0})
		poll(3, map[string]time.Duration{"thing bad": 6*pollInterval + WatchFor, "thing good": 0, "token good": 0})
		bad = false
		poll(3, map[string]time.Duration{"thing bad": 0, "thing good": 0})
	})
}

// Announcements that were missed while all documents were being read are read about after that,
// also if it fails at first.
func TestMissedWhileReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		writer, r := newNode(t, store), newNode(t, store)
		reloads := 0
		r.Add("thing", Follower{
			Changed: func(context.Context, string) error { return nil },
			Reload: func(context.Context) ([]string, error) {
				switch reloads++; reloads {
				case 1:
					time.Sleep(2*pollInterval + 2*time.Second)
				case 2:
					return nil, persist.ErrUnavailable
				}
				return nil, nil
			},
		})
		for poll := range 3 {
			if poll < 2 {
				must.Do(t, writer.AnnounceAll(t.Context(), "thing", slices.Repeat([]string{"many"}, MostRecent)))
				must.Do(t, writer.Announce(t.Context(), "thing", "one more"))
			}
			must.Report(t, r.Poll(t.Context()))
			time.Sleep(pollInterval + time.Second)
		}
		must.Equal(t, reloads, 3, "the times that all were read")
	})
}

// Whoever may publish, and nothing else, makes a node read little: names of documents that it
// follows, few at a time, and never all of them. What is left out is found by the next poll.
func TestHearLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sharedStore{memory.New(time.Now)}
		r, hangs := newNode(t, store), make(chan struct{})
		var reads atomic.Int64
		r.Add("thing", Follower{
			Changed: func(ctx context.Context, key string) error {
				reads.Add(1)
				<-hangs
				return persist.ErrUnavailable
			},
			Reload: func(context.Context) ([]string, error) { reads.Add(1); return nil, nil },
		})
		messages := make(chan *redis.Message)
		ended := make(chan struct{})
		go func() {
			r.attend(t.Context(), messages)
			close(ended)
		}()
		say := func(n int, message func(i int) string) {
			for i := range n {
				messages <- &redis.Message{Payload: message(i)}
			}
			synctest.Wait()
		}
		for _, strange := range []string{"", "{", `{"kind":"other","key":"x"}`, `{"kind":"thing","key":"x\n"}`, `{"kind":"thing","key":""}`, `{"kind":"thing","key":"x", "more":"` + strings.Repeat("x", 1000) + `"}`} {
			say(1, func(int) string { return strange })
		}
		if got, ignored := reads.Load(), r.Ignored(); got != 0 || ignored != 6 {
			t.Errorf("%d reads, %d messages ignored", got, ignored)
		}
		say(100, func(i int) string { return fmt.Sprintf(`{"kind":"thing","key":"x%d"}`, i) })
		must.Equal(t, reads.Load(), parallelHeard, "the documents read at once")
		close(hangs)
		synctest.Wait()
		must.Equal(t, len(r.watched.all())+len(r.reader.reading)+len(r.hearing), 0, "the documents remembered because somebody named them")
		time.Sleep(pollInterval)
		say(mostHeard, func(int) string { return "" })
		select {
		case <-ended:
			t.Error("the node left the channel too early")
		default:
		}
		say(1, func(int) string { return "" })
		<-ended
	})
}
