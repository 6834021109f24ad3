package generate

import (
	"context"
	"sync"
)

// generator is one run.
//
// Data walks one way: a dispatcher cuts what is missing into batches, workers fetch them, and the
// goroutine of run writes them in the order of the batches. At most 2·Parallel batches exist at a
// time, and their memory is used again.
type generator struct {
	job
	out    *output
	source *source
}

// batch is a part of the file.
type batch struct {
	count int
	got   int    // lines of text; count unless err is set
	text  []byte // whole lines
	err   error
	done  chan struct{} // receives once per use, when the batch was fetched
}

func (g *generator) run(ctx context.Context) error {
	g.Progress(g.out.lines())
	missing := g.Count - g.out.lines()
	if missing == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	most := 2 * g.Parallel
	free, work, ordered := make(chan *batch, most), make(chan *batch), make(chan *batch, most)
	for range most {
		free <- &batch{done: make(chan struct{}, 1)}
	}
	for range g.Parallel {
		workers.Go(func() {
			for b := range work {
				b.err = g.fetch(ctx, b)
				b.done <- struct{}{}
			}
		})
	}
	workers.Go(func() { g.dispatch(ctx, missing, free, work, ordered) })
	return g.write(ctx, free, ordered)
}

// dispatch cuts missing lines into batches. ordered has room for all of them.
func (g *generator) dispatch(ctx context.Context, missing int64, free, work, ordered chan *batch) {
	defer close(ordered)
	defer close(work)
	for missing > 0 {
		select {
		case <-ctx.Done():
			return
		case b := <-free:
			b.count = int(min(missing, g.source.limit.Load()))
			missing -= int64(b.count)
			ordered <- b
			work <- b // a worker is free soon: after ctx ended, fetch returns at once
		}
	}
}

// write appends batches in their order until there are no more.
func (g *generator) write(ctx context.Context, free, ordered chan *batch) error {
	for b := range ordered {
		<-b.done
		if b.got > 0 {
			if err := g.out.append(b.text, b.got); err != nil {
				return err
			}
			g.Progress(g.out.lines())
		}
		if b.err != nil {
			return b.err
		}
		free <- b
	}
	return context.Cause(ctx)
}

// fetch fills a batch. It asks several times if the service allows less than the batch has.
func (g *generator) fetch(ctx context.Context, b *batch) error {
	b.text, b.got = b.text[:0], 0
	for b.got < b.count {
		text, n, err := g.source.lines(ctx, b.text, b.count-b.got)
		if err != nil {
			return err
		}
		b.text, b.got = text, b.got+n
	}
	return nil
}
