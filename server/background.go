package server

import (
	"context"
	"sync"
	"time"
)

// backgroundPatience is how long a stop waits for what runs in the background.
const backgroundPatience = time.Second

// background is what a service does besides answering requests. It ends after the last of them: a
// node that is being drained still issues, so it must follow changes and say that it is there.
type background struct {
	over    context.Context // ends with end
	end     context.CancelFunc
	running sync.WaitGroup
}

// open prepares a background that nothing runs in yet.
func (b *background) open() { b.over, b.end = context.WithCancel(context.Background()) }

// run calls f in the background, with a context that has the values of ctx and ends with end. f
// must return then.
func (b *background) run(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(b.over, cancel)
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
