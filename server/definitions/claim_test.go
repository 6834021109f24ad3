package definitions

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
)

// unread is a store whose shapes cannot be read.
type unread struct{ persist.Store }

type unreadDocuments struct{ persist.Documents }

func (s unread) Documents() persist.Documents { return unreadDocuments{s.Store.Documents()} }

func (unreadDocuments) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, errors.New("away")
}

func newClaim(store persist.Store, shape string) claim {
	shapes := &shapes{onRecord: persist.ShapesIn(store.Documents()), alone: func(string) bool { return false }}
	return claim{shapes: shapes, Claim: strategy.Claim{Shapes: shapes.onRecord, Now: time.Now, BizType: "order", Shape: shape}}
}

// A store that cannot be asked has not said that the biz type is new: a lost counter would begin
// again.
func TestClaimOfAStoreThatCannotBeAsked(t *testing.T) {
	fresh, err := newClaim(unread{memory.New(time.Now)}, "segment").Check(t.Context())
	if fresh || seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
		t.Errorf("fresh %v, %v", fresh, err)
	}
}

// Two nodes that both found nothing: the one that records second must have the same shape.
func TestClaimOfTwoNodes(t *testing.T) {
	store := memory.New(time.Now)
	for _, test := range []struct {
		shape string
		code  seqd.Code
	}{{"segment", ""}, {"segment", ""}, {"snowflake", seqd.CodeConflict}} {
		must.Code(t, newClaim(store, test.shape).Record(t.Context()), test.code, "%s", test.shape)
	}
}

// A shape that is on record stays there unless the store says that it does not count any more: other
// nodes may issue in it already, and whoever changes it back must let the strategy hand over.
func TestForcedShapeStaysOnRecord(t *testing.T) {
	for _, test := range []struct {
		name string
		then error // of the second question whether the shape counts
		said stored
		want string
	}{
		{"the store is away", persist.ErrUnavailable, stored{Shape: "snowflake"}, "snowflake"},
		{"changed back", nil, stored{Shape: "segment"}, "segment"},
		{"it counts", nil, stored{Shape: "snowflake"}, "snowflake"},
	} {
		store := memory.New(time.Now)
		must.Do(t, newClaim(store, "segment").Record(t.Context()))
		c := newClaim(store, "snowflake")
		c.own, c.forced = "snowflake", "snowflake"
		asked := 0
		c.shapes.said = func(context.Context, string) (persist.Document, stored, error) {
			if asked++; asked == 1 {
				return persist.Document{}, stored{Shape: "snowflake"}, nil
			}
			return persist.Document{}, test.said, test.then
		}
		err := c.Record(t.Context())
		if got := must.Get(c.shapes.read(t.Context(), "order"))(t); got != test.want || asked != 2 || (err == nil) != (test.name == "it counts") {
			t.Errorf("%s: %q is on record after %d questions, %v", test.name, got, asked, err)
		}
	}
}

// unseen is a store that has a shape on record and does not show it yet.
type unseen struct{ persist.Store }

type unseenDocuments struct{ persist.Documents }

func (s unseen) Documents() persist.Documents { return unseenDocuments{s.Store.Documents()} }

func (unseenDocuments) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, persist.ErrNotFound
}

// A shape that another node has recorded and that cannot be read yet may be another one. That is no
// agreement, and it can pass.
func TestClaimOfAShapeThatCannotBeReadYet(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, newClaim(store, "snowflake").Record(t.Context()))
	c := newClaim(unseen{store}, "segment")
	if fresh, err := c.Check(t.Context()); !fresh || err != nil {
		t.Fatalf("fresh %v, %v", fresh, err)
	}
	must.Code(t, c.Record(t.Context()), seqd.CodeStoreUnavailable, "another shape is on record")
}

// Answers from before a change are looked for by all nodes for as long as they are kept, although
// the clock of one node, which forced the change or looks for them, is wrong.
func TestReshapedWhileAClockIsWrong(t *testing.T) {
	truth := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, wrong := range []struct{ writer, reader time.Duration }{{}, {-365 * day, 0}, {0, 365 * day}, {365 * day, 0}, {0, -365 * day}} {
		now := truth
		store := memory.New(func() time.Time { return now })
		claimAt := func(off time.Duration) claim {
			c := newClaim(store, "gapless")
			c.Now = func() time.Time { return now.Add(off) }
			c.Since, c.forced = new(atomic.Int64), "gapless"
			c.Clock = storeclock.New(store, c.Now, func() time.Duration { return now.Sub(truth) })
			c.shapes.said = func(context.Context, string) (persist.Document, stored, error) {
				return persist.Document{}, stored{Shape: "gapless"}, nil
			}
			return c
		}
		must.Do(t, errors.Join(newClaim(store, "segment").Record(t.Context()), claimAt(wrong.writer).Record(t.Context())))
		now = now.Add(7 * day)
		reader := claimAt(wrong.reader)
		if _, err := reader.Check(t.Context()); err != nil || !reader.Reshaped() {
			t.Errorf("%v: %v, reshaped %v", wrong, err, reader.Reshaped())
		}
		if now = now.Add(2 * day); wrong.writer+wrong.reader == 0 && reader.Reshaped() {
			t.Errorf("%v: it counts for ever", wrong)
		}
	}
}

const day = 24 * time.Hour
