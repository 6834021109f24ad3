package history

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
)

// slowStore is a store in which searches take a second.
type slowStore struct {
	*fakeStore
	searches, most int // that are under way, and were at most
}

func (s *slowStore) History() persist.HistoryStore { return s }

func (s *slowStore) List(context.Context, persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	s.mu.Lock()
	s.searches++
	s.most = max(s.most, s.searches)
	s.mu.Unlock()
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.searches--
	return nil, nil
}

// However many ask, there is one search at a time. The others wait for it, but not for long.
func TestOneSearchAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{fakeStore: newFake()}
		p := start(t, store, nil, nil)
		leaves, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		var all sync.WaitGroup
		var found, refused atomic.Int64
		for range 10 {
			all.Go(func() {
				switch _, err := p.Show(t.Context(), nil); {
				case err == nil:
					found.Add(1)
				case seqd.CodeOf(err) == seqd.CodeOverloaded:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := p.Show(leaves, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who leaves is told %v", err)
		}
		all.Wait()
		if store.most != 1 || found.Load()+refused.Load() != 10 || refused.Load() < 4 {
			t.Errorf("%d searches at once, %d found and %d refused", store.most, found.Load(), refused.Load())
		}
		must.Do(t, p.Close(t.Context()))
	})
}

// TestBatches checks that a batch is written when it is full, or when its first record is
// flushInterval old.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		p := start(t, store, nil, func(s *Settings) { s.Batch = 5 })
		for n := int64(1); n <= 5; n++ {
			must.Do(t, issue(t.Context(), p, n))
		}
		synctest.Wait()
		once(t, kept(t, store.HistoryStore, "order"), 5)
		must.Do(t, issue(t.Context(), p, 6))
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		once(t, kept(t, store.HistoryStore, "order"), 5)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		once(t, kept(t, store.HistoryStore, "order"), 6)
		time.Sleep(time.Hour)
		synctest.Wait()
		if appends, most := store.seen(); appends != 2 || most != 5 {
			t.Errorf("%d writes of at most %d", appends, most)
		}
		stop(t, p)
	})
}

// TestOverflow checks each policy when the queue is full because the store hangs.
func TestOverflow(t *testing.T) {
	for _, policy := range []string{Drop, Block, Reject} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, log, hang := newFake(), &testlog.Text{}, make(chan struct{})
				store.set(nil, false, hang)
				p := start(t, store, log, func(s *Settings) { s.Queue, s.Batch, s.OnOverflow = 10, 4, policy })
				for n := int64(1); n <= 10; n++ {
					must.Do(t, issue(t.Context(), p, n))
				}
				began := time.Now()
				for n := int64(11); n <= 13; n++ {
					err := issue(t.Context(), p, n)
					if policy == Drop && err != nil || policy != Drop && seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
						t.Errorf("%d: %v", n, err)
					}
				}
				took, want := time.Since(began), time.Duration(0)
				if policy == Block {
					want = 6 * time.Second
				}
				must.Equal(t, took, want, "took")
				must.Equal(t, p.pipe.left(), 10, "how many are held")
				dropped := map[string]float64{Drop: 3}[policy]
				wantGauges(t, p, 10, 10, dropped)
				store.set(nil, false, nil)
				close(hang)
				synctest.Wait()
				time.Sleep(time.Second)
				wantGauges(t, p, 0, 10, dropped)
				stop(t, p)
				wantGauges(t, p, 0, 10, dropped)
				once(t, kept(t, store.HistoryStore, "order"), 10)
				if policy == Drop && (log.Count("records are dropped") != 2 || log.Count("inAll=3") != 1) {
					t.Errorf("logged %s", log.String())
				}
			})
		})
	}
}

