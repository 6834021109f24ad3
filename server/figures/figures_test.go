package figures

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/nodes"
)

// counter is what a node of a test counts. It implements Counts and Issuer.
type counter struct {
	mu      sync.Mutex
	issued  map[string]int64
	refused map[seqd.Code]int64
	calls   []uint64
	bizType []string // that exist
	looks   atomic.Int64
}

func newCounter() *counter {
	return &counter{issued: map[string]int64{}, refused: map[seqd.Code]int64{}, calls: make([]uint64, len(testBounds)+1), bizType: []string{"order", "bill"}}
}

// issue issues numbers, each in a call of 1 to 10 ms.
func (c *counter) issue(bizType string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.issued[bizType] += n
	c.calls[1] += uint64(n)
}

func (c *counter) refuse(code seqd.Code, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[code] += n
}

func (c *counter) Take(tell func(bizType string, issued, refused int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.issued {
		tell(name, n, 0)
	}
	clear(c.issued)
}

func (c *counter) Refusals(tell func(code seqd.Code, total int64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, n := range c.refused {
		tell(code, n)
	}
}

func (c *counter) Calls() ([]float64, []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return testBounds, append([]uint64(nil), c.calls...)
}

func (c *counter) Load() (inFlight, connections int64) { return 3, 14 }
func (c *counter) Tidy()                               {}

func (c *counter) Serves() bool { return false }

func (c *counter) States(tell func(issuer.State)) {
	c.looks.Add(1)
	for _, name := range c.bizType {
		tell(issuer.State{BizType: name})
	}
}

func (c *counter) Measure(tell func(bizType, plugin string, m seqd.Measurement)) {
	for _, name := range c.bizType {
		tell(name, "", seqd.Measurement{Gauge: seqd.GaugeInHand, Value: 1000})
		tell(name, "", seqd.Measurement{Gauge: seqd.GaugeStep, Value: 1000})
		tell(name, "", seqd.Measurement{Gauge: seqd.GaugeRate, Value: 10})
	}
}

// member is a node of a test, with a clock that may be wrong.
type member struct {
	*Figures
	*counter
	nodes *nodes.Nodes
	stop  func()
}

// join starts a node. Its clock is ahead of the store's.
func join(t *testing.T, store persist.Store, ahead time.Duration) *member {
	t.Helper()
	m, log := &member{counter: newCounter()}, slog.New(slog.DiscardHandler)
	now := func() time.Time { return time.Now().Add(ahead) }
	clock := nodes.NewClock(store, now)
	m.nodes = nodes.New(nodes.Options{
		Documents: store.Documents(), Shared: true, Now: now, Clock: clock.Now, ClockKnown: clock.Known, ClockOffset: clock.Offset, Log: log, Addr: fmt.Sprint(":", rand.Uint32()),
		Changes: func() int64 { return 0 }, BizTypes: func() int { return 2 }, Details: func(int) []issuer.Details { return nil },
	})
	id, _ := m.nodes.Self()
	m.Figures = New(Options{
		Documents: store.Documents(), Shared: true, ID: id, Nodes: m.nodes, Clock: clock.Now, ClockKnown: clock.Known, Log: log,
		Counts: m.counter, Issuer: m.counter, Addr: id,
		Stopping: func() bool { return false }, Trouble: func() *seqd.Error { return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, f := range []func(context.Context){clock.Follow, m.nodes.Beat, m.Run} {
		running.Go(func() { f(ctx) })
	}
	m.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(m.stop)
	return m
}

// shown is an overview as a caller reads it.
type shown struct {
	At, Until string
	Complete  bool
	Metrics   bool
	Numbers   []*float64
	Latency   struct{ P50MS []*float64 }
	Refusals  []refusal
	Busiest   []struct {
		BizType          string
		NumbersPerSecond float64
	}
	InHand []struct{ BizType string }
	Nodes  []struct {
		admin.Node
		State   string
		Figures *struct{ NumbersPerSecond *float64 }
	}
}

func (m *member) overview(t *testing.T) shown {
	t.Helper()
	body := must.Get(m.Overview(t.Context()))(t)
	var s shown
	must.Do(t, json.Unmarshal(body, &s))
	return s
}

// newest returns the newest points, or -1 for null.
func (s *shown) newest(n int) (list []float64) {
	for _, v := range s.Numbers[len(s.Numbers)-n:] {
		if v == nil {
			list = append(list, -1)
		} else {
			list = append(list, *v)
		}
	}
	return list
}

func (s *shown) states() (list []string) {
	for _, n := range s.Nodes {
		list = append(list, n.State)
	}
	return list
}

func wants(t *testing.T, what string, got, want any) {
	t.Helper()
	must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s", what)
}

// interval lets the next interval end, and a little more for what follows from that.
func nextInterval() {
	time.Sleep(time.Until(time.UnixMilli(endOf(intervalBefore(time.Now().UnixMilli()) + 1)).Add(time.Second)))
	synctest.Wait()
}

// Two nodes, one of which has a clock that is minutes off, show the same. One of them stops, and
// one that comes later dies: their points stay, and fifteen minutes later nothing is left of them.
func TestCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := join(t, store, 0), join(t, store, 7*time.Minute)
		synctest.Wait()
		nextInterval() // the first one was partial
		for i := range int64(3) {
			a.issue("order", 10*(i+1))
			b.issue("order", 100)
			b.issue("bill", 5)
			b.refuse(seqd.CodeExhausted, 2)
			nextInterval()
		}
		for _, m := range []*member{a, b} {
			s := m.overview(t)
			wants(t, "numbers", s.newest(5), []float64{-1, 0, 23, 25, 27}[0:5])
			wants(t, "refusals", s.Refusals, []refusal{{seqd.CodeExhausted, perSecond(6, 4), 6}})
			wants(t, "busiest", fmt.Sprint(s.Busiest[0].BizType, s.Busiest[1].BizType), "orderbill")
			wants(t, "in hand", len(s.InHand), 2)
			wants(t, "states", s.states(), []string{"ready", "ready"})
			wants(t, "complete", s.Complete && s.Metrics, true)
			for _, n := range s.Nodes {
				offset := 0.0
				if n.ID == b.opts.ID {
					offset = 420_000
				}
				if n.ClockOffsetMS == nil || *n.ClockOffsetMS != offset {
					t.Errorf("the clock offset of a node is %v, want %v", n.ClockOffsetMS, offset)
				}
			}
		}
		b.stop()
		a.issue("order", 50)
		nextInterval()
		s := a.overview(t)
		wants(t, "after a stop", s.newest(5), []float64{0, 23, 25, 27, 10})
		wants(t, "after a stop", s.states(), []string{"ready"})
		time.Sleep(17 * time.Minute)
		must.Equal(t, len(must.Get(store.Documents().List(t.Context(), kind, "", 10))(t)), 1, "documents in the end")
	})
}

// killable is a store that a node can no longer reach.
type killable struct {
	persist.Store
	away atomic.Bool
}

type killableDocuments struct {
	persist.Documents
	store *killable
}

func (k *killable) Documents() persist.Documents { return killableDocuments{k.Store.Documents(), k} }

// reach returns an error if the store is away, after the patience of the caller.
func (d killableDocuments) reach(ctx context.Context) error {
	if d.store.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (d killableDocuments) Update(ctx context.Context, doc persist.Document) error {
	return errors.Join(d.reach(ctx), d.Documents.Update(ctx, doc))
}

func (d killableDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := d.reach(ctx); err != nil {
		return persist.Document{}, err
	}
	return d.Documents.Read(ctx, kind, key)
}

func (d killableDocuments) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := d.reach(ctx); err != nil {
		return err
	}
	return d.Documents.Delete(ctx, kind, key, revision)
}

func (d killableDocuments) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if err := d.reach(ctx); err != nil {
		return nil, err
	}
	return d.Documents.List(ctx, kind, after, limit)
}

// timeless is a store that does not tell its time at first.
type timeless struct {
	persist.Store
	tells atomic.Bool
}

func (s *timeless) Now(ctx context.Context) (time.Time, error) {
	if !s.tells.Load() {
		return time.Time{}, errors.New("no time")
	}
	return s.Store.Now(ctx)
}

// A node whose clock is a day ahead removes nothing of the others before it knows what time it is.
func TestClockNotYetKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b, c := join(t, store, 0), join(t, store, 0), join(t, store, 0)
		nextInterval()
		nextInterval()
		a.issue("order", 10)
		b.issue("order", 100)
		c.issue("order", 1000)
		nextInterval()
		c.stop()
		late := &timeless{Store: store}
		join(t, late, 24*time.Hour)
		time.Sleep(2 * time.Second)
		s := a.overview(t)
		wants(t, "beside a node that is a day ahead", fmt.Sprint(s.newest(1), s.states()), "[222] [ready ready ready]")
		late.tells.Store(true)
		nextInterval()
		nextInterval()
		s = a.overview(t)
		wants(t, "when it knows better", fmt.Sprint(s.newest(3)[0], s.states()), "222 [ready ready ready]")
	})
}

