package segment

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// witness keeps the contexts of takes.
type witness struct {
	*redisModel
	mu    sync.Mutex
	takes []context.Context
}

func (w *witness) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	w.mu.Lock()
	w.takes = append(w.takes, ctx)
	w.mu.Unlock()
	return w.redisModel.Take(ctx, t)
}

// spanOf is the ID of the span of a context.
func spanOf(ctx context.Context) trace.SpanID { return trace.SpanContextFromContext(ctx).SpanID() }

// A take is a part of the first of its callers that is traced; the others link to that one. It
// never ends with a caller.
func TestTakesBelongToTheFirstTracedCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &witness{redisModel: &redisModel{}}
		s := node(t, memory.New(time.Now), redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.before = func(string) error { time.Sleep(time.Millisecond); return nil } })
		redis.takes = nil
		provider := sdk.NewTracerProvider()
		defer func() { _ = provider.Shutdown(context.Background()) }()
		var callers sync.WaitGroup
		ask := func(ctx context.Context) {
			callers.Go(func() {
				var seq seqd.Sequence
				if err := s.Generate(ctx, 1, &seq); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		traced := func() context.Context {
			ctx, _ := provider.Tracer("").Start(t.Context(), "request")
			return ctx
		}
		alone, second, third := traced(), traced(), traced()
		ask(alone)       // its take is under way while the others come
		ask(t.Context()) // which is not traced
		leaving, leave := context.WithCancel(second)
		ask(leaving)
		ask(third)
		leave()
		callers.Wait()
		if len(redis.takes) != 2 {
			t.Fatalf("there were %d takes, want 2", len(redis.takes))
		}
		for i, want := range []context.Context{alone, second} {
			if got := redis.takes[i]; spanOf(got) != spanOf(want) || got.Done() != nil {
				t.Errorf("take %d belongs to %v, want %v; it can be cancelled: %v", i, spanOf(got), spanOf(want), got.Done() != nil)
			}
		}
		for i, ctx := range []context.Context{alone, second, third} {
			links := trace.SpanFromContext(ctx).(sdk.ReadOnlySpan).Links()
			linked := len(links) == 1 && links[0].SpanContext.SpanID() == spanOf(second)
			if linked != (i == 2) || !linked && len(links) > 0 {
				t.Errorf("caller %d has the links %v", i, links)
			}
		}
		redis.takes = nil
		ask(t.Context())
		callers.Wait()
		if len(redis.takes) != 1 || redis.takes[0] != context.Background() {
			t.Errorf("a take of callers that are not traced has the context %v", redis.takes)
		}
		closeAll(t, s)
	})
}
