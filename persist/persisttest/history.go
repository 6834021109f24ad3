package persisttest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
)

// HistoryFactory returns an empty history, and a function that closes it, which the suite may call
// more than once.
type HistoryFactory func(t *testing.T) (history persist.HistoryStore, end func() error)

// historySuite is one test's history.
type historySuite struct {
	*testing.T
	history persist.HistoryStore
	end     func() error
}

// RunHistory runs the tests of histories. Run does so too. wholesale says that Purge may keep
// records that could be removed, because it removes whole files.
func RunHistory(t *testing.T, wholesale bool, open HistoryFactory) {
	tests := []struct {
		name string
		run  func(*historySuite)
		fine bool // not for those that purge wholesale
	}{
		{"what does not exist is empty", testHistoryEmpty, false},
		{"records come back as they are, newest first", testHistoryKeeps, false},
		{"records that are there stay as they are", testHistoryTwice, false},
		{"late records find their place", testHistoryLate, false},
		{"time bounds", testHistoryBounds, false},
		{"biz types do not touch each other", testHistoryApart, false},
		{"a query for a key finds its records alone", testHistoryKey, false},
		{"paging while others append", testHistoryPaging, false},
		{"what is removed is gone, and nothing else", testHistoryRemove, true},
		{"purge takes the oldest, some at a time", testHistoryPurge, true},
		{"of many purges each record goes once", testHistoryPurgeRace, true},
		{"bad input changes nothing", testHistoryBad, false},
		{"an ended context changes nothing", testHistoryContext, false},
		{"a closed history refuses", testHistoryClosed, false},
	}
	for _, test := range tests {
		if wholesale && test.fine {
			continue
		}
		t.Run("History/"+test.name, func(t *testing.T) {
			history, end := open(t)
			t.Cleanup(func() {
				if err := end(); err != nil && !errors.Is(err, persist.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
			test.run(&historySuite{t, history, end})
		})
	}
}

// historyRecord returns the n-th record of a biz type, of the time n.
func historyRecord(bizType string, n int64) persist.HistoryRecord {
	return persist.HistoryRecord{
		ID: persist.HistoryID(n, 7, uint64(n)), BizType: bizType, Time: n, First: n, Last: n, Count: 1, Caller: "shop", Addr: "192.0.2.1", RequestID: fmt.Sprint("r", n),
	}
}

func historyRecords(bizType string, from, to int64) (list []persist.HistoryRecord) {
	for n := from; n <= to; n++ {
		list = append(list, historyRecord(bizType, n))
	}
	return list
}

func (s *historySuite) append(records ...persist.HistoryRecord) {
	s.Helper()
	if err := s.history.Append(s.Context(), records); err != nil {
		s.Fatal(err)
	}
}

func (s *historySuite) list(q persist.HistoryQuery) []persist.HistoryRecord {
	s.Helper()
	list, err := s.history.List(s.Context(), q)
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// wants checks that a query finds the records with these first numbers.
func (s *historySuite) wants(q persist.HistoryQuery, want ...int64) {
	s.Helper()
	var got []int64
	for _, r := range s.list(q) {
		got = append(got, r.First)
	}
	if !slices.Equal(got, want) {
		s.Errorf("%+v found %v, want %v", q, got, want)
	}
}

func testHistoryEmpty(s *historySuite) {
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 10})
	if n, err := s.history.Purge(s.Context(), "order", 1000, 10); n != 0 || err != nil {
		s.Errorf("purged %d, %v", n, err)
	}
	s.append()
	s.append(historyRecord("order", 1))
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 0})
	s.wants(persist.HistoryQuery{BizType: "order", Limit: -1})
}

func testHistoryKeeps(s *historySuite) {
	full := persist.HistoryRecord{
		ID: persist.HistoryID(1_790_000_000_123, 1<<64-1, 1<<48-1), BizType: "order", Key: "tenant-42", Time: 1_790_000_000_123,
		First: 1<<63 - 1, Last: 5, Count: 1_000_000, IDs: []string{"INV-ü<&>\"'\\", "b\u2028"}, Caller: "shop 1", Addr: "2001:db8::1", RequestID: "r",
		Runs: []persist.HistoryRun{{First: 1<<63 - 1, Stride: -1 << 62, Count: 2}, {First: 5, Stride: 1 << 62, Count: 999_998}},
	}
	bare := persist.HistoryRecord{ID: persist.HistoryID(0, 0, 0), BizType: "order", Count: 1}
	s.append(bare, full)
	if got := s.list(persist.HistoryQuery{BizType: "order", Limit: 10}); !reflect.DeepEqual(got, []persist.HistoryRecord{full, bare}) {
		s.Errorf("got  %+v\nwant %+v", got, []persist.HistoryRecord{full, bare})
	}
}

