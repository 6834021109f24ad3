package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// queue limits how many spans wait, and counts those that find no room. The batch processor behind
// it would drop them silently.
type queue struct {
	sdk.SpanProcessor
	sender *sender
}

var _ sdk.SpanProcessor = (*queue)(nil)

// OnEnd implements [sdk.SpanProcessor].
func (q *queue) OnEnd(span sdk.ReadOnlySpan) {
	if q.sender.waiting.Add(1) > queueSize {
		q.sender.waiting.Add(-1)
		q.sender.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// sender sends batches, one at a time. It counts the spans that do not arrive, and logs when
// sending begins to fail and when it works again.
type sender struct {
	out     *collector
	log     *slog.Logger
	ended   context.Context // ends when nothing may be sent any more
	end     context.CancelFunc
	waiting atomic.Int64 // spans that wait or are being sent
	dropped atomic.Int64
	failing bool // used by ExportSpans alone
}

var _ sdk.SpanExporter = (*sender)(nil)

func newSender(out *collector, log *slog.Logger) *sender {
	s := &sender{out: out, log: log}
	s.ended, s.end = context.WithCancel(context.Background())
	context.AfterFunc(s.ended, out.client.CloseIdleConnections)
	return s
}

// ExportSpans implements [sdk.SpanExporter]. It returns no error, because the library would write
// it to standard error for each batch.
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer s.waiting.Add(-int64(len(spans)))
	if s.ended.Err() != nil { // otherwise a connection could open that nobody closes
		s.dropped.Add(int64(len(spans)))
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	refused, err := s.out.post(ctx, spans) // once: repetition would delay newer spans
	s.dropped.Add(refused)
	s.note(err)
	return nil
}

// note logs when sending begins to fail and when it works again.
func (s *sender) note(err error) {
	switch failing := err != nil; {
	case failing && !s.failing:
		s.log.Warn("traces cannot be sent", "error", short(err))
	case !failing && s.failing:
		s.log.Info("traces are sent again", "dropped", s.dropped.Load())
	}
	s.failing = err != nil
}

// short returns the text of an error without what the collector answered.
func short(err error) string {
	text := err.Error()
	return text[:min(len(text), 300)]
}

// Shutdown implements [sdk.SpanExporter]. There is nothing left to do.
func (s *sender) Shutdown(context.Context) error { return nil }
