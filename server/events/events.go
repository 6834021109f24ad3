// Package events has a stream of events for each biz type that has any: what happened to its numbers,
// to its definition and to its jobs, in positions 1, 2, 3, … without holes.
//
// An event is written with the change that it tells of, by the same compare-and-set, in the document
// that changes: its source. From there it is copied to a batch ([persist.EventBatch]), and from
// batches to the stream:
//
//	V1 once  every event of a source is in the stream once, and those of one source are in their
//	         order: stream.publish (stream.go). It needs four things:
//	           the source writes it with its change, and drops it after it was copied: packages ledger,
//	           definitions and jobs
//	           a stream is one work of package terms, so one node writes it: publisher.one
//	           (publisher.go)
//	           what one write publishes is noted in the same write, as the number of the last event of
//	           each source
//	           a batch is deleted, and a page or a source leaves the document of the stream, after the
//	           write or the copy that says the same: publisher.step
//
// A stream is pages of 128 events. The open page, the last one, is in the document of the work. Others
// are documents of their own, which expire.
//
// stream.go decides, and does no I/O. publisher.go writes, wait.go waits for others, events.go reads.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd/internal/ruleset"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/terms"
)

// Event is something that happened to a biz type.
type Event = admin.Event

// ErrGone is wrapped by the error of [Streams.Read] if an event after the position is not kept any
// more: [GoneError] has the oldest position.
var ErrGone = errors.New("events are not kept any more")

// GoneError says that the events before Oldest are not kept any more. It wraps [ErrGone].
type GoneError struct{ Oldest int64 }

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("%v: the oldest one that is kept has position %d", ErrGone, e.Oldest)
}

// Unwrap returns [ErrGone].
func (e *GoneError) Unwrap() error { return ErrGone }

// Options are what [New] needs.
type Options struct {
	Documents persist.Documents
	Terms     *terms.Terms
	// Now is the time that nodes have in common.
	Now func() time.Time
	// Past returns the time before which what has ended may be removed, in ms since the Unix epoch; ok
	// is false if a clock has jumped, so that nothing may. If it is nil, Now says it.
	Past func(ctx context.Context) (before int64, ok bool, err error)
	// Keep is how long events are kept after their page of the stream is full.
	Keep time.Duration
	// Left copies the events of definitions that a node did not copy.
	Left func(ctx context.Context) error
	// Has returns why a biz type without a stream has no events, nil if it may have some. Stopping
	// reports whether the node is about to stop: then nobody waits for events here.
	Has      func(ctx context.Context, bizType string) error
	Stopping func() bool
	Log      *slog.Logger
}

// Streams reads the streams of events, and writes them if this node leads. It is safe for concurrent
// use.
type Streams struct {
	opts    Options
	without ruleset.Set[rule]

	mu    sync.Mutex // guards what follows
	polls map[string]*poll
}

// New returns the streams of a store. [Streams.Run] writes them.
func New(o Options) *Streams {
	return &Streams{opts: o, without: sabotage.OfMachine(parseRules), polls: make(map[string]*poll)}
}

// Oldest is the after of [Streams.Read] that begins with the oldest event that is kept.
const Oldest = -1

// Read returns at most limit events after a position, or after [Oldest], and at least one if there
// is one.
func (f *Streams) Read(ctx context.Context, bizType string, after int64, limit int) (list []Event, err error) {
	s, err := f.stream(ctx, bizType)
	if err != nil {
		return nil, err
	}
	if after < 0 {
		if after, err = f.oldest(ctx, bizType, s); err != nil {
			return nil, err
		}
	}
	switch page := after / pageSize; {
	case after >= s.last():
		return nil, nil
	case page == s.Page:
		list = s.Events
	default:
		doc, err := f.opts.Documents.Read(ctx, pageKind, pageKey(bizType, page))
		if errors.Is(err, persist.ErrNotFound) {
			return nil, f.gone(ctx, bizType)
		}
		if err != nil {
			return nil, err
		}
		if list, err = decodePage(&doc); err != nil {
			return nil, err
		}
	}
	list = list[after%pageSize:]
	return list[:min(limit, len(list))], nil
}

// stream returns a stream, an empty one if there is none.
func (f *Streams) stream(ctx context.Context, bizType string) (*stream, error) {
	doc, err := f.opts.Documents.Read(ctx, kind, bizType)
	if errors.Is(err, persist.ErrNotFound) {
		return new(stream), nil
	}
	if err != nil {
		return nil, err
	}
	var body struct {
		State json.RawMessage `json:"state"`
	}
	if err := json.Unmarshal([]byte(doc.Body), &body); err != nil {
		return nil, fmt.Errorf("%w: the stream of %s: %w", persist.ErrInvalid, bizType, err)
	}
	return decode(bizType, body.State)
}

// oldest returns the position before that of the oldest event.
func (f *Streams) oldest(ctx context.Context, bizType string, s *stream) (int64, error) {
	docs, err := f.opts.Documents.List(ctx, pageKind, bizType+"/", 1)
	if err != nil || len(docs) == 0 || !strings.HasPrefix(docs[0].Key, bizType+"/") {
		return s.Page * pageSize, err
	}
	page, err := strconv.ParseInt(docs[0].Key[len(bizType)+1:], 10, 64)
	return page * pageSize, err
}

// gone returns why a page is not there.
func (f *Streams) gone(ctx context.Context, bizType string) error {
	s, err := f.stream(ctx, bizType) // again: the present page may have been closed meanwhile
	if err != nil {
		return err
	}
	oldest, err := f.oldest(ctx, bizType, s)
	if err != nil {
		return err
	}
	return &GoneError{oldest + 1}
}

// Last returns the position of the last event, 0 if there is none.
func (f *Streams) Last(ctx context.Context, bizType string) (int64, error) {
	s, err := f.stream(ctx, bizType)
	if err != nil {
		return 0, err
	}
	return s.last(), nil
}

// BizTypes returns the biz types that have a stream, in alphabetical order.
func (f *Streams) BizTypes(ctx context.Context) (list []string, err error) {
	for doc, err := range persist.EveryDocument(ctx, f.opts.Documents, kind) {
		if err != nil {
			return nil, err
		}
		list = append(list, doc.Key)
	}
	return list, nil
}
