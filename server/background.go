package server

import (
	"context"
	"sync"
	"time"
)

// backgroundPatience is how long a stop waits for what runs in the background.
const backgroundPatience = time.Second

// background is what a service does besides answering requests.
type background struct {
	cancel  context.CancelFunc // nil until begin
	running sync.WaitGroup
}

// begin returns the context of what runs in the background.
func (b *background) begin(ctx context.Context) context.Context {
	ctx, b.cancel = context.WithCancel(ctx)
	return ctx
}

// end ends that context.
func (b *background) end() {
	if b.cancel != nil {
		b.cancel()
	}
}

// run calls f in the background. f must return when ctx ends.
func (b *background) run(ctx context.Context, f func(context.Context)) {
	b.running.Go(func() { f(ctx) })
}

// await waits for what runs in the background until ctx ends. What still runs then is left: nothing
// is lost with it.
func (b *background) await(ctx context.Context) error {
	ended := make(chan struct{})
	go func() { b.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}