func testHistoryTwice(s *historySuite) {
	s.append(historyRecords("order", 1, 5)...)
	changed := historyRecord("order", 3)
	changed.Caller = "somebody else"
	// As after an error: some exist, some do not, and one is twice in the batch.
	s.append(append(historyRecords("order", 4, 8), changed, historyRecord("order", 8))...)
	s.append(historyRecords("order", 1, 8)...)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 8, 7, 6, 5, 4, 3, 2, 1)
	for _, r := range s.list(persist.HistoryQuery{BizType: "order", Limit: 100}) {
		if r.Caller != "shop" {
			s.Errorf("changed to %+v", r)
		}
	}
}

func testHistoryLate(s *historySuite) {
	s.append(historyRecords("order", 10, 12)...)
	s.append(historyRecord("order", 5), historyRecord("order", 13), historyRecord("order", 1))
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 13, 12, 11, 10, 5, 1)
}

func testHistoryBounds(s *historySuite) {
	s.append(historyRecords("order", 1, 20)...)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 2}, 20, 19)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, From: 18}, 20, 19, 18)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 2, To: 18}, 17, 16)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, From: 3, To: 5}, 4, 3)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, From: 5, To: 5})
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, From: 9, To: 5})
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, From: -5, To: 3}, 2, 1)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, To: 1 << 62, From: 20}, 20)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 2, Before: historyRecord("order", 15).ID}, 14, 13)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 2, Before: historyRecord("order", 15).ID, To: 10}, 9, 8)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, Before: historyRecord("order", 15).ID, To: 18, From: 14}, 14)
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 9, Before: persist.HistoryID(15, 0, 0), From: 14}, 14)
}

func testHistoryApart(s *historySuite) {
	names := []string{"a", "a-", "a.b", "a0", "aa", "A"}
	for i, name := range names {
		s.append(historyRecords(name, int64(i+1), int64(i+2))...)
	}
	for i, name := range names {
		s.wants(persist.HistoryQuery{BizType: name, Limit: 100}, int64(i+2), int64(i+1))
	}
	s.wants(persist.HistoryQuery{BizType: "a.", Limit: 100})
}

// testHistoryKey checks paging by key, with keys of which one begins as the other, and with texts
// that look like a key.
func testHistoryKey(s *historySuite) {
	keys := []string{"t", "t1", "", "T", `<&>"\ü` + "\x00"}
	for n := int64(1); n <= 100; n++ {
		r := historyRecord("order", n)
		r.Key, r.Caller = keys[n%5], `"key":"t1"`
		r.IDs = []string{`,"key":"t1"`, "t1", r.Key}
		s.append(r)
	}
	for i, key := range keys {
		query := persist.HistoryQuery{BizType: "order", Key: key, Limit: 7}
		if key == "" {
			continue // this is no filter
		}
		want := int64(95 + i)
		if i == 0 {
			want = 100
		}
		for {
			page := s.list(query)
			for _, r := range page {
				if r.Key != key || r.First != want {
					s.Errorf("key %q: got %d of key %q, want %d", key, r.First, r.Key, want)
				}
				want -= 5
			}
			if len(page) < query.Limit {
				break
			}
			query.Before = page[len(page)-1].ID
		}
		if want > 0 {
			s.Errorf("key %q: the records end above %d", key, want)
		}
	}
	s.wants(persist.HistoryQuery{BizType: "order", Key: "t1", From: 10, To: 20, Limit: 5}, 16, 11)
	s.wants(persist.HistoryQuery{BizType: "order", Key: "t1", Limit: 0})
	s.wants(persist.HistoryQuery{BizType: "order", Key: "other", Limit: 5})
	s.wants(persist.HistoryQuery{BizType: "orders", Key: "t1", Limit: 5})
	if all := s.list(persist.HistoryQuery{BizType: "order", Limit: 1000}); len(all) != 100 {
		s.Errorf("without a key there are %d records", len(all))
	}
}

// testHistoryPaging checks that every record that exists when paging begins is seen once, and no
// record twice.
func testHistoryPaging(s *historySuite) {
	there := longtest.Or[int64](100, 300)
	s.append(historyRecords("order", 1, there)...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := there + 1; n <= 2*there; n += 10 {
			if err := s.history.Append(context.Background(), historyRecords("order", n, n+9)); err != nil {
				s.Error(err)
			}
		}
	})
	for range 3 {
		seen := make(map[int64]bool)
		query := persist.HistoryQuery{BizType: "order", Limit: 17}
		for {
			page := s.list(query)
			for _, r := range page {
				if seen[r.First] {
					s.Fatalf("%d was seen twice", r.First)
				}
				seen[r.First] = true
			}
			if len(page) < query.Limit {
				break
			}
			query.Before = page[len(page)-1].ID
		}
		for n := int64(1); n <= there; n++ {
			if !seen[n] {
				s.Fatalf("%d was missed", n)
			}
		}
	}
	wg.Wait()
}

