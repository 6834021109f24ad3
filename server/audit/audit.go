// Package audit keeps the audit log: who changed what, or tried to. Each line is logged, and the
// log is the authority. Besides, lines are kept in the store for 30 days, for GET /audit, so
// that an administrator can look them up on any node.
//
//   - audit.go: [Log.Write], and which lines are kept
//   - limit.go: how many lines callers without a right can cause
//   - store.go: the documents: writing, reading, purging
//
// Writing never waits for the store: lines queue in memory, a bounded number of them, until
// [Log.Run] has written them. What the store must not have to bear is left out of it and counted: a
// flood of refused attempts, which needs no token, and what does not fit into the queue.
//
// The package depends on the documents and the clock of a store, a clock and a log. A new field of
// a line goes into [admin.Attempt].
package audit

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/logging"
)

const (
	// mostQueued is how many lines wait for the store at most.
	mostQueued = 2000
	// Of refused attempts a node keeps mostRefused at once, and then one in each refusedPause.
	mostRefused  = 100
	refusedPause = 10 * time.Second
)

// limited reports whether a caller could cause the line very often and change nothing.
func limited(a *admin.Attempt) bool { return a.Read || refused(a) }

func refused(a *admin.Attempt) bool { return a.Status >= 400 }

// kept reports whether the line belongs into the store.
func kept(a *admin.Attempt) bool {
	return !a.Read && (!a.DryRun || a.Status == 401 || a.Status == 403) // unauthorized or forbidden
}

// entry is a line that waits for the store.
type entry struct {
	line    admin.Attempt
	at      time.Time
	number  uint32 // tells lines of one moment apart
	leftOut int64  // lines before this one that are not kept
}

// Log is the audit log. It is safe for concurrent use.
type Log struct {
	log     *slog.Logger
	now     func() time.Time
	opened  chan struct{} // closed when store is set
	store   Store
	wake    chan struct{}   // has an element if the queue may have lines to write
	writing sync.Mutex      // held while lines are written
	trouble logging.Trouble // guarded by writing

	searching longlock.Lock // held by the one search

	mu       sync.Mutex // guards what follows
	queue    []entry    // the oldest first
	number   uint32     // of the last entry
	left     *entry     // the last line that was left out, nil if none was since the last kept line
	refusals bucket
	// known and unknown bound the lines of callers whose token is known, and of others.
	known, unknown limit
}

// New returns a Log whose lines wait for a store; see [Log.Open].
func New(log *slog.Logger, now func() time.Time) *Log {
	return &Log{
		log: log, now: now, opened: make(chan struct{}), wake: make(chan struct{}, 1),
		refusals: bucket{tokens: mostRefused, filled: now()},
		trouble: logging.Trouble{
			Log:    log,
			Begins: "lines of the audit log cannot be kept in the store; it is tried again, and they are in this log",
			Ends:   "lines of the audit log are kept in the store again",
		},
	}
}

var _ admin.Audit = (*Log)(nil)

// Write logs a line, and lets it be kept. Of refused attempts and of lines that only show something
// it logs 20 of each caller in 10 s at most, and says in the next one how many others there were.
// It does no I/O besides logging.
func (l *Log) Write(ctx context.Context, line admin.Attempt) {
	leftOut, ok := l.said(&line)
	if !ok {
		return
	}
	var more slog.Attr
	if leftOut > 0 {
		more = slog.Int64("leftOut", leftOut)
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "audit",
		slog.String("caller", line.Caller), slog.String("addr", line.Addr), slog.String("requestId", line.RequestID),
		slog.String("method", line.Method), slog.String("path", line.Path), slog.String("query", line.Query),
		slog.String("target", line.Target), slog.Int("status", line.Status), slog.Int64("version", line.Version), more)
	if !kept(&line) {
		return
	}
	l.mu.Lock()
	l.add(line)
	l.mu.Unlock()
	l.rouse()
}

// said reports whether a line is logged, and how many like it were not before. What is not logged
// is not kept either, but counted there too.
func (l *Log) said(line *admin.Attempt) (leftOut int64, ok bool) {
	if !limited(line) {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := &l.unknown
	if line.Caller != "" {
		limit = &l.known
	}
	leftOut, ok = limit.take(cmp.Or(line.Caller, line.Addr), l.now())
	if !ok && kept(line) {
		l.leave(*line)
	}
	if !ok && limit.leftOut == 1 { // perhaps there is no next line
		time.AfterFunc(sayEvery, func() { l.sayLeftOut(limit) })
	}
	return leftOut, ok
}

// sayLeftOut logs how many lines were left out, if no line has said so.
func (l *Log) sayLeftOut(of *limit) {
	l.mu.Lock()
	n := of.leftOut
	of.leftOut = 0
	l.mu.Unlock()
	if n > 0 {
		l.log.Info("lines of the audit log were left out", "leftOut", n)
	}
}

// rouse lets Run look at the queue.
func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// add puts a line into the queue, or leaves it out. The caller holds mu.
func (l *Log) add(line admin.Attempt) {
	if e := l.entry(line); l.hasRoom(e) {
		l.queue, l.left = append(l.queue, *e), nil
	} else {
		l.left = e
	}
}

// leave leaves a line out. The caller holds mu.
func (l *Log) leave(line admin.Attempt) { l.left = l.entry(line) }

// entry returns the next entry. The caller holds mu.
func (l *Log) entry(line admin.Attempt) *entry {
	l.number++
	e := &entry{line: line, at: l.now(), number: l.number}
	if l.left != nil {
		e.leftOut = l.left.leftOut + 1
	}
	return e
}

// addLeft puts the last line that was left out into the queue, if there is room now: it says how
// many were left out before it. The caller holds mu.
func (l *Log) addLeft() {
	if l.left != nil && l.hasRoom(l.left) {
		l.queue, l.left = append(l.queue, *l.left), nil
	}
}

// hasRoom takes the room for a line, if there is some. The caller holds mu.
func (l *Log) hasRoom(e *entry) bool {
	return len(l.queue) < mostQueued && (!refused(&e.line) || l.refusals.take(l.now()))
}

// bucket bounds how many refused attempts are kept.
type bucket struct {
	tokens int
	filled time.Time // when the last token was added
}

// take takes a token, if there is one.
func (b *bucket) take(now time.Time) bool {
	switch gained := now.Sub(b.filled) / refusedPause; {
	case gained < 0: // the clock was set back
		b.filled = now
	case gained > 0:
		b.tokens = int(min(mostRefused, time.Duration(b.tokens)+gained))
		b.filled = b.filled.Add(gained * refusedPause)
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}
