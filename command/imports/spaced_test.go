package imports

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/segment"
)

// TestSpacedRows checks that the numbers of a biz type made from a row with delta and remainder are
// those that the row would have issued next.
func TestSpacedRows(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 3))
	for range 20_000 {
		r := row("order", random.Int64N(1_000_000), random.Int64N(5000))
		r.Delta = 1 + random.Int64N(1+random.Int64N(mostIncrement))
		r.Remainder = random.Int64N(r.Delta)
		item := plan([]counterRow{r}, options{})[0]
		s := segment.DefaultSettings()
		s.Start, s.Increment, s.Offset = item.Start, max(1, item.Increment), item.Offset
		if item.Step > 0 {
			s.Step = item.Step
		}
		if problems := s.Validate(); item.Result != planned || problems != nil {
			t.Fatalf("%+v: %+v, %v", r, item, problems)
		}
		first, last := s.Traits().First, s.Traits().Last
		if first <= r.MaxID || first > r.MaxID+r.Delta || first%r.Delta != r.Remainder || last > seqd.MaxNumber {
			t.Fatalf("%+v: the first number is %d", r, first)
		}
	}
}

func TestSpacedFragment(t *testing.T) {
	r := row("order", 1000, 300)
	r.Delta, r.Remainder = 3, 2
	var b strings.Builder
	must.Do(t, fragment(&b, "tinyid", plan([]counterRow{r, row("user", 5, 10)}, options{}), nil))
	for _, want := range []string{
		`- {name: "order", strategy: segment, start: 1001, step: 100, increment: 3, offset: 2, reset: never, keyed: false}`,
		`- {name: "user", strategy: segment, start: 6, step: 10, reset: never, keyed: false}`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nlacks %s", b.String(), want)
		}
	}
}