// cut is a store whose writes are done, but say so only if the caller waits for ever.
type cut struct {
	persist.Store
	slow atomic.Bool
}

type cutDocuments struct {
	persist.Documents
	store *cut
}

func (s *cut) Documents() persist.Documents { return cutDocuments{s.Store.Documents(), s} }

func (d cutDocuments) Update(ctx context.Context, doc persist.Document) error {
	err := d.Documents.Update(ctx, doc)
	if d.store.slow.Load() {
		<-ctx.Done()
		d.store.slow.Store(false)
		return ctx.Err()
	}
	return err
}

func (d cutDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := ctx.Err(); err != nil {
		return persist.Document{}, err
	}
	return d.Documents.Read(ctx, kind, key)
}

// A node that stops while it writes says that it has stopped nevertheless.
func TestStopDuringWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		slow := &cut{Store: store}
		a, b := join(t, store, 0), join(t, slow, 0)
		nextInterval()
		nextInterval()
		s := a.overview(t)
		wants(t, "before", fmt.Sprint(s.states()), "[ready ready]")
		slow.slow.Store(true)
		nextInterval()
		b.stop()
		nextInterval()
		s = a.overview(t)
		wants(t, "after a stop", fmt.Sprint(s.states()), "[ready]")
	})
}

// halfway is a store that lists nodes and no figures.
type halfway struct{ persist.Store }

