package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// Callers is how many callers a load has.
const Callers = 16

// Load asks a node for numbers from many callers at once, singles and batches of up to 50, and
// records every answer, until a call fails.
type Load struct {
	wg    sync.WaitGroup
	acked atomic.Int64
	more  chan struct{} // gets a value now and then when numbers were acknowledged
}

// StartLoad begins a load on a biz type; who names it in the history.
func StartLoad(n *Node, bizType string, h *ordercheck.Record, name string) *Load {
	l := &Load{more: make(chan struct{}, 1)}
	for caller := range Callers {
		l.wg.Go(func() {
			who := fmt.Sprintf("%s caller %d", name, caller)
			for i := 0; ; i++ {
				count := 1
				if i%10 == caller%10 {
					count = 1 + (i*7+caller)%50
				}
				began := h.Now()
				numbers, err := n.Take(bizType, count)
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

// Await returns when the load got n numbers.
func (l *Load) Await(t testing.TB, n int64) {
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

// Wait returns when every caller has stopped.
func (l *Load) Wait() { l.wg.Wait() }