// TestBlockWaitsInTurn checks that, under block, requests get room in turn and never wait longer
// than their contexts.
func TestBlockWaitsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, hang := newFake(), make(chan struct{})
		store.set(nil, false, hang)
		p := start(t, store, nil, func(s *Settings) { s.Queue, s.Batch, s.OnOverflow = 3, 1, Block })
		for n := int64(1); n <= 3; n++ {
			must.Do(t, issue(t.Context(), p, n))
		}
		var wg sync.WaitGroup
		for n := int64(4); n <= 6; n++ {
			wg.Go(func() {
				must.Report(t, issue(context.Background(), p, n))
			})
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		must.Is(t, issue(ctx, p, 7), context.DeadlineExceeded)
		store.set(nil, false, nil)
		close(hang)
		wg.Wait()
		stop(t, p)
		once(t, kept(t, store.HistoryStore, "order"), 6)
	})
}

// TestRetry checks that a batch is repeated until it is stored, that an attempt of unknown outcome
// stores nothing twice, and that the episode is logged once.
func TestRetry(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, log := newFake(), &testlog.Text{}
			store.set(persist.ErrUnavailable, late, nil)
			p := start(t, store, log, nil)
			for n := int64(1); n <= 3; n++ {
				must.Do(t, issue(t.Context(), p, n))
			}
			time.Sleep(time.Minute)
			if appends, _ := store.seen(); appends < 10 || appends > 30 {
				t.Errorf("%d attempts in a minute", appends)
			}
			store.set(nil, false, nil)
			time.Sleep(lastPause)
			synctest.Wait()
			once(t, kept(t, store.HistoryStore, "order"), 3)
			if log.Count("cannot be written") != 1 || log.Count("written again") != 1 {
				t.Errorf("logged %s", log.String())
			}
			stop(t, p)
		})
	}
}

// TestStop checks that the queue is written at the stop, even if the store only then works again,
// and that this never takes longer than the context allows.
func TestStop(t *testing.T) {
	for name, test := range map[string]struct {
		back time.Duration // when the store works again
		lost bool
	}{"at once": {0, false}, "in time": {3 * time.Second, false}, "too late": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, log := newFake(), &testlog.Text{}
				p := start(t, store, log, nil)
				store.set(persist.ErrUnavailable, false, nil)
				time.AfterFunc(test.back, func() { store.set(nil, false, nil) })
				for n := int64(1); n <= 7; n++ {
					must.Do(t, issue(t.Context(), p, n))
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				err := p.Close(ctx)
				if took := time.Since(began); took > 5*time.Second+grace || !test.lost && took > test.back+lastPause {
					t.Errorf("closing took %s", took)
				}
				if test.lost {
					if err == nil || !strings.Contains(err.Error(), "7 records") || log.Count("records=7") != 1 {
						t.Errorf("%v; logged %s", err, log.String())
					}
					return
				}
				must.Report(t, err)
				once(t, kept(t, store.HistoryStore, "order"), 7)
			})
		})
	}
}

// TestShared checks that biz types with equal settings share a queue and a writer, which end with
// the last of them.
func TestShared(t *testing.T) {
	store := newFake()
	a, b := startAs(t, "a", store, nil, nil), startAs(t, "b", store, nil, nil)
	c := startAs(t, "c", store, nil, func(s *Settings) { s.Batch = 7 })
	d := startAs(t, "d", newFake(), nil, nil)
	if a.pipe != b.pipe || a.pipe == c.pipe || a.pipe == d.pipe {
		t.Error("not shared as it should be")
	}
	for _, p := range []*Plugin{a, b} {
		must.Do(t, issue(t.Context(), p, 1))
	}
	stop(t, a)
	must.Do(t, issue(t.Context(), b, 2))
	stop(t, b)
	stop(t, c)
	stop(t, d)
	once(t, kept(t, store.HistoryStore, "a"), 1)
	once(t, kept(t, store.HistoryStore, "b"), 2)
	must.Equal(t, len(pipes.by), 0, "the pipes left")
}

