package idempotency_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/idempotency/idempotencytest"
)

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.UnixMilli(1_790_000_000_000)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestStore(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) persist.Store{
		"memory": func(*testing.T) persist.Store { return memory.New(time.Now) },
		"bolt": func(t *testing.T) persist.Store {
			s, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
				store, c := open(t), newClock()
				t.Cleanup(func() { _ = store.Close() })
				return idempotency.NewStore(store.Documents(), c.now), idempotency.NewStore(store.Documents(), c.now), c.pass
			})
		})
	}
}

// What has ended a minute ago is removed, and nothing else.
func TestPurge(t *testing.T) {
	store, c := memory.New(time.Now), newClock()
	b := idempotency.NewStore(store.Documents(), c.now)
	const ending, staying = 1234, 3
	for i := range ending + staying {
		keep := time.Second
		if i >= ending {
			keep = time.Hour
		}
		if held, err := b.Claim(t.Context(), fmt.Sprint(i), "x", keep); held != "" || err != nil {
			t.Fatal(held, err)
		}
	}
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{time.Minute, 0}, {2 * time.Second, ending}, {0, 0}, {time.Hour, staying}} {
		c.pass(step.pass)
		if n, err := idempotency.Purge(t.Context(), store.Documents(), c.now()); n != step.want || err != nil {
			t.Errorf("after %v more %d were removed, %v, want %d", step.pass, n, err, step.want)
		}
	}
}
