package events

import (
	"context"
	"time"
)

// poll looks how far a stream is, for all who wait for it on this node.
type poll struct {
	waiting int
	last    int64
	vain    bool          // the last look failed, or the node is about to stop
	moved   chan struct{} // closed when last is another one, or vain
}

const (
	// pollPause is the pause between two looks at a stream, and pollPatience bounds one.
	pollPause    = time.Second
	pollPatience = 5 * time.Second
)

// Wait returns when there may be events after a position, when the stream cannot be read, when the
// node is about to stop, or when ctx ends: then it returns the error of ctx. However many wait for a
// stream on this node, it is looked at once in a second.
func (f *Streams) Wait(ctx context.Context, bizType string, after int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.polls[bizType]
	if p == nil {
		p = &poll{moved: make(chan struct{})}
		f.polls[bizType] = p
		go f.look(bizType, p)
	}
	p.waiting++
	defer func() { p.waiting-- }()
	for p.last <= max(after, 0) {
		moved := p.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		f.mu.Lock()
		if ctx.Err() != nil || p.vain {
			return ctx.Err()
		}
	}
	return nil
}

// look looks at a stream as long as somebody waits.
func (f *Streams) look(bizType string, p *poll) {
	ticker := time.NewTicker(pollPause)
	defer ticker.Stop()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), pollPatience)
		last, err := f.Last(ctx, bizType)
		cancel()
		stopping := f.opts.Stopping()
		f.mu.Lock()
		if err != nil {
			f.opts.Log.Debug("a stream of events cannot be read", "bizType", bizType, "error", err)
			last = p.last
		}
		if p.vain = err != nil || stopping; p.vain || last != p.last {
			p.last = last
			close(p.moved)
			p.moved = make(chan struct{})
		}
		if p.waiting == 0 {
			delete(f.polls, bizType)
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		<-ticker.C
	}
}
