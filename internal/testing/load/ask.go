package load

import (
	"context"
	"fmt"
	"maps"

	"github.com/seqd/seqd/internal/testing/record"
)

// Question is a call for numbers that somebody has written down.
type Question struct {
	BizType string
	Of      string // the key of a keyed biz type
	Key     string // the idempotency key, if any
	Count   int
}

// Ask asks a node for numbers, once, and returns what it has recorded of that.
func (l *Load) Ask(ctx context.Context, n Node, q Question) *record.Call {
	r := request{node: n, shape: l.Shape(q.BizType), kind: record.Single, count: max(1, q.Count), key: q.Key, of: q.Of, timeout: LongPatience}
	switch {
	case q.Key != "":
		r.kind = record.Idempotent
	case r.count > 1:
		r.kind = record.Batch
	}
	return l.send(ctx, r)
}

// Take takes a range of numbers from a node as CosId does, once.
func (l *Load) Take(ctx context.Context, n Node, bizType string, numbers int64) {
	l.takeRange(ctx, n, l.Shape(bizType), numbers)
}

// Reserve asks a node to reserve numbers, once. A ttl of "" is that of the definition.
func (l *Load) Reserve(ctx context.Context, n Node, q Question, ttl string) *record.Call {
	return l.book(ctx, n, l.Shape(q.BizType), q, ttl)
}

// Settle asks a node to confirm, release or find what a call of Reserve got, once.
func (l *Load) Settle(ctx context.Context, n Node, got *record.Call, kind string) *record.Call {
	return l.end(ctx, n, booking{l.Shape(got.BizType), got.Of, got.Reservation, got.Asked}, kind)
}

// Void asks a node to make the first number of an answer void, once.
func (l *Load) Void(ctx context.Context, n Node, got *record.Call) *record.Call {
	return l.cancel(ctx, n, l.Shape(got.BizType), got, fmt.Sprint("cancelled at ", n.Name()))
}

// Some returns the shapes that have a name in some, with the settings that it gives them.
func Some(all []Shape, some map[string]Settings) (chosen []Shape) {
	for _, s := range all {
		more, is := some[s.Name]
		if !is {
			continue
		}
		s.Setting = maps.Clone(s.Setting)
		maps.Copy(s.Setting, more)
		if gap, given := more["restoreGap"].(int); given {
			s.RestoreGap = int64(gap)
		}
		if zone, given := more["timeZone"].(string); given {
			s.TimeZone = zone
		}
		chosen = append(chosen, s)
	}
	return chosen
}
