package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/terms"
)

// counter issues numbers of one biz type, for all nodes.
type counter struct {
	mu      sync.Mutex // guards what follows
	next    int64
	ledger  bool
	display string
	given   map[string]seqd.Run // of a ledger, by Once
	issued  int                 // chunks
	refuse  func(call *seqd.Call) error
	most    int // numbers at once
	began   []string
	events  error // why the biz type has none
}

func (c *counter) hasEvents(context.Context, string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

// Issue issues the next numbers. Somebody else gets one before them.
func (c *counter) Issue(_ context.Context, call *seqd.Call) error {
	refuse, err := c.issue(call)
	if err != nil || refuse == nil {
		return err
	}
	return refuse(call) // without the lock: it may sleep
}

func (c *counter) issue(call *seqd.Call) (refuse func(call *seqd.Call) error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Display != c.display {
		return nil, seqd.Errorf(seqd.CodeConflict, "it is shown in another way")
	}
	if call.Count > c.most {
		return nil, seqd.Errorf(seqd.CodeInvalidCount, "it is too much")
	}
	call.Sequence.Reset()
	call.Sequence.MadeAt(call.Made)
	r, known := c.given[call.Once]
	if !known {
		c.issued++
		if !c.ledger {
			c.next++
		}
		r = seqd.Run{First: c.next, Count: call.Count, Stride: 1}
		c.next += int64(call.Count)
		if c.ledger {
			c.given[call.Once] = r
		}
	}
	call.Sequence.Add(r.First, r.Count, 1)
	if call.Once[len(call.Once)-2:] == "/0" {
		c.began = append(c.began, call.Caller.Name)
	}
	return c.refuse, nil
}

func (c *counter) Show(_ context.Context, call *seqd.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.Display != c.display {
		return seqd.Errorf(seqd.CodeConflict, "it is shown in another way")
	}
	return nil
}

func (c *counter) Display(_ context.Context, bizType, _ string) (string, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bizType != "coupon" {
		return "", false, seqd.Errorf(seqd.CodeUnknownBizType, "there is no %s", bizType)
	}
	return c.display, c.ledger, nil
}

// cluster is nodes that share a store.
type cluster struct {
	*testing.T
	store *memory.Store
	*counter
	first *node
	// All nodes together have begun to answer served requests. There are load more at each look.
	served, load atomic.Int64
	// of the next node
	atOnce    int
	most      int
	resultTTL time.Duration
	past      func(context.Context) (int64, bool, error)
}

// node is a node, which can be killed.
type node struct {
	*Jobs
	cut      atomic.Bool                   // the store does not answer
	permits  atomic.Bool                   // no permit can be changed
	late     atomic.Pointer[chan struct{}] // a removal waits until it is closed,
	midway   atomic.Bool                   // when it deletes pages
	loses    atomic.Int64
	dumb     atomic.Bool          // no event can be copied
	dies     atomic.Pointer[bool] // killed when it copies an event, which may be copied
	kill     func()
	draining atomic.Bool
}

// way is the way of a node to the store.
type way struct {
	persist.Documents
	n *node
}

func (w way) do(f func() error) error {
	if w.n.cut.Load() {
		return persist.ErrUnavailable
	}
	err := f()
	if err == nil && w.n.loses.Load() > 0 && rand.Int64N(w.n.loses.Load()) == 0 {
		return persist.ErrUnavailable // it was written
	}
	return err
}

func (w way) Create(ctx context.Context, d persist.Document) error {
	return w.do(func() error { return w.Documents.Create(ctx, d) })
}

func (w way) Update(ctx context.Context, d persist.Document) error {
	if d.Kind == permitKind && w.n.permits.Load() {
		return persist.ErrUnavailable
	}
	if late := w.n.late.Load(); late != nil && !w.n.midway.Load() && strings.HasPrefix(d.Body, `{"pages"`) {
		<-*late
		ctx = context.WithoutCancel(ctx)
	}
	return w.do(func() error { return w.Documents.Update(ctx, d) })
}

func (w way) Keep(ctx context.Context, list []persist.Document) error {
	if len(list) == 0 || list[0].Kind != persist.EventKind {
		return w.do(func() error { return w.Documents.Keep(ctx, list) })
	}
	if copied := w.n.dies.Load(); copied != nil && !*copied || w.n.dumb.Load() {
		w.n.cut.Store(copied != nil)
		return persist.ErrUnavailable
	} else if copied != nil {
		defer w.n.cut.Store(true)
	}
	return w.do(func() error { return w.Documents.Keep(ctx, list) })
}

func (w way) Delete(ctx context.Context, kind, key string, revision int64) error {
	if late := w.n.late.Load(); late != nil {
		<-*late
		ctx = context.WithoutCancel(ctx)
	}
	return w.do(func() error { return w.Documents.Delete(ctx, kind, key, revision) })
}

func newCluster(t *testing.T, ledger bool) *cluster {
	c := &cluster{T: t, store: memory.New(time.Now), counter: &counter{next: 1, ledger: ledger, display: "d", given: map[string]seqd.Run{}, most: 1000, events: seqd.Errorf(seqd.CodeConflict, "it has none")}, atOnce: 2, most: 10, resultTTL: time.Hour}
	c.first = c.node("first")
	time.Sleep(2 * terms.Life) // until it may take anything
	return c
}

func (c *cluster) node(name string) *node {
	n := new(node)
	log := slog.New(slog.DiscardHandler)
	docs := way{c.store.Documents(), n}
	t := terms.New(terms.Options{Documents: docs, Shared: true, Node: name, Now: time.Now, Log: log})
	n.Jobs = New(Options{
		Documents: docs, Terms: t, Issuer: c.counter, Now: time.Now, Draining: n.draining.Load, Log: log,
		AtOnce: c.atOnce, Most: c.most, ResultTTL: c.resultTTL, Past: c.past, HasEvents: c.hasEvents,
		Served: func() int64 { return c.served.Add(c.load.Load()) },
	})
	ctx, cancel := context.WithCancel(c.Context())
	n.kill = func() { n.cut.Store(true); cancel() }
	var all sync.WaitGroup
	all.Go(func() { t.Run(ctx) })
	all.Go(func() { n.Run(ctx) })
	c.Cleanup(func() { cancel(); all.Wait() })
	return n
}

func anybody(admin.Job) error { return nil }

func errOf[A, B any](_ A, _ B, err error) error { return err }

// create makes a job.
func (c *cluster) create(count int64) string {
	job, created, err := c.first.Create(c.Context(), admin.NewJob{BizType: "coupon", Count: count})
	must.Do(c, err)
	must.Equal(c, created, true, "created")
	return job.ID
}

// await waits until a job is in a state.
func (c *cluster) await(n *node, id, state string) admin.Job {
	for range 600 {
		if job := must.Get(n.Get(c.Context(), id))(c); job.State == state {
			return job
		}
		time.Sleep(time.Second)
	}
	c.Fatalf("the job is never %s: %+v", state, must.Get(n.Get(c.Context(), id))(c))
	return admin.Job{}
}

// numbers returns the result of a job, which must have no number twice.
func (c *cluster) numbers(n *node, id string, partial bool) (numbers []int64) {
	_, r, err := n.Result(c.Context(), id, partial)
	must.Do(c, err)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		numbers = append(numbers, must.Get(strconv.ParseInt(lines.Text(), 10, 64))(c))
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(numbers))); len(sorted) != len(numbers) {
		c.Errorf("%d numbers of the result are there twice", len(numbers)-len(sorted))
	}
	return numbers
}

