package persist

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Callers who come one after the other share queries, each that of a query that is sent after they came;
// and one who comes alone does not wait.
func TestEpochsShareQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards sent
		var sent []time.Time
		e := NewEpochs(func(_ context.Context, bizTags []string) (map[string]FoundEpoch, error) {
			mu.Lock()
			sent = append(sent, time.Now())
			query := fmt.Sprint(len(sent))
			mu.Unlock()
			time.Sleep(100 * time.Microsecond)
			found := make(map[string]FoundEpoch)
			for _, tag := range bizTags {
				found[tag] = FoundEpoch{Epoch: query}
			}
			delete(found, "none")
			return found, nil
		})
		if _, err := e.Read(t.Context(), "none"); !errors.Is(err, ErrNotFound) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Second)
		began := time.Now()
		if _, err := e.Read(t.Context(), "alone"); err != nil || time.Since(began) > 100*time.Microsecond {
			t.Errorf("it took %s; error %v", time.Since(began), err)
		}
		var callers sync.WaitGroup
		for i := range 200 {
			time.Sleep(50 * time.Microsecond)
			callers.Go(func() {
				began := time.Now()
				epoch, err := e.Read(t.Context(), fmt.Sprint("counter", i))
				var query int
				if _, scanned := fmt.Sscan(epoch, &query); scanned != nil || err != nil {
					t.Errorf("epoch %q, error %v", epoch, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if sent[query-1].Before(began) {
					t.Errorf("counter %d was read by a query that was sent before it was asked for", i)
				}
			})
		}
		callers.Wait()
		time.Sleep(epochPause) // the last query ends
		if most := int(200*50*time.Microsecond/epochPause) + 4; len(sent) > most {
			t.Errorf("%d queries, want at most %d", len(sent), most)
		}
	})
}