type halfwayDocuments struct{ persist.Documents }

func (s halfway) Documents() persist.Documents { return halfwayDocuments{s.Store.Documents()} }

func (d halfwayDocuments) List(ctx context.Context, of, after string, limit int) ([]persist.Document, error) {
	if of == kind {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return d.Documents.List(ctx, of, after, limit)
}

// Figures of one node are not shown beside all nodes.
func TestStoreAnswersHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := join(t, store, 0), join(t, halfway{store}, 0)
		nextInterval()
		nextInterval()
		s := a.overview(t)
		wants(t, "with the store", fmt.Sprint(s.Complete, s.states()), "true [ready ready]")
		s = b.overview(t)
		wants(t, "without figures", fmt.Sprint(s.Complete, s.states()), "false [ready]")
	})
}

// A node that dies is gone after 20 s, and its points stay. The others answer.
func TestDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		dying := &killable{Store: store}
		a, b := join(t, store, 0), join(t, dying, 0)
		nextInterval()
		nextInterval()
		a.issue("order", 10)
		b.issue("order", 100)
		nextInterval()
		dying.away.Store(true)
		for range 6 {
			a.issue("order", 10)
			nextInterval()
		}
		s := a.overview(t)
		wants(t, "after a death", s.newest(7), []float64{22, 2, 2, 2, 2, 2, 2})
		wants(t, "after a death", len(s.Nodes), 2)
		wants(t, "after a death", strings.Count(fmt.Sprint(s.states()), "gone"), 1)
		// The node that lost the store shows what it has, and says that there may be more.
		began := time.Now()
		s = b.overview(t)
		wants(t, "without the store", s.newest(7), []float64{20, 0, 0, 0, 0, 0, 0})
		wants(t, "without the store", fmt.Sprint(s.Complete, s.states()), "false [ready]")
		if took := time.Since(began); took > readPatience {
			t.Errorf("without the store the answer took %s", took)
		}
	})
}