// A node is killed between issuing a chunk and writing it.
func TestKilledBetweenIssuingAndWriting(t *testing.T) {
	for _, ledger := range []bool{false, true} {
		t.Run(fmt.Sprint("ledger ", ledger), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, ledger)
				other := c.node("other")
				other.draining.Store(true)
				chunk := 0
				c.refuse = func(*seqd.Call) error {
					if chunk++; chunk == 14 { // chunks that were too large are none
						c.first.kill()
						other.draining.Store(false)
					}
					return nil
				}
				id := c.create(50_000)
				job := c.await(other, id, done)
				must.Equal(t, job.Done, 50_000, "done")
				numbers := c.numbers(other, id, false)
				must.Equal(t, len(numbers), 50_000, "numbers")
				c.mu.Lock()
				defer c.mu.Unlock()
				counted := int(50_000+781) / 782
				if ledger {
					must.Equal(t, int64(len(numbers)), numbers[len(numbers)-1], "the last number of a result without a gap")
					must.Equal(t, c.issued, counted, "chunks")
				} else {
					must.Equal(t, c.issued, counted+1, "chunks, of which one is skipped")
				}
			})
		})
	}
}

// Replies of the store are lost, and nodes are killed and drained.
func TestNothingTwice(t *testing.T) {
	for range 4 {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, rand.IntN(2) == 0)
			second, third := c.node("second"), c.node("third")
			for _, n := range []*node{c.first, second, third} {
				n.loses.Store(10)
			}
			c.refuse = func(*seqd.Call) error {
				time.Sleep(rand.N(200 * time.Millisecond))
				if rand.IntN(20) == 0 {
					return &seqd.Error{Code: seqd.CodeStoreUnavailable}
				}
				return nil
			}
			var ids []string
			for i := range 3 {
				job, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 20_000, Once: strconv.Itoa(i)})
				if err == nil {
					ids = append(ids, job.ID)
				}
			}
			time.Sleep(5 * time.Second)
			second.draining.Store(true)
			time.Sleep(2 * time.Second)
			c.first.kill()
			all := make(map[int64]bool)
			for _, id := range ids {
				c.await(third, id, done)
				for _, n := range c.numbers(third, id, false) {
					if all[n] {
						t.Fatalf("%d is in two results", n)
					}
					all[n] = true
				}
			}
			must.Equal(t, len(all), 20_000*len(ids), "numbers")
		})
	}
}

func TestJobsBeginInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		issue := func(name string, at time.Time) {
			_, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 10, At: at, Owner: name})
			must.Do(t, err)
		}
		base := time.Now()
		issue("c", base.Add(30*time.Second))
		issue("b", base.Add(20*time.Second))
		issue("d", base.Add(40*time.Second))
		issue("a", base.Add(-time.Hour))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		c.mu.Lock()
		must.Equal(t, fmt.Sprint(c.began), "[a]", "that began")
		c.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		must.Equal(t, fmt.Sprint(c.began), "[a b c d]", "that began")
	})
}

func TestSomeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		other := c.node("other")
		time.Sleep(2 * terms.Life)
		c.mu.Lock()
		c.most = mostChunk
		c.mu.Unlock()
		c.refuse = func(*seqd.Call) error { return &seqd.Error{Code: seqd.CodeStoreUnavailable} }
		var ids []string
		for range 5 {
			ids = append(ids, c.create(1000))
		}
		time.Sleep(time.Minute)
		states := map[string]int{}
		for _, id := range ids {
			states[must.Get(other.Get(t.Context(), id))(t).State]++
		}
		must.Equal(t, fmt.Sprint(states), "map[queued:3 running:2]", "states")
		c.mu.Lock()
		c.refuse = nil
		c.mu.Unlock()
		for _, id := range ids {
			c.await(other, id, done)
		}
		// They make room when they expire, and are removed with their pages.
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		for _, kind := range []string{kind, pageKind} {
			must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), kind, "", 10))(t)), 0, kind)
		}
	})
}

func TestRepeatedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		n := admin.NewJob{BizType: "coupon", Count: 10, Once: "k", Owner: "shop"}
		job, created, err := c.first.Create(t.Context(), n)
		must.Do(t, err)
		must.Equal(t, created, true, "created")
		time.Sleep(time.Minute)
		again, created, err := c.first.Create(t.Context(), n)
		must.Do(t, err)
		must.Equal(t, fmt.Sprint(again.ID, created), fmt.Sprint(job.ID, false), "the job of a repeated request")
		n.Count++
		must.Code(t, errOf(c.first.Create(t.Context(), n)), seqd.CodeIdempotencyKeyReused)
		n.Owner = "other"
		must.Do(t, errOf(c.first.Create(t.Context(), n)))
	})
}

// A token that owns what was made while nobody was asked for a token repeats its keys as before.
func TestRepeatedSinceTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		n := admin.NewJob{BizType: "coupon", Count: 10, Once: "k"}
		job, _, err := c.first.Create(t.Context(), n)
		must.Do(t, err)
		for _, heir := range []string{"shop", "till"} {
			n.Owner = seqd.OpenOwnerOf(heir)
			again, created, err := c.first.Create(t.Context(), n)
			must.Do(t, err)
			must.Equal(t, fmt.Sprint(again.ID, created), fmt.Sprint(job.ID, false), "the job of a request that %s repeats", heir)
		}
	})
}

// No token takes the room of all others for jobs, nor that of their schedules.
func TestRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		n := admin.NewJob{BizType: "coupon", Count: 1, Owner: "shop", At: time.Now().Add(time.Hour), Every: "day"}
		for range c.most/2 - 1 {
			must.Do(t, errOf(c.first.Create(t.Context(), n)))
		}
		time.Sleep(time.Minute)
		n.At, n.Every = time.Time{}, ""
		must.Do(t, errOf(c.first.Create(t.Context(), n)))
		must.Code(t, errOf(c.first.Create(t.Context(), n)), seqd.CodeTooManyJobs)
		time.Sleep(59*time.Minute + 30*time.Second) // it is kept for half a minute more, and schedules are due
		synctest.Wait()
		list, _, err := c.first.List(t.Context(), "", 100, func(admin.Job) bool { return true })
		must.Do(t, err)
		must.Equal(t, len(list), c.most/2, "jobs of one caller")
		n.Owner = "other"
		for range c.most / 2 {
			must.Do(t, errOf(c.first.Create(t.Context(), n)))
		}
		must.Code(t, errOf(c.first.Create(t.Context(), n)), seqd.CodeTooManyJobs)
	})
}

func TestWrongRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		for _, wrong := range []struct {
			n    admin.NewJob
			code seqd.Code
		}{
			{admin.NewJob{Count: 1}, seqd.CodeInvalidRequest},
			{admin.NewJob{BizType: "x y", Count: 1}, seqd.CodeInvalidBizType},
			{admin.NewJob{BizType: "nothing", Count: 1}, seqd.CodeUnknownBizType},
			{admin.NewJob{BizType: "coupon"}, seqd.CodeInvalidCount},
			{admin.NewJob{BizType: "coupon", Count: mostCount + 1}, seqd.CodeInvalidCount},
			{admin.NewJob{BizType: "coupon", Count: 1, Format: "xml"}, seqd.CodeInvalidRequest},
			{admin.NewJob{BizType: "coupon", Count: 1, Name: "a\nb"}, seqd.CodeInvalidRequest},
			{admin.NewJob{BizType: "coupon", Count: 1, At: time.Now().Add(9000 * time.Hour)}, seqd.CodeInvalidRequest},
		} {
			must.Code(t, errOf(c.first.Create(t.Context(), wrong.n)), wrong.code, "%+v", wrong.n)
		}
		for range 10 {
			c.create(1)
		}
		must.Code(t, errOf(c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1})), seqd.CodeTooManyJobs)
		for _, id := range []string{"", "x", "0123456789abcdef0123456789abcdef"} {
			must.Code(t, must.Err(c.first.Get(t.Context(), id)), seqd.CodeUnknownJob)
		}
	})
}

