package compat

import (
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// creations bounds how many biz types clients create, who need no scope for it. It is safe for
// concurrent use.
type creations struct {
	most int // biz types, whoever created them
	// turn is held while biz types are counted and one is created, so that all the creations that
	// this node has under way pass no more than most.
	turn chan struct{}
	// fullUntil is how long a count that found no room holds. Whoever has the turn may use it.
	fullUntil time.Time
}

// countEvery is how often biz types are counted while there is no room: a flood of requests must
// not read the store each time.
const countEvery = time.Second

// newCreations returns nil if clients create no biz types.
func newCreations(opts Options) *creations {
	if !opts.Create {
		return nil
	}
	return &creations{most: opts.MaxBizTypes, turn: make(chan struct{}, 1)}
}

// begin waits for the turn. The caller ends it.
func (c *creations) begin(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
}

func (c *creations) end() { <-c.turn }

// room returns why clients may not create another biz type. The caller has the turn.
func (c *creations) room(ctx context.Context, catalogue admin.Catalogue) error {
	if time.Now().Before(c.fullUntil) {
		return c.full()
	}
	list, _, err := catalogue.List(ctx, admin.Listing{Limit: c.most})
	if err != nil {
		return err
	}
	if len(list) >= c.most {
		c.fullUntil = time.Now().Add(countEvery)
		return c.full()
	}
	return nil
}

func (c *creations) full() error {
	return seqd.Errorf(seqd.CodeConflict, "there are %d biz types or more, and clients create no others: an operator deletes some, creates this one with PUT /biz-types, or sets compat.maxBizTypes higher", c.most)
}
