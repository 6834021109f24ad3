package persist_test

import (
	"errors"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// IDs sort by time, then by who writes, then by the running number, over the whole range of each.
func TestHistoryIDsSort(t *testing.T) {
	ids := []string{
		persist.HistoryID(-1, 0, 0), persist.HistoryID(0, 0, 1), persist.HistoryID(0, 1, 0), persist.HistoryID(1, 0, 0),
		persist.HistoryID(255, 1<<64-1, 1<<48-1), persist.HistoryID(256, 0, 0), persist.HistoryID(1<<48-1, 0, 0), persist.HistoryID(1<<62, 0, 5),
	}
	for i, id := range ids {
		if i > 0 && id <= ids[i-1] {
			t.Errorf("%s comes after %s", id, ids[i-1])
		}
	}
	must.Equal(t, must.Get(persist.HistoryTime(persist.HistoryID(1_790_000_000_123, 9, 9)))(t), 1_790_000_000_123, "time")
}

// What is taken for an ID can be made by HistoryID, byte for byte.
func FuzzHistoryTime(f *testing.F) {
	f.Add(persist.HistoryID(1_790_000_000_123, 1<<64-1, 7))
	f.Add("")
	f.Add("00000000000000000000000000000000000000G0")
	f.Fuzz(func(t *testing.T, id string) {
		at, err := persist.HistoryTime(id)
		if err != nil {
			if !errors.Is(err, persist.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if len(id) != 40 || persist.HistoryID(at, 0, 0)[:12] != id[:12] {
			t.Fatalf("%q was read as %d", id, at)
		}
		low, high, err := persist.HistoryQuery{BizType: "order", Before: id}.Range()
		if err != nil || low > "order/"+id || high > "order/"+id {
			t.Fatalf("%q to %q, %v", low, high, err)
		}
	})
}