func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		late, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, At: time.Now().Add(time.Hour)})
		must.Do(t, err)
		no := errors.New("no")
		must.Is(t, c.first.Remove(t.Context(), late.ID, func(admin.Job) error { return no }), no)
		must.Do(t, c.first.Remove(t.Context(), late.ID, anybody))
		c.await(c.first, late.ID, cancelled)
		must.Do(t, c.first.Remove(t.Context(), late.ID, anybody))
		must.Code(t, must.Err(c.first.Get(t.Context(), late.ID)), seqd.CodeUnknownJob)

		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { time.Sleep(time.Second); return nil }
		c.mu.Unlock()
		id := c.create(1_000_000)
		c.await(c.first, id, running)
		must.Code(t, errOf(c.first.Result(t.Context(), id, true)), seqd.CodeJobNotDone)
		time.Sleep(20 * time.Second)
		asked := 0
		ends := func(admin.Job) error { // after it was read
			if asked++; asked == 2 {
				return no
			}
			return nil
		}
		must.Is(t, c.first.Remove(t.Context(), id, ends), no)
		must.Equal(t, must.Get(c.first.Get(t.Context(), id))(t).State, running)
		must.Do(t, c.first.Remove(t.Context(), id, anybody))
		job := c.await(c.first, id, cancelled)
		must.Code(t, errOf(c.first.Result(t.Context(), id, false)), seqd.CodeJobEnded)
		must.Equal(t, int64(len(c.numbers(c.first, id, true))), job.Done, "numbers until then")
	})
}

// A clock that has jumped removes no result, and keeps no job from beginning.
func TestResultStaysAfterAJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.first.kill()
		var settled atomic.Bool
		c.past = func(context.Context) (int64, bool, error) { return time.Now().UnixMilli(), settled.Load(), nil }
		c.first = c.node("next")
		time.Sleep(2 * terms.Life)
		id := c.create(10)
		c.await(c.first, id, done)
		time.Sleep(2 * time.Hour)
		c.await(c.first, id, done)
		c.await(c.first, c.create(10), done)
		settled.Store(true)
		time.Sleep(time.Minute)
		must.Code(t, must.Err(c.first.Get(t.Context(), id)), seqd.CodeUnknownJob)
	})
}

// A job is removed twice, as by a repeated request, and made again under its ID. The first removal,
// which was held up before it began or midway, leaves the new job and its result alone.
func TestRemovedLate(t *testing.T) {
	t.Run("before", func(t *testing.T) { testRemovedLate(t, false) })
	t.Run("midway", func(t *testing.T) { testRemovedLate(t, true) })
}

func testRemovedLate(t *testing.T, midway bool) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		other := c.node("other")
		time.Sleep(2 * terms.Life)
		create := func() string {
			job, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 10, Once: "key"})
			must.Do(t, err)
			c.await(c.first, job.ID, done)
			return job.ID
		}
		id := create()
		late, removed := make(chan struct{}), make(chan struct{})
		other.late.Store(&late)
		other.midway.Store(midway)
		go func() {
			defer close(removed)
			_ = other.Remove(t.Context(), id, anybody)
		}()
		synctest.Wait()
		if !midway {
			must.Do(t, c.first.Remove(t.Context(), id, anybody))
		}
		must.Code(t, must.Err(c.first.Get(t.Context(), id)), seqd.CodeUnknownJob)
		must.Code(t, c.first.Remove(t.Context(), id, anybody), seqd.CodeUnknownJob)
		must.Equal(t, create(), id, "the job that is made again")
		close(late)
		<-removed
		must.Equal(t, len(c.numbers(c.first, id, false)), 10, "numbers of the new result")
		must.Do(t, c.first.Remove(t.Context(), id, anybody))
		time.Sleep(time.Hour)
		must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), kind, "", 10))(t)), 0, "jobs")
		must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), pageKind, "", 10))(t)), 0, "pages")
	})
}

