// Package feed lets every node of a cluster follow the documents that others change.
//
// A node that changes a document first announces it in the store ([Feed.Announce]), then writes it,
// then publishes it by Redis ([Feed.Publish]). The others read it at once when they receive the
// message. They also read it at every poll for a while after they have read the announcement. So a
// change is found even if its writer ended in between, Redis lost the message, or there is no
// Redis.
//
// The package depends on the documents of the store, on Redis for publish and subscribe, a clock
// and a log. It does not know what documents say: to follow another kind, [Feed.Add] a [Follower]
// for it.
package feed

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/instant"
	"github.com/seqd/seqd/persist"
)

// Options are what a Feed depends on.
type Options struct {
	Documents persist.Documents
	// Shared is whether other nodes can use the store. If not, a Feed does nothing.
	Shared bool
	// Redis is nil if none is configured.
	Redis redis.UniversalClient
	// Channel is the Redis channel that changes are published on.
	Channel string
	Now     func() time.Time
	Log     *slog.Logger
}

// Feed announces changes and follows those of other nodes. It is safe for concurrent use.
type Feed struct {
	opts    Options
	journal journal
	watched watched
	reader  reader

	hearing chan struct{} // a place for each document that is read because of a message
	ignored atomic.Int64  // messages

	failures atomic.Int64 // polls that failed
	failed   atomic.Bool  // the last poll failed
	followed followed
}

// Follower does what documents of one kind say.
type Follower struct {
	// Changed reads a document that may have changed, be gone, or be about to be written.
	Changed func(ctx context.Context, key string) error
	// Reload reads all documents of the kind that matter. With an error, left are those that it
	// could not read; none stands for all of them. They are read again at each poll until they can
	// be read.
	Reload func(ctx context.Context) (left []string, err error)
}

// subject is a document.
type subject struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
}

const (
	// pollInterval is the pause between two polls. With the time that a poll and a change take, a
	// change is known to every node within 5 s.
	pollInterval = 4 * time.Second
	// WatchFor is for how long an announced document is read again at each poll: longer than a
	// write to the store can take.
	WatchFor = 30 * time.Second
	// allKeys stands for every document of a kind. Only a poll reads so much, and no message.
	allKeys = ""

	// mostHeard is how many messages are followed within a poll interval.
	mostHeard = 1000
	// parallelHeard is how many documents are read at once because of messages. They must leave
	// connections of the store to others.
	parallelHeard = 4
	// longestMessage is longer than a message of this package, in bytes.
	longestMessage = 512
	// warnEvery is the shortest time between two lines about too many messages.
	warnEvery = 10 * time.Minute
)

// New returns a Feed that follows nothing yet.
func New(opts Options) *Feed {
	f := &Feed{opts: opts, journal: journal{opts.Documents, opts.Now, opts.Log}, hearing: make(chan struct{}, parallelHeard)}
	f.watched.until = make(map[subject]time.Time)
	f.reader.init(f.watched.remove)
	return f
}

// Add sets the follower of a kind of documents. It must be called before [Feed.Follow].
func (f *Feed) Add(kind string, to Follower) { f.reader.followers[kind] = to }

// Begin notes which announcements there are. It must be called before the documents are read for
// the first time: recent announcements may be of writes that have not finished.
func (f *Feed) Begin(ctx context.Context) error {
	if !f.opts.Shared {
		return nil
	}
	began := time.Now()
	list, _, err := f.journal.read(ctx)
	if err != nil {
		return err
	}
	f.watched.note(list, 0)
	f.followed.note(began, nil)
	return nil
}

// Unfollowed returns for how long what others changed in a document may not have been followed:
// about a poll interval, and more if the document cannot be followed, the store was away, or this
// process was held up. It is 0 if nobody else uses the store. It does no I/O.
func (f *Feed) Unfollowed(kind, key string) time.Duration {
	if !f.opts.Shared {
		return 0
	}
	began := f.followed.until(subject{kind, key})
	if began.IsZero() {
		return math.MaxInt64
	}
	return instant.Since(began)
}

// Number returns the number of the newest announcement that was read.
func (f *Feed) Number() int64 { return f.watched.number() }

// Failing reports whether the last poll failed.
func (f *Feed) Failing() bool { return f.failed.Load() }

// Failures returns how many polls failed.
func (f *Feed) Failures() int64 { return f.failures.Load() }

// Ignored returns how many messages were not followed: they named nothing, or there were too many.
func (f *Feed) Ignored() int64 { return f.ignored.Load() }

