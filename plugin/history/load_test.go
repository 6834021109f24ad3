package history

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestFullLoad checks under full load that each answered request has one record, and that the queue
// never exceeds its limit.
func TestFullLoad(t *testing.T) {
	t.Run("store", func(t *testing.T) {
		store := newFake()
		const n = 16_000
		load(t, start(t, store, nil, fullLoad), n)
		once(t, kept(t, store.HistoryStore, "order"), n)
	})
	t.Run("file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		const n = 6_400
		load(t, start(t, newFake(), nil, func(s *Settings) {
			fullLoad(s)
			s.To, s.File.Path, s.File.MaxSize = ToFile, path, leastSize
		}), n)
		f := openAt(t, path, nil, nil)
		once(t, kept(t, f, "order"), n)
		if len(oldFiles(t, f)) < 5 {
			t.Error("the files were not rotated")
		}
	})
}

func fullLoad(s *Settings) {
	s.Queue, s.Batch, s.OnOverflow, s.FlushInterval, s.BlockTimeout = 100, 25, Block, time.Millisecond, time.Minute
}

// load issues n numbers as fast as it can, closes the plugin and checks the limit.
func load(t *testing.T, p *Plugin, n int) {
	const callers = 32
	each := n / callers
	var wg, watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() {
		for {
			if held := p.pipe.left(); held > 100 {
				t.Errorf("%d are held", held)
			}
			select {
			case <-done:
				return
			case <-time.After(50 * time.Microsecond):
			}
		}
	})
	for i := range callers {
		wg.Go(func() {
			for j := range each {
				must.Report(t, issue(context.Background(), p, int64(i*each+j+1)))
			}
		})
	}
	wg.Wait()
	close(done)
	watch.Wait()
	stop(t, p)
}
