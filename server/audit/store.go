package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/logging"
)

const (
	// kind is the kind of the documents, one for each line.
	kind = "audit"
	// retention is how long a line is kept.
	retention = 30 * 24 * time.Hour
	// batchPause is how long lines wait for others, to be written together. retryPause is the pause
	// after a failure.
	batchPause = 200 * time.Millisecond
	retryPause = time.Second
	// mostAtOnce is how many lines are written or removed at once.
	mostAtOnce = 200
	purgePause = time.Hour
	// purgeGrace is how long a line is kept beyond Retention, because clocks differ.
	purgeGrace = time.Hour
)

// Store is where lines are kept, and which node keeps them.
type Store struct {
	Documents persist.Documents
	Clock     *storeclock.Clock
	// ID is the ID of the node, Host the name of its machine, and Node what it listens on.
	ID, Host, Node string
}

// Open sets the store. It must be called once, before Run and Close.
func (l *Log) Open(s Store) {
	l.store = s
	close(l.opened)
}

// Run writes lines into the store, and removes old ones, until ctx ends.
func (l *Log) Run(ctx context.Context) {
	purges := time.NewTicker(purgePause)
	defer purges.Stop()
	purging := logging.Trouble{
		Log: l.log, Begins: "old lines of the audit log cannot be removed from the store; it is tried again every hour",
		Ends: "old lines of the audit log are removed again",
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			if pause(ctx, batchPause) && !l.flush(ctx) && pause(ctx, retryPause) {
				l.rouse()
			}
		case <-purges.C:
			if err := l.purge(ctx); ctx.Err() == nil {
				purging.Note(err)
			}
		}
	}
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Close writes what waits, until ctx ends. What cannot be written is in the log only. Run must have
// been told to end.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	if l.left != nil { // it says how many were left out
		l.queue, l.left = append(l.queue, *l.left), nil
	}
	l.mu.Unlock()
	if l.flush(ctx) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Warn("the last lines of the audit log are in this log only, not in the store", "count", len(l.queue))
	return nil
}

// flush writes the lines that wait. It returns false if some still wait.
func (l *Log) flush(ctx context.Context) (done bool) {
	l.writing.Lock()
	defer l.writing.Unlock()
	for {
		batch, done := l.batch()
		if len(batch) == 0 {
			return done
		}
		err := l.store.Documents.Keep(ctx, batch)
		if ctx.Err() == nil {
			l.trouble.Note(err)
		}
		if err != nil && !errors.Is(err, persist.ErrInvalid) {
			return false
		}
		l.mu.Lock()
		l.queue = append(l.queue[:0], l.queue[len(batch):]...)
		l.mu.Unlock()
	}
}

// batch returns the documents of the first lines that wait. done is false if there is a line that
// must wait longer.
func (l *Log) batch() (docs []persist.Document, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLeft()
	for i := range l.queue[:min(mostAtOnce, len(l.queue))] {
		docs = append(docs, l.document(&l.queue[i]))
	}
	return docs, l.left == nil
}

// latest is the last time that a key can have, in ms since the Unix epoch.
const latest = 9_999_999_999_999

// document returns the document of a line. Later lines have lower keys.
func (l *Log) document(e *entry) persist.Document {
	ms, s := e.at.UnixMilli(), &l.store
	body, err := json.Marshal(admin.AuditLine{At: admin.Time(ms), NodeID: s.ID, Host: s.Host, Node: s.Node, Attempt: e.line, LeftOut: e.leftOut})
	if err != nil {
		panic(err) // it is texts and numbers
	}
	return persist.Document{
		Kind: kind, Key: fmt.Sprintf("%013d.%08x.%s", latest-min(max(0, ms), latest), math.MaxUint32-e.number, s.ID),
		Revision: 1, Body: string(body), Timestamp: ms, Expires: max(1, ms+retention.Milliseconds()),
	}
}

const (
	// searchTime is how long a request looks for lines that are wanted among others, searchPage at a
	// time. searchPatience is how long it waits for the searches of others.
	searchTime     = 3 * time.Second
	searchPage     = 1000
	searchPatience = 5 * time.Second
)

var errSearching = &seqd.Error{Code: seqd.CodeOverloaded, Detail: "others search the audit log", RetryAfter: time.Second}

// List returns at most limit lines of all nodes that are wanted, the newest first, beginning after a
// text that List returned as next; "" begins with the newest. next is "" at the end. Lines that are
// damaged are left out. One request of a node searches at a time. An error is of type [*seqd.Error].
func (l *Log) List(ctx context.Context, of admin.AuditOf, after string, limit int) (list []admin.AuditLine, next string, err error) {
	select {
	case <-l.opened:
	default:
		return nil, "", &seqd.Error{Code: seqd.CodeStarting, Detail: "the service is starting", RetryAfter: time.Second}
	}
	size := limit + 1
	if of.Any() {
		if err := l.searching.LockWithin(ctx, searchPatience, errSearching); err != nil {
			return nil, "", err
		}
		defer l.searching.Unlock()
		size = searchPage
	}
	after, end := max(after, keyBefore(of.To)), keyBefore(of.From)
	for until := time.Now().Add(searchTime); ; {
		docs, err := l.store.Documents.List(ctx, kind, after, size)
		if errors.Is(err, context.Canceled) {
			return nil, "", err
		}
		if err != nil {
			return nil, "", &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store cannot be asked", RetryAfter: time.Second, Err: err}
		}
		for i := range docs {
			switch doc := &docs[i]; {
			case end != "" && doc.Key > end:
				return list, "", nil
			case len(list) == limit:
				return list, after, nil
			default:
				after = doc.Key
				var line admin.AuditLine
				if json.Unmarshal([]byte(doc.Body), &line) == nil && of.Wants(&line) {
					list = append(list, line)
				}
			}
		}
		switch {
		case len(docs) < size:
			return list, "", nil
		case time.Now().After(until):
			return list, after, nil
		}
	}
}

// keyBefore returns a text between the keys of lines from t on and those from before it, "" for the
// zero time.
func keyBefore(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%013d/", latest-min(max(0, t.UnixMilli()), latest)) // a slash is more than the dot in a key
}

// purge removes the lines that are too old.
func (l *Log) purge(ctx context.Context) error {
	before, ok, err := l.store.Clock.Past(ctx, l.store.Documents)
	if !ok {
		return err
	}
	for {
		n, err := l.store.Documents.Purge(ctx, kind, before-purgeGrace.Milliseconds(), mostAtOnce)
		if err != nil || n < mostAtOnce {
			return err
		}
	}
}
