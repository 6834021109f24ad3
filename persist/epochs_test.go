package persist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// answering is a store that notes the queries it gets.
type answering struct {
	mu      sync.Mutex
	queries [][]string
	hold    chan struct{} // nil, or what each query waits for
}

func (a *answering) find(_ context.Context, bizTags []string) (map[string]FoundEpoch, error) {
	a.mu.Lock()
	a.queries = append(a.queries, slices.Clone(bizTags))
	a.mu.Unlock()
	if a.hold != nil {
		<-a.hold
	}
	found := make(map[string]FoundEpoch)
	for _, tag := range bizTags {
		if tag != "none" {
			found[tag] = FoundEpoch{Epoch: "epoch of " + tag}
		}
	}
	return found, nil
}

func (a *answering) sizes() (sizes []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, q := range a.queries {
		sizes = append(sizes, len(q))
	}
	return sizes
}

// read begins to read, and checks the answer and how long it took.
func read(t *testing.T, ctx context.Context, e *Epochs, tag string, least, most time.Duration) {
	began := time.Now()
	epoch, err := e.Read(ctx, tag)
	if took := time.Since(began); epoch != "epoch of "+tag || err != nil || took < least || took > most {
		t.Errorf("%s: got %q, %v after %s", tag, epoch, err, took)
	}
}

// Reads that nobody waits for share a query. One that somebody waits for is sent at once, and takes
// the others along.
func TestUnhurriedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &answering{}
		e := NewEpochs(store.find)
		slow := Unhurried(t.Context())
		read(t, slow, e, "alone", EpochPause, EpochPause)
		for i := range 100 {
			go read(t, slow, e, fmt.Sprint(i), EpochPause, EpochPause)
		}
		time.Sleep(EpochPause)
		synctest.Wait()
		for i := range 10 {
			go read(t, slow, e, fmt.Sprint(i), EpochPause/2, EpochPause/2)
		}
		time.Sleep(EpochPause / 2)
		read(t, t.Context(), e, "hurried", 0, 0)
		synctest.Wait()
		time.Sleep(EpochPause)
		read(t, slow, e, "later", EpochPause, EpochPause)
		if got := store.sizes(); !slices.Equal(got, []int{1, 100, 11, 1}) {
			t.Errorf("queries of %v", got)
		}
		must.Is(t, must.Err(e.Read(slow, "none")), ErrNotFound)
	})
}

// While a query is under way, both kinds wait for the next one only. A query has a limit.
func TestReadsDuringAQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &answering{hold: make(chan struct{})}
		e := NewEpochs(store.find)
		go read(t, t.Context(), e, "first", 0, 0)
		synctest.Wait()
		for i := range mostEpochs + 5 {
			go read(t, Unhurried(t.Context()), e, fmt.Sprint(i), 0, 0)
		}
		synctest.Wait()
		close(store.hold)
		synctest.Wait()
		if got := store.sizes(); !slices.Equal(got, []int{1, mostEpochs, 5}) {
			t.Errorf("queries of %v", got)
		}
		for i := range mostEpochs {
			go read(t, Unhurried(t.Context()), e, fmt.Sprint(i), 0, 0) // full: it need not wait
		}
		synctest.Wait()
	})
}

// A caller who leaves takes nothing from the others.
func TestUnhurriedReadIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEpochs((&answering{}).find)
		ctx, cancel := context.WithTimeout(t.Context(), EpochPause/2)
		defer cancel()
		go read(t, Unhurried(t.Context()), e, "stays", EpochPause, EpochPause)
		must.Is(t, must.Err(e.Read(Unhurried(ctx), "leaves")), context.DeadlineExceeded)
		time.Sleep(EpochPause)
		synctest.Wait()
	})
}

// Whatever comes together: every read ends, by a query that began after it, a hurried one after two
// queries at most, an unhurried one after a pause more.
func TestEveryReadEnds(t *testing.T) {
	for range 100 {
		synctest.Test(t, func(t *testing.T) {
			const query = 20 * time.Millisecond
			var under sync.Mutex
			e := NewEpochs(func(_ context.Context, tags []string) (map[string]FoundEpoch, error) {
				if !under.TryLock() {
					t.Error("two queries at once")
				}
				began := time.Now()
				time.Sleep(rand.N(query))
				found := map[string]FoundEpoch{}
				for _, tag := range tags {
					found[tag] = FoundEpoch{Epoch: began.Format(time.RFC3339Nano)}
				}
				under.Unlock()
				return found, nil
			})
			var wg sync.WaitGroup
			for i := range 400 {
				wg.Go(func() {
					time.Sleep(rand.N(2 * time.Second))
					ctx, most := t.Context(), 2*query
					if rand.IntN(4) > 0 {
						ctx, most = Unhurried(ctx), EpochPause+2*query
					}
					leaves := rand.IntN(5) == 0
					if leaves {
						c, cancel := context.WithTimeout(ctx, rand.N(EpochPause))
						defer cancel()
						ctx = c
					}
					began := time.Now()
					epoch, err := e.Read(ctx, fmt.Sprint(i))
					if err != nil {
						if !leaves {
							t.Error(err)
						}
						return
					}
					asked, _ := time.Parse(time.RFC3339Nano, epoch)
					if asked.Before(began) || time.Since(began) > most {
						t.Errorf("asked %s after it began, took %s of %s", asked.Sub(began), time.Since(began), most)
					}
				})
			}
			wg.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			if e.timer != nil || e.running || len(e.forming) > 0 {
				t.Error("something is left")
			}
		})
	}
}

// A query that panics is an error for those who share it. The next one is sent.
func TestQueryThatPanics(t *testing.T) {
	a, calls := answering{}, 0
	e := NewEpochs(func(ctx context.Context, bizTags []string) (map[string]FoundEpoch, error) {
		if calls++; calls == 1 {
			panic("a bug")
		}
		return a.find(ctx, bizTags)
	})
	if _, err := e.Read(t.Context(), "order"); err == nil {
		t.Error("a query that panicked has an answer")
	}
	read(t, t.Context(), e, "order", 0, time.Hour)
}