// After an outage of the store no node is said to be gone before it had the time to report again.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := memory.New(time.Now)
		stores := []*killable{{Store: shared}, {Store: shared}, {Store: shared}}
		a, _, dead := join(t, stores[0], 0), join(t, stores[1], 0), join(t, stores[2], 0)
		nextInterval()
		nextInterval()
		for _, store := range stores {
			store.away.Store(true)
		}
		for range 12 {
			nextInterval()
		}
		s := a.overview(t)
		wants(t, "during the outage", fmt.Sprint(s.states()), "[ready]")
		stores[0].away.Store(false)
		stores[1].away.Store(false)
		gone := 0
		for i := range 2 * silence {
			nextInterval()
			s := a.overview(t)
			gone = strings.Count(fmt.Sprint(s.states()), "gone")
			if i < silence-1 {
				wants(t, fmt.Sprint(i, " intervals after the outage"), gone, 0)
			}
		}
		wants(t, "long after the outage", gone, 1)
		for _, n := range a.overview(t).Nodes {
			if n.State == "gone" && n.ID != dead.opts.ID {
				t.Errorf("%s is said to be gone", n.ID)
			}
		}
	})
}

// Documents that are damaged, or of another version, do no harm.
func TestForeignDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := join(t, store, 0), join(t, store, 0)
		nextInterval()
		nextInterval()
		b.issue("order", 100)
		nextInterval()
		doc := must.Get(store.Documents().Read(t.Context(), kind, b.opts.ID))(t)
		for i, body := range []string{
			"", "{}", "[]", "null", strings.Repeat("x", 1<<20), strings.Replace(doc.Body, `"numbers":"`, `"numbers":"_`, 1),
			strings.Replace(doc.Body, `"v":1`, `"v":7,"new":{"a":[1]}`, 1), // a newer version counts
			strings.Replace(doc.Body, `"last":`, `"last":-`, 1), strings.Replace(doc.Body, `"last":`, `"last":99999999999`, 1),
		} {
			must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: kind, Key: fmt.Sprint("k", i), Revision: 1, Body: body, Expires: doc.Expires}))
		}
		s := a.overview(t)
		wants(t, "numbers", s.newest(2), []float64{0, 40})
		wants(t, "complete", s.Complete, true)
	})
}

// A node that does not count writes nothing, and shows what it finds.
func TestWithoutCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, is := memory.New(time.Now), newCounter()
		n := nodes.New(nodes.Options{
			Documents: store.Documents(), Shared: true, Now: time.Now,
			Changes: func() int64 { return 0 }, BizTypes: func() int { return 2 }, Details: func(int) []issuer.Details { return nil },
		})
		id, _ := n.Self()
		m := &member{nodes: n, Figures: New(Options{
			Documents: store.Documents(), Shared: true, ID: id, Nodes: n, Clock: time.Now, Issuer: is,
			Stopping: func() bool { return true }, Trouble: func() *seqd.Error { return nil },
		})}
		m.Run(t.Context()) // returns at once
		s := m.overview(t)
		wants(t, "the overview", fmt.Sprint(s.Metrics, s.newest(2), len(s.Numbers), s.states(), len(s.InHand), s.Busiest == nil), "false [-1 -1] 180 [stopping] 2 false")
		if docs, _ := store.Documents().List(t.Context(), kind, "", 10); len(docs) > 0 {
			t.Errorf("there are documents: %v", docs)
		}
	})
}

