package gapless_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/gapless"
)

// readers is a store that counts how many reads are under way, each of which takes 100 ms.
type readers struct {
	persist.Store
	slow             atomic.Bool
	now, most, total atomic.Int64
}

type readersDocuments struct {
	persist.Documents
	of *readers
}

func (r *readers) Documents() persist.Documents { return readersDocuments{r.Store.Documents(), r} }

func (d readersDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if d.of.slow.Load() {
		d.of.total.Add(1)
		d.of.most.Store(max(d.of.most.Load(), d.of.now.Add(1)))
		defer d.of.now.Add(-1)
		time.Sleep(100 * time.Millisecond)
	}
	return d.Documents.Read(ctx, kind, key)
}

// Looking at very many counters with reservations asks the store about few of them at a time, and
// about each once, however often somebody looks.
func TestMeasureManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readers{Store: memory.New(time.Now)}
		s := newStrategy(t, store, func(settings *gapless.Settings) { settings.Keyed = true })
		const keys = 800
		for i := range keys {
			var seq seqd.Sequence
			seq.For(fmt.Sprint("k", i))
			if _, _, err := s.HandOut(t.Context(), seqd.Order{Count: 1, Reserve: true}, &seq); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		store.slow.Store(true)
		for range 39 {
			s.Measure(func(seqd.Measurement) {})
			time.Sleep(time.Second)
		}
		synctest.Wait()
		store.slow.Store(false)
		if most, total := store.most.Load(), store.total.Load(); most > 2 || total < keys/2 || total > keys {
			t.Errorf("there were %d reads at once, and %d in all", most, total)
		}
		must.Do(t, s.Close(t.Context()))
		time.Sleep(time.Minute)
	})
}
