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

// GoneError is the error of [Streams.Read] if events after the position are not kept any more.
type GoneError struct{ Oldest int64 }

// Error implements error.
func (e *GoneError) Error() string {
	return fmt.Sprintf("events are not kept any more: the oldest one that is kept has position %d", e.Oldest)
}

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
	list, _, err = f.read(ctx, bizType, after, limit)
	return list, err
}

// read is Read. It returns the position of the last event too.
func (f *Streams) read(ctx context.Context, bizType string, after int64, limit int) (list []Event, last int64, err error) {
	s, err := f.stream(ctx, bizType)
	if err != nil {
		return nil, 0, err
	}
	if after < 0 {
		if after, err = f.oldest(ctx, bizType, s); err != nil {
			return nil, 0, err
		}
	}
	switch page := after / pageSize; {
	case after >= s.last():
		return nil, s.last(), nil
	case page == s.Page:
		list = s.Events
	default:
		doc, err := f.opts.Documents.Read(ctx, pageKind, pageKey(bizType, page))
		if errors.Is(err, persist.ErrNotFound) {
			return nil, 0, f.gone(ctx, bizType)
		}
		if err != nil {
			return nil, 0, err
		}
		if list, err = decodePage(&doc); err != nil {
			return nil, 0, err
		}
	}
	list = list[after%pageSize:]
	return list[:min(limit, len(list))], s.last(), nil
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
	var body terms.Body
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
