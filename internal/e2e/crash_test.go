package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/history"
)

// load asks a node for numbers from 16 callers at once, singles and batches, and records every answer, until the node is gone.
type load struct {
	wg    sync.WaitGroup
	acked atomic.Int64
	more  chan struct{} // gets a value now and then when numbers were acknowledged
}

const callers = 16

func startLoad(t *testing.T, n *node, h *history.History, round int) *load {
	l := &load{more: make(chan struct{}, 1)}
	for caller := range callers {
		l.wg.Go(func() {
			who := fmt.Sprintf("round %d caller %d", round, caller)
			for i := 0; ; i++ {
				count := 1
				if i%10 == caller%10 {
					count = 1 + (i*7+caller)%50
				}
				began := h.Now()
				numbers, err := n.take("order", count)
				if err != nil {
					return // the process is gone or going
				}
				h.Add(began, who, numbers)
				l.acked.Add(int64(count))
				select {
				case l.more <- struct{}{}:
				default:
				}
			}
		})
	}
	return l
}

// await returns when the load got n numbers.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	ended := make(chan struct{})
	go func() { l.wg.Wait(); close(ended) }()
	for l.acked.Load() < n {
		select {
		case <-l.more:
		case <-ended:
			t.Fatalf("the load ended after %d numbers", l.acked.Load())
		}
	}
}

// Kill -9 under load, twenty times: no number twice, every number after a restart larger than every one acknowledged before it, and no more
// skipped than two segments and what was on its way to callers.
func TestKill9(t *testing.T) {
	const step = 1000
	dir := t.TempDir()
	h := history.New()
	for round := range 20 {
		before := h.Highest()
		n := startReady(t, dir, fmt.Sprintf("SEQD_SEGMENT_STEP=%d", step), fmt.Sprintf("SEQD_SEGMENT_MAXSTEP=%d", step))
		began := h.Now()
		first, err := n.take("order", 1)
		if err != nil {
			t.Fatal(err)
		}
		h.Add(began, "first caller", first)
		if before > 0 && first[0] > before+2*step+callers*50 {
			t.Errorf("round %d: after %d came %d: more was skipped than two segments and %d requests", round, before, first[0], callers)
		}
		l := startLoad(t, n, h, round)
		l.await(t, int64(500+round*157)) // a different place in the segments each time
		n.kill()
		l.wg.Wait()
		if err := h.Check(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d numbers were acknowledged over 20 kills", h.Numbers())
}

// A clean stop under load skips nothing: every number from the first to the last was acknowledged.
func TestCleanStopUnderLoad(t *testing.T) {
	dir := t.TempDir()
	h := history.New()
	for round := range 5 {
		n := startReady(t, dir, "SEQD_SEGMENT_STEP=100")
		l := startLoad(t, n, h, round)
		l.await(t, int64(300+round*333))
		n.stop()
		l.wg.Wait()
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		if issued, highest := int64(h.Numbers()), h.Highest(); highest != 100+issued-1 {
			t.Errorf("round %d: %d numbers were acknowledged, but the highest is %d: %d were skipped", round, issued, highest, highest-99-issued)
		}
	}
}

// Two processes on one file: the second refuses and names the file, the first goes on.
func TestTwoProcessesOnOneFile(t *testing.T) {
	dir := t.TempDir()
	first := startReady(t, dir)
	wantText(t, launch(t, dir, "SEQD_STORE_BOLT_LOCKTIMEOUT=100ms").fails(), "data/seqd.db", "another process is using it")
	if numbers, err := first.take("order", 1); err != nil || numbers[0] != 100 {
		t.Errorf("the first process gives %v, %v", numbers, err)
	}
	// The file is free as soon as its holder is dead.
	first.kill()
	start(t, dir).await("/seq/order", 200)
}
