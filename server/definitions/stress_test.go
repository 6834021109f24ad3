package definitions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// Three nodes change the same biz types at the same time, with writes of unknown outcome, and
// follow each other's changes late: no number is issued twice, and in the end all do what the store
// says.
func TestChangesOnThreeNodes(t *testing.T) {
	onFakeClock(t, changesOnThreeNodes)
}

func changesOnThreeNodes(t *testing.T) {
	store := newFaulty(true)
	nodes := []*node{newNode(t, store), newNode(t, store), newNode(t, store)}
	names := []string{"a", "b", "c"}
	stop := make(chan struct{})
	var (
		wg, changing sync.WaitGroup
		mu           sync.Mutex // guards seen
		seen         = make(map[string]bool)
	)
	for _, node := range nodes {
		for _, name := range names {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					seq, err := node.issuer.Next(t.Context(), name, 3)
					if err != nil {
						if code := seqd.CodeOf(err); code != seqd.CodeUnknownBizType && code != seqd.CodeDisabled {
							t.Error(err)
						}
						continue
					}
					mu.Lock()
					for _, id := range seq.IDs() {
						if seen[name+id] {
							t.Errorf("%s of %s twice", id, name)
						}
						seen[name+id] = true
					}
					mu.Unlock()
				}
			})
		}
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.N(20)) * time.Millisecond):
				}
				must.Report(t, node.feed.Poll(t.Context()))
			}
		})
		changing.Go(func() {
			for i := range 150 {
				time.Sleep(time.Duration(rand.N(4)) * time.Millisecond)
				change(t, node, store, names[rand.N(len(names))], i)
			}
		})
	}
	changing.Wait()
	close(stop)
	wg.Wait()
	for _, node := range nodes {
		must.Report(t, node.feed.Poll(t.Context()))
		for _, name := range names {
			converged(t, node, name)
		}
	}
}

// change makes a change by chance.
func change(t *testing.T, node *node, store *faulty, name string, i int) {
	if rand.N(5) == 0 {
		store.docs.mu.Lock()
		store.docs.after = func(context.Context, error) error { return context.DeadlineExceeded }
		store.docs.mu.Unlock()
	}
	var err error
	switch rand.N(6) {
	case 0:
		_, err = node.Delete(t.Context(), name, always)
	case 1:
		_, err = node.Enable(t.Context(), name, false, always)
	case 2:
		_, err = node.Enable(t.Context(), name, true, always)
	case 3:
		_, err = node.Patch(t.Context(), name, fmt.Appendf(nil, `{"step":%d}`, 5+i%7), always)
	default:
		_, _, err = node.Put(t.Context(), name, fmt.Appendf(nil, `{"step":%d,"start":%d}`, 5+i%7, 1+i%50), always)
	}
	if code := seqd.CodeOf(err); err != nil && code != seqd.CodeUnknownBizType && code != seqd.CodeStoreUnavailable {
		t.Error(err)
	}
}

// converged wants a node to do what the store says.
func converged(t *testing.T, node *node, name string) {
	t.Helper()
	_, said, err := node.records.read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	want := seqd.Code("")
	switch {
	case said.Deleted || said.Definition == nil:
		want = seqd.CodeUnknownBizType
	case !said.Enabled:
		want = seqd.CodeDisabled
	}
	must.Code(t, must.Err(node.issuer.Next(t.Context(), name, 1)), want, "%s: error", name)
	if k, _ := node.catalogue.states.get(name); k.said != said.digest() {
		t.Errorf("%s: the node has %+v, the store says %+v", name, k, said)
	}
}