// Before the first sample there are no figures of the node.
func TestBeforeTheFirstSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, n := newCounter(), nodes.New(nodes.Options{
			Documents: memory.New(time.Now).Documents(), Now: time.Now,
			Changes: func() int64 { return 0 }, BizTypes: func() int { return 2 }, Details: func(int) []issuer.Details { return nil },
		})
		id, _ := n.Self()
		m := &member{Figures: New(Options{
			ID: id, Nodes: n, Clock: time.Now, Issuer: c, Counts: c,
			Stopping: func() bool { return false }, Trouble: func() *seqd.Error { return seqd.Errorf(seqd.CodeStoreFailedOver, "look") },
		})}
		s := m.overview(t)
		wants(t, "the overview", fmt.Sprint(s.Metrics, s.newest(2), s.states(), s.Nodes[0].Figures == nil), "true [-1 -1] [degraded] true")
	})
}

// Many who ask at once get one answer, and one of them looks.
func TestOneAnswerForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, memory.New(time.Now), 0)
		nextInterval()
		time.Sleep(2 * time.Second)
		before := a.looks.Load()
		var asking sync.WaitGroup
		for range 100 {
			asking.Go(func() { a.overview(t) })
		}
		asking.Wait()
		must.Equal(t, a.looks.Load()-before, 1, "the looks")
		ctx, cancel := context.WithCancel(t.Context())
		a.answer.busy <- struct{}{}
		cancel()
		must.Code(t, must.Err(a.Overview(ctx)), seqd.CodeCanceled, "a caller that has gone gets")
		<-a.answer.busy
	})
}

// untidy takes long to tidy.
type untidy struct{ *counter }

func (untidy) Tidy() { time.Sleep(3 * time.Second) }

// A node that takes seconds to tidy counts in every interval nevertheless.
func TestLongTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ended := join(t, memory.New(time.Now), 0), make(chan struct{})
		m.stop()
		m.opts.Counts, m.opts.Shared = untidy{m.counter}, false
		ctx, cancel := context.WithCancel(t.Context())
		go func() { m.Run(ctx); close(ended) }()
		for range 3 * minute * intervalLength / 100 {
			time.Sleep(100 * time.Millisecond)
			m.issue("order", 1)
		}
		time.Sleep(time.Second)
		s := m.overview(t)
		for i, v := range s.newest(2 * minute) {
			if v < 9.5 || v > 10.5 {
				t.Errorf("interval %d has %v", i, v)
			}
		}
		cancel()
		<-ended
	})
}

// slow is an issuer of very many biz types.
type slow struct{ *counter }

func (s slow) States(tell func(issuer.State)) {
	time.Sleep(3 * time.Second)
	s.counter.States(tell)
}

// With very many biz types nobody waits for a look, except for the first one, and looks are rare.
func TestLongLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		f := New(Options{
			Clock: time.Now, Issuer: slow{c},
			Stopping: func() bool { return false }, Trouble: func() *seqd.Error { return nil },
		})
		f.look()
		began := time.Now()
		for time.Since(began) < time.Hour {
			before := time.Now()
			if f.look().bizTypes.Total != 2 || time.Since(before) > 0 {
				t.Fatalf("a look took %s", time.Since(before))
			}
			time.Sleep(time.Second)
		}
		if n := c.looks.Load(); n < 5 || n > 7 {
			t.Errorf("it looked %d times in an hour, want 6", n)
		}
		time.Sleep(time.Minute) // the last look ends
	})
}

// A biz type that was deleted is no longer among the busiest.
func TestDeletedBizType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := join(t, memory.New(time.Now), 0)
		nextInterval()
		a.issue("gone", 100)
		a.issue(others, 50)
		nextInterval()
		s := a.overview(t)
		wants(t, "busiest", len(s.Busiest), 1)
		wants(t, "busiest", s.Busiest[0].BizType, others)
		wants(t, "numbers", s.newest(1), []float64{30})
	})
}

