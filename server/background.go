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
	over    context.Context // ends with end
	end     context.CancelFunc
	running sync.WaitGroup
}

// open prepares a background that nothing runs in yet.
func (b *background) open() { b.over, b.end = context.WithCancel(context.Background()) }

// begin returns the context of what runs in the background. It ends with ctx and with end.
func (b *background) begin(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(b.over, cancel)
	return ctx
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
