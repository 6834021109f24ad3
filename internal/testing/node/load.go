package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// Callers is the number of callers of a load.
const Callers = 16

// Load asks a node for numbers from many callers at once, and records every answer, until a call
// fails. Callers ask for 1 to 50 numbers at once.
type Load struct {
	wg    sync.WaitGroup
	acked atomic.Int64
	more  chan struct{} // gets a value after numbers were acknowledged; some are dropped
}

// StartLoad starts a load on a biz type and records it in h under name.
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
					return // the process has ended or is ending
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

// Await waits until the load has got n numbers.
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

// Wait waits until every caller has stopped.
func (l *Load) Wait() { l.wg.Wait() }