// What was counted before the first sample belongs to no interval.
func TestCountsOfTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCounter()
		c.issue("order", 100)
		c.refuse(seqd.CodeExhausted, 100)
		s := sampler{counts: c, window: newWindow(), codes: map[seqd.Code]int64{}}
		now, elapsed := endTime(300_000_000), time.Duration(0)
		for range 3 {
			s.sample(now, elapsed)
			now, elapsed = now.Add(intervalLength*time.Millisecond), elapsed+intervalLength*time.Millisecond
			c.issue("order", 1)
			c.refuse(seqd.CodeExhausted, 1)
		}
		r := new(report)
		s.fill(r)
		calls := r.Calls.lately()
		wants(t, "numbers, refusals and calls", fmt.Sprint(r.Numbers[intervals-3:], r.Refusals, calls[:3]), "[-1 1 1] [{exhausted 0.2 2}] [0 2 0]")
	})
}

// The document of a busy node is small, and that of the busiest one bounded.
func TestSize(t *testing.T) {
	size := func(perInterval int64, bizTypes, buckets int, name string) int {
		w, c := begun()
		for range 2 * intervals {
			c.pass(intervalLength)
			w.move(c.now, c.elapsed)
			for i := range bizTypes {
				w.add(fmt.Sprintf("%s%02d", name, i), rand.Int64N(perInterval)+1, rand.Int64N(perInterval)+1)
			}
			for i := range 2 * bizTypes {
				w.addCode(seqd.Code(fmt.Sprint("some_code_", i)), perInterval)
			}
			for i := range buckets {
				w.calls[w.at][(i+5)%23] = rand.Uint32() | 1<<31
			}
		}
		r := &report{Version: version, Addr: "[::]:8080", Host: name, Build: name, Bounds: make([]float64, 22), StartedAt: admin.Time(0)}
		for i := range r.Bounds {
			r.Bounds[i] = 2.5e-6 * float64(i+1)
		}
		for i := range mostListed {
			at := fmt.Sprintf("%s%02d", name, i)
			r.InHand = append(r.InHand, inHand{at, 123456, 1234.567, 100000})
			r.RunsOut = append(r.RunsOut, runsOut{BizType: at, Plugin: "format", What: displayEnds, LastsMS: 123456789, Share: 0.123456})
			r.Reasons = append(r.Reasons, admin.Reason{BizType: at, Code: seqd.CodeStoreUnavailable, Detail: strings.Repeat("é", 40+len(name)*3)})
		}
		r.fill(w)
		body := must.Get(r.write())(t)
		must.Get(readReport("a", body))(t)
		return len(body)
	}
	idle := size(0, 0, 0, "a")
	busy := size(20_000, 12, 8, "order-item")
	worst := size(1<<40, 40, 23, strings.Repeat("n", 62))
	t.Logf("an idle node writes %d bytes, a busy one %d, the worst one %d", idle, busy, worst)
	if idle > 5000 || busy > longestWritten || worst > longestWritten {
		t.Errorf("an idle node writes %d bytes, a busy one %d, the worst one %d", idle, busy, worst)
	}
}

// The longer reading reports takes, the longer an answer is given again, within limits.
func TestManyNodes(t *testing.T) {
	for reading, want := range map[time.Duration]time.Duration{
		time.Millisecond: answerPause, 100 * time.Millisecond: answerShare * 100 * time.Millisecond, time.Second: longestPause,
	} {
		synctest.Test(t, func(t *testing.T) {
			store, counter := memory.New(time.Now), newCounter()
			f := New(Options{
				Documents: store.Documents(), Shared: true, Counts: counter, Issuer: counter, Log: slog.New(slog.DiscardHandler),
				// Who reads reports asks for the time.
				Clock: func() time.Time { time.Sleep(reading); return time.Now() },
				Nodes: nodes.New(nodes.Options{
					Documents: store.Documents(), Now: time.Now, Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 },
					Details: func(int) []issuer.Details { return nil },
				}),
				Stopping: func() bool { return false }, Trouble: func() *seqd.Error { return nil },
			})
			must.Get(f.Overview(t.Context()))(t)
			must.Equal(t, time.Until(f.answer.until), want, "reading takes %s, and an answer is given for", reading)
		})
	}
}
