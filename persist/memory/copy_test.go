package memory_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// A copy has the same content, and no change of one shows in the other.
func TestCopy(t *testing.T) {
	ctx := t.Context()
	fill := func(s *memory.Store, n int64) {
		name := strings.Repeat("x", int(n))
		set := persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "x"}
		_, swapped := s.Slots().Swap(ctx, name, persist.SlotSwap{NewSet: &set})
		for _, err := range []error{
			s.Counters().Create(ctx, persist.Counter{BizTag: name, Step: 1}),
			s.Documents().Create(ctx, persist.Document{Kind: "token", Key: name, Revision: 1}),
			s.History().Append(ctx, []persist.HistoryRecord{{ID: persist.HistoryID(n, 1, 1), BizType: "order", Time: n, Count: 1}}),
			swapped,
		} {
			must.Do(t, err)
		}
	}
	has := func(s *memory.Store, n, records int64) bool {
		t.Helper()
		name := strings.Repeat("x", int(n))
		_, counter := s.Counters().Read(ctx, name)
		_, document := s.Documents().Read(ctx, "token", name)
		table, slots := s.Slots().Look(ctx, name)
		list, history := s.History().List(ctx, persist.HistoryQuery{BizType: "order", Limit: 10})
		found := counter == nil && document == nil && slots == nil && history == nil && table.Set != nil
		if found == (counter != nil) || int64(len(list)) != records {
			t.Errorf("of %d: %v, %v, %+v, %v, %d records", n, counter, document, table, slots, len(list))
		}
		return found
	}
	first := memory.New(time.Now)
	fill(first, 1)
	fill(first, 3)
	second := first.Copy(func() time.Time { return time.UnixMilli(5) })
	fill(first, 2)
	fill(second, 4)
	for n, want := range map[int64][2]bool{1: {true, true}, 2: {true, false}, 3: {true, true}, 4: {false, true}} {
		must.Equal(t, [2]bool{has(first, n, 3), has(second, n, 3)}, want, "of %d: in the first and in the second", n)
	}
	if now, err := second.Now(ctx); err != nil || now.UnixMilli() != 5 {
		t.Errorf("the time of the copy is %v, %v", now, err)
	}
}