func testHistoryRemove(s *historySuite) {
	s.append(historyRecords("order", 1, 5)...)
	s.append(historyRecord("other", 2))
	for _, numbers := range [][]int64{nil, {2, 4, 9}, {4}} {
		var ids []string
		for _, n := range numbers {
			ids = append(ids, historyRecord("order", n).ID)
		}
		if err := s.history.Remove(s.Context(), "order", ids); err != nil {
			s.Error(err)
		}
	}
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 5, 3, 1)
	s.wants(persist.HistoryQuery{BizType: "other", Limit: 100}, 2)
}

func testHistoryPurge(s *historySuite) {
	s.append(historyRecords("order", 1, 10)...)
	s.append(historyRecords("other", 1, 3)...)
	for _, step := range []struct {
		before      int64
		limit, want int
	}{{7, 4, 4}, {7, 4, 2}, {7, 4, 0}, {100, 0, 0}, {-1, 9, 0}} {
		if n, err := s.history.Purge(s.Context(), "order", step.before, step.limit); n != step.want || err != nil {
			s.Errorf("%+v purged %d, %v", step, n, err)
		}
	}
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 10, 9, 8, 7)
	s.wants(persist.HistoryQuery{BizType: "other", Limit: 100}, 3, 2, 1)
	if n, err := s.history.Purge(s.Context(), "order", 100, 100); n != 4 || err != nil {
		s.Errorf("purged %d, %v", n, err)
	}
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100})
	s.append(historyRecord("order", 3))
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 3)
}

func testHistoryPurgeRace(s *historySuite) {
	s.append(historyRecords("order", 1, 200)...)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				n, err := s.history.Purge(context.Background(), "order", 150, 7)
				if err != nil {
					s.Error(err)
				}
				if n < 7 {
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.list(persist.HistoryQuery{BizType: "order", Limit: 1000}); len(got) != 51 || got[50].First != 150 {
		s.Errorf("%d records are left", len(got))
	}
}

func testHistoryBad(s *historySuite) {
	for name, change := range map[string]func(*persist.HistoryRecord){
		"no biz type":       func(r *persist.HistoryRecord) { r.BizType = "" },
		"a path":            func(r *persist.HistoryRecord) { r.BizType = "a/b" },
		"no ID":             func(r *persist.HistoryRecord) { r.ID = "" },
		"upper case":        func(r *persist.HistoryRecord) { r.ID = strings.ToUpper(persist.HistoryID(2, 0xabc, 2)) },
		"another time":      func(r *persist.HistoryRecord) { r.Time++ },
		"no numbers":        func(r *persist.HistoryRecord) { r.Count = 0 },
		"a key no UTF-8":    func(r *persist.HistoryRecord) { r.Key = "\xff" },
		"a key too long":    func(r *persist.HistoryRecord) { r.Key = strings.Repeat("k", 513) },
		"no UTF-8":          func(r *persist.HistoryRecord) { r.IDs = []string{"\xff"} },
		"a caller no UTF-8": func(r *persist.HistoryRecord) { r.Caller = "\xff" },
	} {
		bad := historyRecord("order", 2)
		change(&bad)
		if err := s.history.Append(s.Context(), []persist.HistoryRecord{historyRecord("order", 1), bad}); !errors.Is(err, persist.ErrInvalid) {
			s.Errorf("%s: %v", name, err)
		}
	}
	for _, q := range []persist.HistoryQuery{{Limit: 5}, {BizType: "a/b", Limit: 5}, {BizType: "order", Before: "x", Limit: 5}} {
		if _, err := s.history.List(s.Context(), q); !errors.Is(err, persist.ErrInvalid) {
			s.Errorf("%+v: %v", q, err)
		}
	}
	if _, err := s.history.Purge(s.Context(), "", 100, 5); !errors.Is(err, persist.ErrInvalid) {
		s.Errorf("purge: %v", err)
	}
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100})
}

func testHistoryContext(s *historySuite) {
	s.append(historyRecord("order", 1))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, list := s.history.List(ctx, persist.HistoryQuery{BizType: "order", Limit: 5})
	_, purge := s.history.Purge(ctx, "order", 100, 5)
	for name, err := range map[string]error{"append": s.history.Append(ctx, historyRecords("order", 2, 3)), "list": list, "purge": purge} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("%s: %v", name, err)
		}
	}
	s.wants(persist.HistoryQuery{BizType: "order", Limit: 100}, 1)
}

func testHistoryClosed(s *historySuite) {
	s.append(historyRecord("order", 1))
	if err := s.end(); err != nil {
		s.Fatal(err)
	}
	_, list := s.history.List(s.Context(), persist.HistoryQuery{BizType: "order", Limit: 5})
	_, purge := s.history.Purge(s.Context(), "order", 100, 5)
	for name, err := range map[string]error{"append": s.history.Append(s.Context(), historyRecords("order", 2, 3)), "list": list, "purge": purge} {
		if !errors.Is(err, persist.ErrClosed) {
			s.Errorf("%s: %v", name, err)
		}
	}
}