// TestRetention checks that old records of this biz type are removed in small steps, and no others.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFake()
		p := start(t, store, nil, func(s *Settings) { s.Retention = time.Hour })
		for n := int64(1); n <= 1200; n++ {
			must.Do(t, issue(t.Context(), p, n))
		}
		time.Sleep(50 * time.Minute)
		must.Do(t, issue(t.Context(), p, 1201))
		time.Sleep(time.Second)
		once(t, kept(t, store.HistoryStore, "order"), 1201)
		time.Sleep(17 * time.Minute)
		if got := kept(t, store.HistoryStore, "order"); len(got) != 1 || got[0] != 1201 {
			t.Errorf("%d records are left", len(got))
		}
		stop(t, p)
	})
}

// TestRecord checks the limits of a record.
func TestRecord(t *testing.T) {
	store := newFake()
	p := start(t, store, nil, nil)
	long := strings.Repeat("x", 10_000)
	send := func(caller seqd.Caller, shown func(int64) string, runs ...seqd.Run) {
		call := &seqd.Call{Count: 1, Caller: caller}
		call.Sequence.For("t1")
		for _, r := range runs {
			call.Sequence.Add(r.First, r.Count, r.Stride)
		}
		if shown != nil {
			call.Sequence.Show(func(dst []byte, n int64, _ []byte) []byte { return append(dst, shown(n)...) })
		}
		must.Do(t, p.After(t.Context(), call))
	}
	var many []seqd.Run
	for i := range 100 {
		many = append(many, seqd.Run{First: int64(i * 10), Count: 2, Stride: 1})
	}
	inv := func(n int64) string { return fmt.Sprintf("INV-%d", n) }
	send(seqd.Caller{}, nil, seqd.Run{First: 1 << 62, Count: 1000, Stride: 1 << 20})
	send(seqd.Caller{}, inv, seqd.Run{First: 5, Count: 3, Stride: 1})
	send(seqd.Caller{}, inv, seqd.Run{First: 5, Count: 11, Stride: 1})
	send(seqd.Caller{Name: "a\xff", Addr: long, RequestID: long}, func(int64) string { return long }, seqd.Run{First: 5, Count: 1, Stride: 1})
	send(seqd.Caller{}, nil, many...)
	stop(t, p)
	list, err := store.List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 10})
	if err != nil || len(list) != 5 {
		t.Fatal(list, err)
	}
	for i := range list {
		list[i].ID, list[i].BizType, list[i].Time = "", "", 0
	}
	cutLong := long[:mostText]
	var firstRuns []persist.HistoryRun
	for _, r := range many[:mostRuns] {
		firstRuns = append(firstRuns, persist.HistoryRun(r))
	}
	want := []persist.HistoryRecord{
		{Key: "t1", First: 0, Last: 991, Count: 200, Runs: firstRuns},
		{Key: "t1", First: 5, Last: 5, Count: 1, IDs: []string{cutLong}, Caller: "a\uFFFD", Addr: cutLong, RequestID: cutLong},
		{Key: "t1", First: 5, Last: 15, Count: 11, IDs: []string{"INV-5", "INV-15"}},
		{Key: "t1", First: 5, Last: 7, Count: 3, IDs: []string{"INV-5", "INV-6", "INV-7"}},
		{Key: "t1", First: 1 << 62, Last: 1<<62 + 999<<20, Count: 1000},
	}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("got  %+v\nwant %+v", list, want)
	}
}

