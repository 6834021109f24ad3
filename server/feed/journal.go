package feed

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
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

// journal is the document that holds the announcements.
type journal struct {
	documents persist.Documents
	now       func() time.Time
	log       *slog.Logger
}

// read returns the announcements, and the revision of the document; 0 if there is none yet.
func (j journal) read(ctx context.Context) (list announcements, revision int64, err error) {
	doc, err := j.documents.Read(ctx, kind, key)
	if errors.Is(err, persist.ErrNotFound) {
		return list, 0, nil
	}
	if err != nil {
		return list, 0, err
	}
	if err := json.Unmarshal([]byte(doc.Body), &list); err != nil {
		// Nodes take it that they have missed announcements and read everything. The next
		// announcement repairs the document.
		j.log.Error("the announcements in the store are damaged", "error", err)
		list = announcements{Last: doc.Revision}
	}
	return list, doc.Revision, nil
}

// announce adds announcements of documents of a kind. It tries again if other nodes announce at the
// same time.
func (j journal) announce(ctx context.Context, kind string, keys []string) error {
	pauses := retry.Policy{First: announcePause, Attempts: announceTries, Jitter: true}
	err := retry.Do(ctx, pauses, func(ctx context.Context) error {
		err := j.append(ctx, kind, keys)
		if persist.Overtaken(err) {
			return err
		}
		return retry.Permanent(err)
	})
	if persist.Overtaken(err) {
		return &seqd.Error{
			Code: seqd.CodeStoreUnavailable, Detail: "too many changes are made at once", RetryAfter: time.Second,
			Err: persist.ErrUnavailable,
		}
	}
	return err
}

// append adds announcements to the document, once.
func (j journal) append(ctx context.Context, of string, keys []string) error {
	list, revision, err := j.read(ctx)
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
	return persist.Put(ctx, j.documents, persist.Document{
		Kind: kind, Key: key, Revision: revision + 1, Body: string(body), Timestamp: j.now().UnixMilli(),
	})
}