// Follow reads what other nodes change, until ctx ends.
func (f *Feed) Follow(ctx context.Context) {
	if !f.opts.Shared {
		return
	}
	if f.opts.Redis != nil {
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
		err := f.Poll(ctx)
		f.count(err)
		switch {
		case err == nil && logged != "":
			f.opts.Log.Info("changes can be read from the store again")
			logged = ""
		case err != nil && ctx.Err() == nil && logged != err.Error():
			logged = err.Error()
			f.opts.Log.Error("changes cannot be read from the store", "error", err)
		}
	}
}

// count counts the outcome of a poll.
func (f *Feed) count(err error) {
	f.failed.Store(err != nil)
	if err != nil {
		f.failures.Add(1)
	}
}

// Poll reads the announcements, and the documents that are watched. [Feed.Follow] calls it.
func (f *Feed) Poll(ctx context.Context) error {
	began := time.Now()
	list, _, err := f.journal.read(ctx)
	if err != nil {
		return err
	}
	if !f.watched.note(list, f.Number()) {
		for kind := range f.reader.followers {
			f.watched.add(subject{kind, allKeys})
		}
	}
	left, err := f.reader.read(ctx, f.watched.all())
	f.watched.leave(left)
	f.followed.note(began, left)
	return err
}

// listen reads what is published until ctx ends. The client reconnects by itself; the next poll
// finds what it missed. Whoever may publish must not keep the node busy: while there are too many
// messages, listen leaves the channel to the polls.
func (f *Feed) listen(ctx context.Context) {
	var warned time.Time
	for {
		subscription := f.opts.Redis.Subscribe(ctx, f.opts.Channel)
		// without a buffer, because a flood of messages would fill it
		f.attend(ctx, subscription.Channel(redis.WithChannelHealthCheckInterval(pollInterval),
			redis.WithChannelSize(0), redis.WithChannelSendTimeout(pollInterval)))
		_ = subscription.Close()
		if now := time.Now(); ctx.Err() == nil && now.Sub(warned) >= warnEvery {
			warned = now
			f.opts.Log.Warn("more is published on the Redis channel than this node follows; changes are found by polls meanwhile",
				"channel", f.opts.Channel, "messages", mostHeard, "withinMs", pollInterval.Milliseconds())
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
	}
}

// attend reads messages until ctx ends, there are no more, or there are too many.
func (f *Feed) attend(ctx context.Context, messages <-chan *redis.Message) {
	var began time.Time
	for heard := 0; ; heard++ {
		select {
		case <-ctx.Done():
			return
		case message, ok := <-messages:
			if !ok {
				return
			}
			if now := time.Now(); now.Sub(began) >= pollInterval {
				began, heard = now, 0
			}
			if heard >= mostHeard {
				f.ignored.Add(1)
				return
			}
			f.hear(ctx, message.Payload)
		}
	}
}

// hear reads the document that a message names, unless it cannot be one or too many are being read
// already. Nothing is lost by that, nor if reading fails: what has changed was announced in the
// store, where the next poll finds it. The message alone proves nothing: anybody may have published
// it.
func (f *Feed) hear(ctx context.Context, message string) {
	s, ok := f.understand(message)
	if !ok {
		f.ignored.Add(1)
		return
	}
	select {
	case f.hearing <- struct{}{}:
	default:
		f.ignored.Add(1)
		return
	}
	f.reader.start(ctx, s, func([]subject, error) { <-f.hearing })
}

// understand returns the document that a message names. ok is false if no change that this node
// follows is published so.
func (f *Feed) understand(message string) (s subject, ok bool) {
	if len(message) > longestMessage || json.Unmarshal([]byte(message), &s) != nil {
		return s, false
	}
	_, known := f.reader.followers[s.Kind] // or it is a kind of a newer version
	return s, known && seqd.CheckName(s.Key) == nil
}

// Announce says that a document is about to change. The caller may change it only after Announce
// has returned nil.
func (f *Feed) Announce(ctx context.Context, kind, key string) error {
	return f.AnnounceAll(ctx, kind, []string{key})
}

// AnnounceAll announces several documents of a kind in one step: at most [MostRecent].
func (f *Feed) AnnounceAll(ctx context.Context, kind string, keys []string) error {
	if !f.opts.Shared {
		return nil
	}
	return f.journal.announce(ctx, kind, keys)
}

// Publish tells the other nodes that a document has changed. If that fails, they find it at their
// next polls.
func (f *Feed) Publish(ctx context.Context, kind, key string) {
	if f.opts.Redis == nil || !f.opts.Shared {
		return
	}
	message, err := json.Marshal(subject{kind, key})
	if err == nil {
		err = f.opts.Redis.Publish(ctx, f.opts.Channel, message).Err()
	}
	if err != nil {
		f.opts.Log.Info("a change could not be published by Redis; other nodes find it within seconds",
			"kind", kind, "name", key, "error", err)
	}
}
