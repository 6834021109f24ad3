package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// feed tells all nodes of a cluster which documents change. A node that changes one first announces
// it in the store, then writes it, then publishes it by Redis. The others read it when they hear of
// it by Redis, which is at once, and for a while at every poll once they have read the
// announcement: so a change is found also when its writer ended in between, or Redis lost the
// message, or there is none. It is safe for concurrent use.
type feed struct {
	*runtime
	followers map[string]follower // by the kind of documents

	failures atomic.Int64 // looks at the announcements that failed
	failed   atomic.Bool  // the last one did

	mu    sync.Mutex // guards what follows
	seen  int64      // the number of the newest announcement that was read
	watch map[subject]time.Time
	// looking are the documents that are being read, and whether they are to be read again after
	// that.
	looking map[subject]bool
}

// follower does what documents of one kind say.
type follower struct {
	// changed reads a document that may have changed, be gone, or still be to come.
	changed func(ctx context.Context, key string) error
	// reload does what all documents of the kind say.
	reload func(ctx context.Context) error
}

// subject is a document.
type subject struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
}

// announcement is a line of the feed's document.
type announcement struct {
	Number int64 `json:"n"`
	subject
}

// announcements is the body of the feed's document.
type announcements struct {
	// Last is the number of the newest one.
	Last int64 `json:"last"`
	// Recent are the newest ones, ascending.
	Recent []announcement `json:"recent"`
}

const (
	feedKind = "feed"
	feedKey  = "changes"
	// mostRecent is how many announcements are kept. A node that has missed more reads everything.
	mostRecent = 256
	// pollInterval is the pause between two looks at the feed.
	pollInterval = 5 * time.Second
	// watchFor is for how long an announced document is read again at each poll: longer than a
	// write to the store can take.
	watchFor = 30 * time.Second
	// announceTries bounds how often an announcement is tried again that another one came before.
	announceTries = 50
)

func newFeed(r *runtime) *feed {
	return &feed{runtime: r, followers: make(map[string]follower), watch: make(map[subject]time.Time), looking: make(map[subject]bool)}
}

// add has a follower told of the documents of a kind. It comes before everything else.
func (f *feed) add(kind string, to follower) { f.followers[kind] = to }

// channel is where changes are published.
func (f *feed) channel() string { return f.cfg.Redis.Changes(f.cluster) }

// begin notes which announcements there are, before everything is read for the first time. Those
// that are recent may be of writes that are still under way.
func (f *feed) begin(ctx context.Context) error {
	if !f.store.Shared() {
		return nil
	}
	list, _, err := f.read(ctx)
	if err != nil {
		return err
	}
	f.note(list, 0)
	return nil
}

// read returns the announcements, none while there are none.
func (f *feed) read(ctx context.Context) (list announcements, revision int64, err error) {
	doc, err := f.store.Documents().Read(ctx, feedKind, feedKey)
	if errors.Is(err, persist.ErrNotFound) {
		return list, 0, nil
	}
	if err != nil {
		return list, 0, err
	}
	if err := json.Unmarshal([]byte(doc.Body), &list); err != nil {
		// What cannot be read counts as missed: everything is read again, and the next announcement
		// mends the document.
		f.log.Error("the announcements in the store are damaged", "error", err)
		list = announcements{Last: doc.Revision}
	}
	return list, doc.Revision, nil
}

// note has the documents watched that were announced after a number, and reports whether none was
// missed. Numbers that went down are of other announcements than those that were read: some of
// these may be missing.
func (f *feed) note(list announcements, after int64) (complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	until := time.Now().Add(watchFor)
	back := list.Last < after
	for _, a := range list.Recent {
		if back || a.Number > after {
			f.watch[a.subject] = until
		}
	}
	f.seen = list.Last
	return list.Last == after || !back && len(list.Recent) > 0 && list.Recent[0].Number <= after+1
}