// A removal that ends midway, as if its node was killed, leaves no job without its result, and in the end
// nothing.
func TestRemovalIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		other := c.node("other")
		time.Sleep(2 * terms.Life)
		late := make(chan struct{})
		other.midway.Store(true)
		for _, once := range []string{"", "key"} {
			job, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 10, Once: once})
			must.Do(t, err)
			c.await(c.first, job.ID, done)
			other.late.Store(&late)
			go func() { _ = other.Remove(t.Context(), job.ID, anybody) }()
			synctest.Wait()
			must.Code(t, must.Err(c.first.Get(t.Context(), job.ID)), seqd.CodeUnknownJob)
			must.Code(t, errOf(c.first.Result(t.Context(), job.ID, true)), seqd.CodeUnknownJob)
		}
		time.Sleep(2 * goneFor)
		for _, kind := range []string{kind, pageKind} {
			must.Equal(t, len(must.Get(c.store.Documents().List(t.Context(), kind, "", 10))(t)), 0, kind)
		}
		close(late)
	})
}

// After a restore, jobs that had not ended fail, and the others stay.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		ended := c.create(5000)
		c.await(c.first, ended, done)
		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { time.Sleep(time.Second); return nil }
		c.mu.Unlock()
		late, _, err := c.first.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 1, At: time.Now().Add(time.Hour)})
		must.Do(t, err)
		begun := c.create(1_000_000)
		c.await(c.first, begun, running)
		time.Sleep(20 * time.Second)
		c.first.kill()
		time.Sleep(time.Minute)
		unfinished := []string{begun, late.ID}
		slices.Sort(unfinished)
		for _, want := range [][]string{unfinished, {}} { // it can be said again
			must.Equal(t, fmt.Sprint(must.Get(Restored(t.Context(), c.store.Documents(), time.Now()))(t)), fmt.Sprint(want))
		}
		b := c.node("b")
		must.Equal(t, c.await(b, begun, failed).Error.Code, string(seqd.CodeConflict))
		must.Equal(t, int64(len(c.numbers(b, begun, true))) > 0, true, "it shows what it had")
		c.await(b, late.ID, failed)
		must.Equal(t, b.Measure(), Figures{Failed: 2}, "figures")
		again, _, err := b.Create(t.Context(), admin.NewJob{BizType: "coupon", Count: 5000})
		must.Do(t, err)
		c.await(b, again.ID, done)
		time.Sleep(time.Second)
		must.Equal(t, b.Measure(), Figures{Failed: 2, Done: 1, Numbers: 5000}, "figures")
		c.await(b, ended, done)
	})
}

// A result is kept for as long as its job said when it ended, although nodes keep others for longer
// or shorter since then, and until then its numbers must be shown as they were.
func TestResultTTLChanges(t *testing.T) {
	for _, other := range []time.Duration{time.Minute, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, false)
			id := c.create(10)
			ends := c.await(c.first, id, done).ExpiresAt
			c.first.kill()
			c.resultTTL = other
			n := c.node("other")
			time.Sleep(50 * time.Minute)
			must.Equal(t, must.Get(n.Get(t.Context(), id))(t).ExpiresAt, ends, "the end")
			must.Equal(t, must.Get(n.Shown(t.Context(), "coupon", ""))(t), id, "the job that keeps its biz type as it is")
			time.Sleep(11 * time.Minute)
			must.Code(t, must.Err(n.Get(t.Context(), id)), seqd.CodeUnknownJob)
		})
	}
}

