package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
	"github.com/seqd/seqd/server/terms"
)

// telling returns a cluster whose biz type has events.
func telling(t *testing.T) *cluster {
	c := newCluster(t, false)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = nil
	return c
}

// told returns the stream of the biz type, which must have no event twice, once a node has published
// all events.
func (c *cluster) told(n *node) (list []string) {
	ctx, cancel := context.WithCancel(c.Context())
	none := func(context.Context) error { return nil }
	streams := events.New(events.Options{
		Documents: n.opts.Documents, Terms: n.opts.Terms, Now: time.Now, Keep: time.Hour, Left: none, Has: c.hasEvents, Log: n.opts.Log,
	})
	stopped := make(chan struct{})
	go func() { defer close(stopped); streams.Run(ctx) }()
	time.Sleep(time.Minute)
	cancel()
	<-stopped
	must.Equal(c, len(must.Get(n.opts.Documents.List(c.Context(), persist.EventKind, "", 10))(c)), 0, "events that are not published")
	for _, e := range must.Get(streams.Read(c.Context(), "coupon", events.Oldest, 100))(c) {
		must.Equal(c, e.Type, persist.EventJob, "type")
		list = append(list, string(e.Data))
	}
	sorted := slices.Sorted(slices.Values(list))
	must.Equal(c, len(slices.Compact(sorted)), len(list), "events that differ")
	return list
}

func ends(id, state string, count, done int64, more string) string {
	return fmt.Sprintf(`{"job":%q,"state":%q,"count":%d,"done":%d%s}`, id, state, count, done, more)
}

// The stream has one event of each job that has ended, if its biz type had events then.
func TestEndIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.await(c.first, c.create(10), done)
		must.Equal(t, len(c.told(c.first)), 0, "events of a biz type without events")
		c.mu.Lock()
		c.events = errors.New("the store is away")
		c.mu.Unlock()
		id := c.create(2000)
		time.Sleep(time.Minute)
		job := must.Get(c.first.Get(t.Context(), id))(t)
		must.Equal(t, fmt.Sprint(job.State, job.Done), "running2000", "a job of which nobody knows if it has an event")
		c.mu.Lock()
		c.events = nil
		c.mu.Unlock()
		job = c.await(c.first, id, done)
		want := []string{ends(id, done, 2000, 2000, "")}
		must.Equal(t, fmt.Sprint(c.told(c.first)), fmt.Sprint(want))
		must.Equal(t, must.Get(c.first.Get(t.Context(), id))(t).ExpiresAt, job.ExpiresAt, "the end of the result")

		late, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, At: time.Now().Add(time.Hour)})
		must.Do(t, err)
		must.Do(t, c.first.Remove(t.Context(), late.ID, anybody))
		want = append(want, ends(late.ID, cancelled, 1, 0, ""))
		must.Equal(t, fmt.Sprint(c.told(c.first)), fmt.Sprint(want))

		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { return seqd.Errorf(seqd.CodeExhausted, "there are no more") }
		c.mu.Unlock()
		id = c.create(1)
		c.await(c.first, id, failed)
		want = append(want, ends(id, failed, 1, 0, `,"code":"exhausted"`))
		must.Equal(t, fmt.Sprint(c.told(c.first)), fmt.Sprint(want))

		schedule, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, Every: "day", At: time.Now().Add(time.Hour)})
		must.Do(t, err)
		must.Do(t, c.first.Remove(t.Context(), schedule.ID, anybody))
		must.Equal(t, fmt.Sprint(c.told(c.first)), fmt.Sprint(want))
		time.Sleep(2 * c.resultTTL)
		must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), kind, "", 10))(t)), 0, "jobs after their time")
	})
}

// A node is killed between the write that ends a job and the copy of its event, or between that and
// the write that says so. Another one copies it, also if the time of the job is over by then.
func TestKilledBeforeTelling(t *testing.T) {
	for _, copied := range []bool{false, true} {
		for _, away := range []time.Duration{0, 2 * time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				c := telling(t)
				c.first.dies.Store(&copied)
				id := c.create(10)
				time.Sleep(time.Minute + away)
				must.Equal(t, c.first.cut.Load(), true, "killed")
				j, _, err := jobIn(must.Get(c.store.Documents().Read(t.Context(), kind, id))(t))
				must.Do(t, err)
				must.Equal(t, fmt.Sprint(j.State, j.Untold), "donetrue", "what the node has left")
				n := c.node("other")
				time.Sleep(3 * terms.Life)
				must.Equal(t, fmt.Sprint(c.told(n)), fmt.Sprint([]string{ends(id, done, 10, 10, "")}))
			})
		}
	}
}

// Nodes lose replies, and several copy at once.
func TestToldOnce(t *testing.T) {
	for range 10 {
		synctest.Test(t, func(t *testing.T) {
			c := telling(t)
			other := c.node("other")
			c.first.loses.Store(4)
			other.loses.Store(4)
			ids := make(map[string]bool)
			for range 5 {
				if job, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 5000, Once: fmt.Sprint(len(ids))}); err == nil {
					ids[job.ID] = true
				}
			}
			for id := range ids {
				c.await(other, id, done)
			}
			time.Sleep(time.Minute)
			c.first.loses.Store(0)
			other.loses.Store(0)
			reader := c.node("reader")
			c.first.kill()
			other.kill()
			time.Sleep(3 * terms.Life)
			list := c.told(reader)
			for id := range ids {
				must.Equal(t, slices.Contains(list, ends(id, done, 5000, 5000, "")), true, "the event of job %s", id)
			}
		})
	}
}

// A job whose event cannot be copied is not removed.
func TestRemovedAfterTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := telling(t)
		c.first.dumb.Store(true)
		id := c.create(10)
		c.await(c.first, id, done)
		must.Code(t, c.first.Remove(t.Context(), id, anybody), seqd.CodeStoreUnavailable)
		time.Sleep(2 * c.resultTTL)
		c.await(c.first, id, done)
		j := c.jobOf(c.first, id)
		c.first.dumb.Store(false)
		must.Do(t, c.first.Remove(t.Context(), id, anybody))
		must.Do(t, c.first.copyEvent(t.Context(), id, j)) // late
		want := fmt.Sprint([]string{ends(id, done, 10, 10, "")})
		must.Equal(t, fmt.Sprint(c.told(c.first)), want)
		must.Do(t, c.first.copyEvent(t.Context(), id, j)) // very late
		must.Equal(t, fmt.Sprint(c.told(c.first)), want)
	})
}