func TestShow(t *testing.T) {
	store := newFake()
	p := start(t, store, nil, nil)
	at := func(n int64) int64 { return time.Date(2026, 1, 31, 12, 0, int(n), 0, time.UTC).UnixMilli() }
	var list []persist.HistoryRecord
	for n := int64(1); n <= 5; n++ {
		list = append(list, persist.HistoryRecord{ID: persist.HistoryID(at(n), 1, 1), BizType: "order", Time: at(n), First: n, Last: n, Count: 1, Caller: "shop", Key: []string{"", "a", "b"}[n%3]})
	}
	must.Do(t, store.Append(t.Context(), list))
	next := ""
	for _, test := range []struct {
		query string
		want  []int64
		more  bool
	}{
		{"", []int64{5, 4, 3, 2, 1}, false},
		{"limit=5", []int64{5, 4, 3, 2, 1}, false},
		{"limit=2", []int64{5, 4}, true},
		{"limit=2&after=NEXT", []int64{3, 2}, true},
		{"limit=2&after=NEXT", []int64{1}, false},
		{"key=b", []int64{5, 2}, false},
		{"key=b&limit=1", []int64{5}, true},
		{"key=b&limit=1&after=NEXT", []int64{2}, false},
		{"key=c", nil, false},
		{"from=2026-01-31T12:00:02Z&to=2026-01-31T13:00:04%2B01:00", []int64{3, 2}, false},
	} {
		query := must.Get(url.ParseQuery(strings.Replace(test.query, "NEXT", next, 1)))(t)
		shown := must.Get(p.Show(t.Context(), query))(t)
		answer := shown.(page)
		var got []int64
		for _, r := range answer.Records {
			got = append(got, r.First)
			if query.Has("key") && r.Key != query.Get("key") {
				t.Errorf("%s: %+v", test.query, r)
			}
		}
		if !reflect.DeepEqual(got, test.want) || (answer.Next != "") != test.more || answer.BizType != "order" {
			t.Errorf("%s: %+v, want %v", test.query, answer, test.want)
		}
		next = answer.Next
	}
	stop(t, p)
}

func TestWrongQueries(t *testing.T) {
	p := start(t, newFake(), nil, nil)
	defer stop(t, p)
	for query, want := range map[string]string{
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "limit=": "limit", "limit=1&limit=2": "limit",
		"after=x": "after", "after=": "after", "after=" + strings.Repeat("G", 40): "after",
		"key=": "key", "key=a%20b": "key", "key=a&key=a": "key", "key=" + strings.Repeat("a", 65): "key",
		"from=yesterday": "from", "to=2026-01-31": "to", "from=": "from", "colour=red": "colour", "Limit=5": "Limit",
		"id=": "id", "number=0": "number", "number=x": "number", "id=1&id=2": "id", "caller=a&caller=b": "caller",
	} {
		values := must.Get(url.ParseQuery(query))(t)
		code := seqd.CodeInvalidRequest
		if len(values["key"]) == 1 {
			code = seqd.CodeInvalidKey
		}
		if _, err := p.Show(t.Context(), values); seqd.CodeOf(err) != code || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for key, change := range map[string]func(*Settings){
		"to":            func(s *Settings) { s.To = "mongo" },
		"queue":         func(s *Settings) { s.Queue, s.Batch = 0, 1 },
		"batch":         func(s *Settings) { s.Queue, s.Batch = 10, 11 },
		"flushInterval": func(s *Settings) { s.FlushInterval = 0 },
		"onOverflow":    func(s *Settings) { s.OnOverflow = "" },
		"blockTimeout":  func(s *Settings) { s.BlockTimeout = time.Hour },
		"retention":     func(s *Settings) { s.Retention = time.Second },
		"file.path":     func(s *Settings) { s.To, s.File.Path = ToFile, "" },
		"file.maxSize":  func(s *Settings) { s.File.MaxSize = 10 },
		"file.maxFiles": func(s *Settings) { s.File.MaxFiles = -1 },
	} {
		s := DefaultSettings()
		change(&s)
		if problems := s.Validate(); len(problems) != 1 || problems[0].Key != key {
			t.Errorf("%s: %v", key, problems)
		}
	}
	s := DefaultSettings()
	if problems := s.Validate(); len(problems) > 0 || s.Traits().MaxWait != 0 {
		t.Errorf("the defaults: %v", problems)
	}
	twice := seqd.BizType{Name: "order", Plugins: []seqd.PluginBinding{{Name: name}, {Name: "stats"}, {Name: name}}}
	must.Equal(t, len(check(twice, twice.Plugins[0])), 1, "two in one chain are accepted")
	twice.Plugins = twice.Plugins[:2]
	must.Equal(t, len(check(twice, twice.Plugins[0])), 0, "one in one chain is refused")
}
