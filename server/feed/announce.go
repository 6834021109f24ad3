package feed

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/retry"
	"github.com/seqd/seqd/persist"
)

const (
	// kind and key name the one document that holds the announcements.
	kind = "feed"
	key  = "changes"
	// MostRecent is how many announcements are kept. A node that has missed more reads everything.
	MostRecent = 256
	// announceTries bounds how often an announcement is tried if other nodes announce at the same
	// time, and announcePause the pause between two tries.
	announceTries = 50
	announcePause = 20 * time.Millisecond
	// allKeys stands for every document of a kind in what is published.
	allKeys = ""
)

// announcement says that a document is about to change.
type announcement struct {
	Number int64 `json:"n"`
	subject
}

// announcements is the body of the document.
type announcements struct {
	// Last is the number of the newest announcement.
	Last int64 `json:"last"`
	// Recent are the newest announcements, ascending.
	Recent []announcement `json:"recent"`
}

// read returns the announcements, and the revision of the document; 0 if there is none yet.
func (f *Feed) read(ctx context.Context) (list announcements, revision int64, err error) {
	doc, err := f.opts.Documents.Read(ctx, kind, key)
	if errors.Is(err, persist.ErrNotFound) {
		return list, 0, nil
	}
	if err != nil {
		return list, 0, err
	}
	if err := json.Unmarshal([]byte(doc.Body), &list); err != nil {
		// Nodes take it that they have missed announcements and read everything. The next
		// announcement repairs the document.
		f.opts.Log.Error("the announcements in the store are damaged", "error", err)
		list = announcements{Last: doc.Revision}
	}
	return list, doc.Revision, nil
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
	pauses := retry.Policy{First: announcePause, Attempts: announceTries, Jitter: true}
	err := retry.Do(ctx, pauses, func(ctx context.Context) error {
		err := f.append(ctx, kind, keys)
		if isOvertaken(err) {
			return err
		}
		return retry.Permanent(err)
	})
	if isOvertaken(err) {
		return &seqd.Error{
			Code: seqd.CodeStoreUnavailable, Detail: "too many changes are made at once", RetryAfter: time.Second,
			Err: persist.ErrUnavailable,
		}
	}
	return err
}

// isOvertaken reports whether another node wrote the document first.
func isOvertaken(err error) bool {
	return errors.Is(err, persist.ErrConflict) || errors.Is(err, persist.ErrExists)
}

// append adds announcements to the document, once.
func (f *Feed) append(ctx context.Context, of string, keys []string) error {
	list, revision, err := f.read(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		list.Last++
		list.Recent = append(list.Recent, announcement{list.Last, subject{of, key}})
	}
	if extra := len(list.Recent) - MostRecent; extra > 0 {
		list.Recent = list.Recent[extra:]
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	write := f.opts.Documents.Update
	if revision == 0 {
		write = f.opts.Documents.Create
	}
	return write(ctx, persist.Document{
		Kind: kind, Key: key, Revision: revision + 1, Body: string(body), Timestamp: f.opts.Now().UnixMilli(),
	})
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
			"kind", kind, "key", key, "error", err)
	}
}

// PublishAll tells the other nodes that any document of a kind may have changed.
func (f *Feed) PublishAll(ctx context.Context, kind string) { f.Publish(ctx, kind, allKeys) }
