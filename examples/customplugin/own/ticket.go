package own

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

func init() {
	strategy.Register(strategy.Factory{
		Name:     "ticket",
		Help:     "Takes each number from the store, one by one.",
		Settings: func() any { return &ticketSettings{Start: 1} },
		New: func(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) {
			return &ticket{counters: env.Store.Counters(), now: env.Now, bizType: bizType.Name, start: bizType.Settings.(*ticketSettings).Start}, nil
		},
		Shape: func(seqd.BizType) string { return "ticket" },
	})
}

// ticketSettings are those of a biz type with strategy: ticket, and of the section ticket of the
// configuration.
type ticketSettings struct {
	// Start is the first number, at least 1.
	Start int64 `config:"start"`
}

// Validate is asked when the configuration is read.
func (s *ticketSettings) Validate() []seqd.Problem {
	if s.Start < 1 || s.Start > seqd.MaxNumber {
		return []seqd.Problem{{Key: "start", Text: "it is outside 1 to 2^53 − 1"}}
	}
	return nil
}

// ticket takes every number straight from the store: one write for each request, on all nodes in
// strict order, and without a gap unless an answer gets lost.
type ticket struct {
	counters persist.Counters
	now      func() time.Time
	bizType  string
	start    int64
	closed   atomic.Bool
}

var _ seqd.Strategy = (*ticket)(nil)

// Init creates the counter if it is missing, but only for a biz type that is fresh: else it was
// lost, and a new start would repeat numbers. A counter that is there continues, also if the biz
// type is fresh; see "What fresh means" in docs/PLUGINS.md.
func (t *ticket) Init(ctx context.Context, fresh bool) error {
	_, err := t.counters.Read(ctx, t.bizType)
	if fresh && errors.Is(err, persist.ErrNotFound) {
		err = t.counters.Create(ctx, persist.Counter{BizTag: t.bizType, Max: t.start - 1, Step: 1, Timestamp: t.now().UnixMilli()})
		if errors.Is(err, persist.ErrExists) { // another node was faster
			err = nil
		}
	}
	return storeError(err)
}

// Generate adds n numbers. After an error the store may have given them: they are skipped, never
// guessed.
func (t *ticket) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	if t.closed.Load() {
		return seqd.Errorf(seqd.CodeStopping, "the service is stopping")
	}
	r, err := t.counters.Allocate(ctx, persist.Request{BizTag: t.bizType, Size: int64(n)})
	if err != nil {
		return storeError(err)
	}
	seq.Add(r.First, n, 1)
	return nil
}

// Close has nothing to give back.
func (t *ticket) Close(context.Context) error {
	t.closed.Store(true)
	return nil
}

// storeError returns what callers may know of an error of the store.
func storeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, persist.ErrExhausted):
		return &seqd.Error{Code: seqd.CodeExhausted, Detail: "there are no numbers left", Err: err}
	case errors.Is(err, persist.ErrNotFound):
		return &seqd.Error{Code: seqd.CodeConflict, Detail: "the store has lost the counter", Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the store gives no numbers now", RetryAfter: time.Second, Err: err}
}
