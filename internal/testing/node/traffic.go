package node

import (
	"fmt"
	"maps"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// Pace is the rate and the kind of the calls of a [Traffic].
type Pace struct {
	// Callers is the number of concurrent callers.
	Callers int
	// Pause is the pause of each caller between two calls.
	Pause time.Duration
	// Largest is the largest batch. Nine calls in ten ask for one number.
	Largest int
}

// Traffic is a set of callers that ask a node for numbers until [Traffic.Stop], or until the
// process has ended. They continue after errors. Every answer is recorded.
type Traffic struct {
	node    *Node
	history *ordercheck.Record
	pace    Pace
	stop    chan struct{}
	stopped sync.Once
	wg      sync.WaitGroup

	acked, highest, failed atomic.Int64

	mu       sync.Mutex // guards failures
	failures map[string]int
}

// StartTraffic starts traffic and records it in h under who.
func StartTraffic(n *Node, bizType string, h *ordercheck.Record, who string, pace Pace) *Traffic {
	t := &Traffic{node: n, history: h, pace: pace, stop: make(chan struct{}), failures: make(map[string]int)}
	for caller := range pace.Callers {
		t.wg.Go(func() { t.call(bizType, fmt.Sprintf("%s caller %d", who, caller), caller) })
	}
	return t
}

// call runs one caller.
func (t *Traffic) call(bizType, who string, caller int) {
	for i := 0; ; i++ {
		count := 1
		if i%10 == caller%10 {
			count = 1 + (i*7+caller)%t.pace.Largest
		}
		began := t.history.Now()
		numbers, err := t.node.Take(bizType, count)
		if err == nil {
			t.history.Add(began, who, numbers)
			t.succeeded(numbers)
		} else {
			t.refused(err)
		}
		select {
		case <-t.stop:
			return
		case <-t.node.exited:
			return
		case <-time.After(t.pace.Pause):
		}
	}
}

func (t *Traffic) succeeded(numbers []int64) {
	t.acked.Add(int64(len(numbers)))
	last := numbers[len(numbers)-1]
	for {
		highest := t.highest.Load()
		if highest >= last || t.highest.CompareAndSwap(highest, last) {
			return
		}
	}
}

func (t *Traffic) refused(err error) {
	t.failed.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures[Code(err)]++
}

var code = regexp.MustCompile(`"code":"([a-z_]+)"`)

// Code returns the code of an error answer, and "connection" for an error without an answer.
func Code(err error) string {
	if found := code.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return "connection"
}

// Acked returns how many numbers were acknowledged.
func (t *Traffic) Acked() int64 { return t.acked.Load() }

// Highest returns the largest number that was acknowledged.
func (t *Traffic) Highest() int64 { return t.highest.Load() }

// Failed returns how many calls failed.
func (t *Traffic) Failed() int64 { return t.failed.Load() }

// Failures counts the calls that failed by [Code].
func (t *Traffic) Failures() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.failures)
}

// Await waits until condition is true; what describes it.
func (t *Traffic) Await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	await.Eventually(tb, what, func() error {
		switch {
		case condition():
			return nil
		case t.node.Ended():
			tb.Fatalf("%s: the process has ended: %v\n%s", what, t.node.err, t.node.tail())
		}
		return fmt.Errorf("%d numbers up to %d, failures %v\n%s", t.Acked(), t.Highest(), t.Failures(), t.node.tail())
	})
}

// More waits for n further numbers.
func (t *Traffic) More(tb testing.TB, n int64) {
	tb.Helper()
	want := t.Acked() + n
	t.Await(tb, fmt.Sprintf("%d more numbers", n), func() bool { return t.Acked() >= want })
}

// Stop ends the traffic and returns when every call has been answered.
func (t *Traffic) Stop() {
	t.stopped.Do(func() { close(t.stop) })
	t.wg.Wait()
}
