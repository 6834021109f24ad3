package server

import (
	"context"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// awayAtFirst is a store that is away until it is not.
type awayAtFirst struct {
	persist.Store
	away *bool
}

type awayShapes struct {
	persist.Repository[persist.Shape]
	away *bool
}

func (s awayAtFirst) Shapes() persist.Repository[persist.Shape] {
	return awayShapes{s.Store.Shapes(), s.away}
}

func (s awayShapes) Read(ctx context.Context, name string) (persist.Shape, error) {
	if *s.away {
		return persist.Shape{}, persist.ErrUnavailable
	}
	return s.Repository.Read(ctx, name)
}

type issues struct{}

func (issues) Init(context.Context, bool) error { return nil }
func (issues) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	seq.Add(1, n, 1)
	return nil
}
func (issues) Close(context.Context) error { return nil }

// Finding: a biz type that began without the store is never held against the shape on record, not even when the store is there again.
func TestRev5AloneClaimIsNeverChecked(t *testing.T) {
	away := false
	r := &runtime{store: awayAtFirst{memory.New(time.Now), &away}, options: options{now: time.Now}, alone: map[string]bool{"user": true}}
	if err := (claim{r, "user", "snowflake registry=store"}).Record(t.Context()); err != nil {
		t.Fatal(err)
	}
	away = true
	is, err := seqd.NewIssuer([]seqd.Definition{{
		BizType: seqd.BizType{Name: "user", Strategy: "snowflake"}, Strategy: issues{}, Claim: claim{r, "user", "snowflake registry=redis"},
	}}, seqd.Options{})
	if err != nil {
		t.Fatal(err)
	}
	is.Init(t.Context())
	away = false
	time.Sleep(2 * time.Second)
	is.Init(t.Context())
	if unready, _ := is.Health(1); len(unready) == 0 {
		t.Error("it is ready in a shape that is not the one on record, with the store there")
	}
}