// number returns the number of the newest announcement that was read.
func (f *feed) number() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// counted returns what metrics show of the feed.
func (f *feed) counted() (number, failures int64) { return f.number(), f.failures.Load() }

// announce says that a document is about to be changed. Only after it has returned nil may that be
// done.
func (f *feed) announce(ctx context.Context, kind, key string) error {
	return f.announceAll(ctx, kind, []string{key})
}

// announceAll announces several documents of a kind in one step: at most mostRecent.
func (f *feed) announceAll(ctx context.Context, kind string, keys []string) error {
	if !f.store.Shared() {
		return nil
	}
	for range announceTries {
		list, revision, err := f.read(ctx)
		if err != nil {
			return err
		}
		for _, key := range keys {
			list.Last++
			list.Recent = append(list.Recent, announcement{list.Last, subject{kind, key}})
		}
		if extra := len(list.Recent) - mostRecent; extra > 0 {
			list.Recent = list.Recent[extra:]
		}
		body, err := json.Marshal(list)
		if err != nil {
			return err
		}
		doc := persist.Document{Kind: feedKind, Key: feedKey, Revision: revision + 1, Body: string(body), Timestamp: f.now().UnixMilli()}
		if revision == 0 {
			err = f.store.Documents().Create(ctx, doc)
		} else {
			err = f.store.Documents().Update(ctx, doc)
		}
		if !errors.Is(err, persist.ErrConflict) && !errors.Is(err, persist.ErrExists) {
			return err
		}
		select { // others announce at the same time
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(20 * time.Millisecond)):
		}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "too many changes are made at once", RetryAfter: time.Second, Err: persist.ErrUnavailable}
}

// allKeys stands for every document of a kind in what is published.
const allKeys = ""

// publish tells the other nodes that a document was changed, or [allKeys]. When they do not hear it
// they find out by themselves.
func (f *feed) publish(ctx context.Context, kind, key string) {
	if f.redis == nil || !f.store.Shared() {
		return
	}
	message, err := json.Marshal(subject{kind, key})
	if err == nil {
		err = f.redis.Publish(ctx, f.channel(), message).Err()
	}
	if err != nil {
		f.log.Info("a change could not be published by Redis; other nodes find it within seconds", "kind", kind, "key", key, "error", err)
	}
}

