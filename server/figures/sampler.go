package figures

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd"
)

// sampler keeps the window of this node.
type sampler struct {
	counts Counts // nil if nothing is counted

	mu     sync.Mutex // guards what follows
	window *window
	// codes and calls are what Counts said at the last sample.
	codes map[seqd.Code]int64
	calls []uint64
}

// sample ends an interval. See [window.move].
func (s *sampler) sample(now time.Time, elapsed time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.window
	took, due := w.move(now.UnixMilli(), elapsed.Milliseconds())
	if !due {
		return
	}
	s.counts.Take(func(bizType string, issued, refused int64) {
		if took > 0 {
			w.add(bizType, scaled(issued, took), scaled(refused, took))
		}
	})
	s.counts.Refusals(func(code seqd.Code, total int64) {
		if n := total - s.codes[code]; took > 0 && n > 0 {
			w.addCode(code, scaled(n, took))
		}
		s.codes[code] = total
	})
	_, calls := s.counts.Calls()
	for i, n := range calls {
		if took > 0 && i < mostBuckets {
			w.calls[w.at][i] = uint32(min(n-s.before(i), 1<<32-1))
		}
	}
	s.calls = calls
}

func (s *sampler) before(bucket int) uint64 {
	if bucket < len(s.calls) {
		return s.calls[bucket]
	}
	return 0
}

// fill fills in what was counted.
func (s *sampler) fill(r *report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.fill(s.window)
	r.Bounds, _ = s.counts.Calls()
}

// names returns the biz types that have points.
func (s *sampler) names() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[string]bool, len(s.window.bizTypes))
	for name := range s.window.bizTypes {
		names[name] = true
	}
	return names
}

// forget leaves out the biz types that are gone.
func (s *sampler) forget(gone map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.window.forget(func(bizType string) bool { return gone[bizType] })
}

// Run samples at the end of every interval, and writes the report if other nodes can read it, until
// ctx ends. If nothing is counted, it does nothing.
func (f *Figures) Run(ctx context.Context) {
	if f.opts.Counts == nil {
		return
	}
	due := make(chan struct{}, 1)
	var writing sync.WaitGroup
	defer writing.Wait()
	if f.opts.Shared {
		writing.Go(func() { f.write(ctx, due) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for interval := 0; ; interval++ {
		f.sampler.sample(f.opts.Clock(), f.opts.Elapsed())
		select {
		case due <- struct{}{}:
		default: // the last report is still being written
		}
		if interval%minute == 0 {
			f.opts.Counts.Tidy()
		}
		now := f.opts.Clock() // with very many biz types it took seconds to tidy
		timer.Reset(intervalLength*time.Millisecond - time.Duration(now.UnixMilli()%intervalLength)*time.Millisecond)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}
