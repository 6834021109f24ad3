package persisttest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

func testClusterID(s *suite) {
	const callers = 16
	ids := make([]string, callers)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			err := persist.ErrUnavailable
			// a shared store may not show at once what another caller has written
			for errors.Is(err, persist.ErrUnavailable) {
				ids[i], err = persist.ClusterID(context.Background(), s.store, s.clock.now)
			}
			if err != nil {
				s.Error(err)
			}
		})
	}
	wg.Wait()
	kept, err := persist.ReadCluster(s.Context(), s.store.Documents())
	s.must(err)
	s.equal(kept.Timestamp, int64(1_000_000))
	for _, id := range ids {
		s.equal(id, kept.ID)
	}
}

func testShapes(s *suite) {
	ctx, shapes := s.Context(), persist.ShapesIn(s.store.Documents())
	_, err := shapes.Read(ctx, "order")
	s.wants(err, persist.ErrNotFound)
	s.must(shapes.Create(ctx, "order", "segment", time.UnixMilli(1234)))
	s.wants(shapes.Create(ctx, "order", "snowflake", time.UnixMilli(5)), persist.ErrExists)
	first, err := shapes.Read(ctx, "order")
	s.must(err)
	s.equal(first, persist.Shape{BizType: "order", Shape: "segment", Timestamp: 1234, Revision: 1})
	second, err := shapes.Replace(ctx, first, "snowflake ü\x00", time.UnixMilli(5678))
	s.must(err)
	_, err = shapes.Replace(ctx, first, "segment", time.UnixMilli(9))
	s.wants(err, persist.ErrConflict)
	got, err := shapes.Read(ctx, "order")
	s.must(err)
	s.equal(got, second)
	s.wants(shapes.Create(ctx, "x", "", time.UnixMilli(5)), persist.ErrInvalid)
	s.wants(shapes.Create(ctx, "", "segment", time.UnixMilli(5)), persist.ErrInvalid)
	s.must(shapes.Create(ctx, "a", "segment", time.UnixMilli(1)))
	var listed []string
	for shape, err := range shapes.Every(ctx) {
		s.must(err)
		listed = append(listed, shape.BizType)
	}
	if want := []string{"a", "order"}; !slices.Equal(listed, want) {
		s.Errorf("listed %v, want %v", listed, want)
	}
}

// testClock reads the clock: that of the test, or that of a server.
func testClock(s *suite) {
	before, err := s.store.Now(s.Context())
	s.must(err)
	s.clock.set(s.clock.now().UnixMilli() + 5000)
	after, err := s.store.Now(s.Context())
	s.must(err)
	if before.UnixMilli() < 0 || after.Before(before) {
		s.Errorf("it was %s, and then %s", before, after)
	}
	table, err := s.store.Slots().Look(s.Context(), "order")
	s.must(err)
	if table.Now < after.UnixMilli() {
		s.Errorf("a registry has %d after %d", table.Now, after.UnixMilli())
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err = s.store.Now(ctx)
	s.wants(err, context.Canceled)
}
