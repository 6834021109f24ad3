package counters

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// Keys are listed once each, by pages of any size, whatever they begin with and whatever counters
// there are from before the biz type reset, or from when it did.
func TestKeys(t *testing.T) {
	keys := []string{"0", "7", "A", "a", "a-b", "a.b", "a0", "aA", "a_", "z"}
	names := []string{"inv", "inv@2026", "inv/", "invoice/b", "invo/c", "in/d"}
	for i := range 150 {
		keys = append(keys, fmt.Sprintf("t%d", i))
	}
	for _, key := range keys {
		names = append(names, "inv/"+key, "inv/"+key+"@2025", "inv/"+key+"@2026", "inv/"+key+"-never", "inv/"+key+"-dated@2026")
	}
	slices.Sort(names)
	list := func(_ context.Context, after string, limit int) ([]string, error) {
		at, found := slices.BinarySearch(names, after)
		if found {
			at++
		}
		return names[at:min(at+limit, len(names))], nil
	}
	for _, resets := range []bool{false, true} {
		l, want := Listing{BizType: "inv", Dated: resets, Page: 100, List: list}, []string(nil)
		for _, key := range keys {
			want = append(want, key, key+map[bool]string{false: "-never", true: "-dated"}[resets])
		}
		slices.Sort(want)
		for _, limit := range []int{0, 1, 2, 3, 7, 99, 100, 101, 1000} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				page := must.Get(l.Keys(t.Context(), after, limit))(t)
				if got = append(got, page...); len(page) < limit || limit == 0 {
					break
				}
			}
			if !resets && !slices.IsSorted(got) {
				t.Errorf("by pages of %d they are not sorted: %q", limit, got)
			}
			if slices.Sort(got); limit > 0 && !slices.Equal(got, want) || limit == 0 && len(got) > 0 {
				t.Errorf("resets %v, by pages of %d: %q, want %q", resets, limit, got, want)
			}
		}
	}
}
