package definitions

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
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
	shapes := &shapes{onRecord: persist.ShapesIn(store.Documents()), now: time.Now, alone: func(string) bool { return false }}
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
		if err := newClaim(store, test.shape).Record(t.Context()); seqd.CodeOf(err) != test.code {
			t.Errorf("%s: %v, want %q", test.shape, err, test.code)
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
	if err := newClaim(store, "snowflake").Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClaim(unseen{store}, "segment")
	if fresh, err := c.Check(t.Context()); !fresh || err != nil {
		t.Fatalf("fresh %v, %v", fresh, err)
	}
	if err := c.Record(t.Context()); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
		t.Errorf("another shape is on record: %v", err)
	}
}
