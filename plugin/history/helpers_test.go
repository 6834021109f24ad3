package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
)

// fakeStore is a store whose history can fail or hang, and that counts records.
type fakeStore struct {
	persist.Store
	persist.HistoryStore
	mu      sync.Mutex
	fail    error         // returned by Append
	late    bool          // Append stores the records although it fails
	hang    chan struct{} // Append waits until it is closed
	forget  bool          // Append keeps nothing; set before use
	appends int
	most    int // most records in one Append
}

func newFake() *fakeStore {
	s := memory.New(time.Now)
	return &fakeStore{Store: s, HistoryStore: s.History()}
}

func (s *fakeStore) History() persist.HistoryStore { return s }

func (s *fakeStore) set(fail error, late bool, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.late, s.hang = fail, late, hang
}

// seen returns how often Append was called, and the largest number of records.
func (s *fakeStore) seen() (appends, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.appends, s.most
}

func (s *fakeStore) Append(ctx context.Context, records []persist.HistoryRecord) error {
	s.mu.Lock()
	fail, late, hang := s.fail, s.late, s.hang
	s.appends++
	s.most = max(s.most, len(records))
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.forget {
		return nil
	}
	if fail != nil && !late {
		return fail
	}
	return errors.Join(s.HistoryStore.Append(ctx, records), fail)
}

// start returns a plugin of the biz type order.
func start(t testing.TB, store persist.Store, log *testlog.Text, change func(*Settings)) *Plugin {
	t.Helper()
	return startAs(t, "order", store, log, change)
}

func startAs(t testing.TB, bizType string, store persist.Store, log *testlog.Text, change func(*Settings)) *Plugin {
	t.Helper()
	s := DefaultSettings()
	if change != nil {
		change(&s)
	}
	if problems := s.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	if log == nil {
		log = &testlog.Text{}
	}
	env := plugin.Env{Store: store, Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil))}
	return must.Get(New(env, seqd.BizType{Name: bizType}, seqd.PluginBinding{Name: name, Settings: &s}))(t)
}

// issue makes one request for a number.
func issue(ctx context.Context, p *Plugin, number int64) error {
	call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: "shop", Addr: "192.0.2.1", RequestID: fmt.Sprint("r", number)}}
	if err := p.Before(ctx, call); err != nil {
		return err
	}
	call.Sequence.Add(number, 1, 1)
	return p.After(ctx, call)
}

func stop(t testing.TB, p *Plugin) {
	t.Helper()
	must.Report(t, p.Close(context.Background()))
}

// kept returns the first numbers of all records, the newest first.
func kept(t testing.TB, h persist.HistoryStore, bizType string) (numbers []int64) {
	t.Helper()
	query := persist.HistoryQuery{BizType: bizType, Limit: 1000}
	for {
		list := must.Get(h.List(context.Background(), query))(t)
		for _, r := range list {
			numbers = append(numbers, r.First)
		}
		if len(list) < query.Limit {
			return numbers
		}
		query.Before = list[len(list)-1].ID
	}
}

// once checks that numbers has each of 1 to n once.
func once(t testing.TB, numbers []int64, n int) {
	t.Helper()
	seen := make(map[int64]bool)
	for _, number := range numbers {
		if seen[number] {
			t.Errorf("%d is there twice", number)
		}
		seen[number] = true
	}
	for number := int64(1); number <= int64(n); number++ {
		if !seen[number] {
			t.Fatalf("%d is not there", number)
		}
	}
	must.Equal(t, len(numbers), n, "the records")
}

// wantGauges compares what a plugin measures.
func wantGauges(t testing.TB, p *Plugin, queued, size, dropped float64) {
	t.Helper()
	want := map[seqd.Gauge]float64{seqd.GaugeQueued: queued, seqd.GaugeQueueSize: size, seqd.GaugeDropped: dropped}
	got := make(map[seqd.Gauge]float64)
	p.Measure(func(m seqd.Measurement) { got[m.Gauge] = m.Value })
	if !maps.Equal(got, want) {
		t.Errorf("measured %v, want %v", got, want)
	}
}
