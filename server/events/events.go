// Package events tells what happened to the numbers of a biz type: one stream for each.
package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

// Event is something that happened to a biz type.
type Event struct {
	// Position is its place in the stream of its biz type: 1, 2, 3, … without holes.
	Position int64 `json:"position"`
	// ID is its source, / and its number there. It is what receivers remember.
	ID string `json:"id"`
	// Type is such as number.void.
	Type    string `json:"type"`
	BizType string `json:"bizType"`
	// Key and Period are those of the counter, "" for none.
	Key    string `json:"key,omitempty"`
	Period string `json:"period,omitempty"`
	// At is when it happened, in ms since the Unix epoch.
	At int64 `json:"at"`
	// Data is an object that depends on Type.
	Data json.RawMessage `json:"data"`
}

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
	// Keep is how long events are kept after their page of the stream is full.
	Keep time.Duration
	Log  *slog.Logger
}

// Streams reads the streams of events, and writes them if this node leads. It is safe for concurrent
// use.
type Streams struct{ opts Options }

// New returns the streams of a store.
func New(o Options) *Streams { return &Streams{opts: o} }

// Oldest is the after of [Streams.Read] that begins with the oldest event that is kept.
const Oldest = -1

// Read returns at most limit events after a position, or after [Oldest]. It returns none if there
// are none yet.
func (f *Streams) Read(ctx context.Context, bizType string, after int64, limit int) (list []Event, err error) {
	return nil, nil
}

// Last returns the position of the last event, 0 if there is none.
func (f *Streams) Last(ctx context.Context, bizType string) (int64, error) { return 0, nil }

// Wait returns when there may be events after a position, or when ctx ends: then it returns the
// error of ctx.
func (f *Streams) Wait(ctx context.Context, bizType string, after int64) error {
	<-ctx.Done()
	return ctx.Err()
}

// BizTypes returns the biz types that have a stream, in alphabetical order.
func (f *Streams) BizTypes(ctx context.Context) ([]string, error) { return nil, nil }