// follow does what is changed elsewhere, until ctx ends. Where nobody else can see the store, there
// is nothing to follow.
func (r *runtime) follow(ctx context.Context) {
	if !r.store.Shared() {
		return
	}
	logged := ""
	for r.gate != nil {
		err := r.catchUp(ctx)
		if err == nil {
			break
		}
		// before, that is known
		if reason := err.Error(); reason != logged && ctx.Err() == nil && r.gate.open.Load() {
			r.log.Error("what changed before this node could reach the store cannot be read yet", "error", err)
			logged = reason
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
	r.feed.follow(ctx)
}

// catchUp reads what a start without the store could not.
func (r *runtime) catchUp(ctx context.Context) error {
	if err := r.feed.begin(ctx); err != nil {
		return err
	}
	return r.catalogue.catchUp(ctx)
}

// follow reads what others change until ctx ends.
func (f *feed) follow(ctx context.Context) {
	if f.redis != nil {
		go f.listen(ctx)
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	logged := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := f.poll(ctx)
		f.counts(err)
		switch {
		case err == nil && logged != "":
			f.log.Info("changes can be read from the store again")
			logged = ""
		case err != nil && ctx.Err() == nil && logged != err.Error():
			logged = err.Error()
			f.log.Error("changes cannot be read from the store", "error", err)
		}
	}
}

// counts notes what came of a look.
func (f *feed) counts(err error) {
	f.failed.Store(err != nil)
	if err != nil {
		f.failures.Add(1)
	}
}

// poll looks at the announcements and reads what is watched.
func (f *feed) poll(ctx context.Context) error {
	list, _, err := f.read(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	seen := f.seen
	f.mu.Unlock()
	if !f.note(list, seen) {
		if err := f.readAll(ctx); err != nil {
			f.mu.Lock()
			f.seen = seen // it is still to be done
			f.mu.Unlock()
			return err
		}
	}
	return f.lookAt(ctx, f.watched())
}

// parallelLooks bounds how many documents are read at once.
const parallelLooks = 64

// lookAt reads documents, several at a time, and returns when that is done, or when the next poll
// is due: one that takes long, since something that it ends hangs, keeps no other from being read.
func (f *feed) lookAt(ctx context.Context, subjects []subject) error {
	patience := time.NewTimer(pollInterval)
	defer patience.Stop()
	slots, ended := make(chan struct{}, parallelLooks), make(chan error, len(subjects))
	for _, s := range subjects {
		select {
		case slots <- struct{}{}:
		case <-patience.C:
			return nil
		}
		f.look(ctx, s, func(err error) { <-slots; ended <- err })
	}
	var failed []error
	for range subjects {
		select {
		case err := <-ended:
			failed = append(failed, err)
		case <-patience.C:
			return errors.Join(failed...)
		}
	}
	return errors.Join(failed...)
}

// look has a document read in the background and calls done with what came of it. One that is being
// read is read once more after that, and done called at once.
func (f *feed) look(ctx context.Context, s subject, done func(error)) {
	f.mu.Lock()
	_, under := f.looking[s]
	f.looking[s] = under
	f.mu.Unlock()
	if under {
		done(nil)
		return
	}
	go func() {
		for {
			began := time.Now()
			err := f.see(ctx, s)
			if err == nil {
				f.seenAt(s, began)
			}
			if f.looked(s) && ctx.Err() == nil {
				continue
			}
			done(err)
			return
		}
	}()
}

// looked ends the reading of a document, unless it is to be read again.
func (f *feed) looked(s subject) (again bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if again = f.looking[s]; again {
		f.looking[s] = false
	} else {
		delete(f.looking, s)
	}
	return again
}

// watched returns what is to be read.
func (f *feed) watched() []subject {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.watch))
}

// seenAt ends the watch over what was read, beginning then, after it had been watched for long
// enough.
func (f *feed) seenAt(s subject, began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if began.After(f.watch[s]) {
		delete(f.watch, s)
	}
}

// see has a document read that may have changed.
func (f *feed) see(ctx context.Context, s subject) error {
	to, ok := f.followers[s.Kind]
	if !ok {
		return nil // of a newer version
	}
	if s.Key == allKeys {
		return to.reload(ctx)
	}
	return to.changed(ctx, s.Key)
}

// readAll reads everything of every kind.
func (f *feed) readAll(ctx context.Context) error {
	ended := make(chan error, len(f.followers))
	// at once: what takes long in one kind keeps no other from being read
	for _, to := range f.followers {
		go func() { ended <- to.reload(ctx) }()
	}
	var failed []error
	for range f.followers {
		failed = append(failed, <-ended)
	}
	return errors.Join(failed...)
}

// listen reads what is published until ctx ends. The client connects again by itself; what it
// misses meanwhile the next poll finds.
func (f *feed) listen(ctx context.Context) {
	subscription := f.redis.Subscribe(ctx, f.channel())
	defer func() { _ = subscription.Close() }()
	messages := subscription.Channel(redis.WithChannelHealthCheckInterval(pollInterval))
	for {
		select {
		case <-ctx.Done():
			return
		case message, ok := <-messages:
			if !ok {
				return
			}
			var s subject
			if json.Unmarshal([]byte(message.Payload), &s) != nil {
				continue
			}
			f.look(ctx, s, func(err error) {
				if err != nil && ctx.Err() == nil {
					f.log.Info("a change could not be read yet", "kind", s.Kind, "key", s.Key, "error", err)
					f.mu.Lock()
					f.watch[s] = time.Now().Add(watchFor)
					f.mu.Unlock()
				}
			})
		}
	}
}