// The biz type shows numbers in another way while a job runs, or before its result is read.
func TestChangedDisplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		id := c.create(5000)
		c.await(c.first, id, done)
		must.Equal(t, must.Get(c.first.Shown(t.Context(), "coupon", "d"))(t), "", "the job that a change disturbs")
		must.Equal(t, must.Get(c.first.Shown(t.Context(), "order", "e"))(t), "", "the job that a change disturbs")
		must.Equal(t, must.Get(c.first.Shown(t.Context(), "coupon", "e"))(t), id, "the job that a change disturbs")
		c.mu.Lock()
		c.display = "e"
		c.mu.Unlock()
		must.Code(t, errOf(c.first.Result(t.Context(), id, false)), seqd.CodeConflict)

		chunks := 0
		c.mu.Lock()
		c.refuse = func(*seqd.Call) error {
			if chunks++; chunks == 10 {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.display = "f"
			}
			return nil
		}
		c.mu.Unlock()
		id = c.create(50_000)
		job := c.await(c.first, id, failed)
		must.Equal(t, job.Error.Code, string(seqd.CodeConflict), "why the job failed")
	})
}

// A permit that cannot be given back at once is given back later: otherwise the node would hold it for
// as long as it runs.
func TestPermitIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.atOnce = 1
		c.first.kill()
		node := c.node("other")
		time.Sleep(3 * terms.Life)
		c.first = node
		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { time.Sleep(time.Second); return nil }
		c.mu.Unlock()
		id := c.create(2000)
		c.await(node, id, running)
		node.permits.Store(true)
		c.await(node, id, done)
		time.Sleep(time.Minute)
		node.permits.Store(false)
		c.await(node, c.create(1000), done)
	})
}

// A job that is to end does not wait for a permit: it may be that no node gives any.
func TestCancelledWithoutPermit(t *testing.T) {
	for _, ledger := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, ledger)
			c.atOnce = 0
			other := c.node("other")
			c.mu.Lock()
			c.refuse = func(*seqd.Call) error { time.Sleep(time.Second); return nil }
			c.mu.Unlock()
			id := c.create(1_000_000)
			c.await(c.first, id, running)
			c.first.kill()
			time.Sleep(time.Minute)
			must.Equal(t, must.Get(other.Get(t.Context(), id))(t).State, running, "state")
			must.Do(t, other.Remove(t.Context(), id, anybody))
			job := c.await(other, id, cancelled)
			must.Equal(t, int64(len(c.numbers(other, id, true))), job.Done, "numbers until then")
		})
	}
}

// A node that cannot use the biz type leaves the job to one that can.
func TestNodeThatCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { time.Sleep(time.Second); return nil }
		c.mu.Unlock()
		id := c.create(20_000)
		c.await(c.first, id, running)
		c.mu.Lock()
		c.refuse = func(*seqd.Call) error { return &seqd.Error{Code: seqd.CodeConflict, RetryAfter: time.Second} }
		c.mu.Unlock()
		time.Sleep(time.Minute)
		must.Equal(t, must.Get(c.first.Get(t.Context(), id))(t).State, running, "state")
		other := c.node("other")
		time.Sleep(2 * terms.Life)
		c.mu.Lock()
		c.refuse = func(call *seqd.Call) error {
			if !other.owns(id) {
				return &seqd.Error{Code: seqd.CodeConflict, RetryAfter: time.Second}
			}
			return nil
		}
		c.mu.Unlock()
		c.await(other, id, done)
	})
}

// owns reports whether a job is at a node.
func (n *node) owns(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.here[id]
}

// TestChunkGivesWay is about a chunk whose numbers a plugin shows, which is nearly all of the work.
func TestChunkGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.load.Store(1)
		c.refuse = func(call *seqd.Call) error {
			began := time.Now()
			call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
				time.Sleep(time.Microsecond)
				return append(dst, shown...)
			})
			if took := time.Since(began); took < 5*time.Millisecond { // a millisecond of work
				t.Errorf("%d numbers took %s: it did not rest", call.Count, took)
			}
			return nil
		}
		c.await(c.first, c.create(1000), done)
	})
}
