package rediscursor

import (
	"fmt"
	"strconv"

	"github.com/seqd/seqd/persist"
)

// reply reads the array that a script returned. An unexpected item sets err.
type reply struct {
	items []any
	err   error
}

// is reports whether the reply begins with word and has at least size items.
func (r *reply) is(word string, size int) bool {
	return len(r.items) >= size && r.items[0] == word
}

func (r *reply) text(i int) string {
	text, ok := r.items[i].(string)
	if !ok {
		r.spoil()
	}
	return text
}

func (r *reply) number(i int) int64 {
	n, err := strconv.ParseInt(r.text(i), 10, 64)
	if err != nil || n < 0 || n > persist.MaxNumber {
		r.spoil()
	}
	return n
}

func (r *reply) low(i int) Low {
	low := Low(r.number(i))
	if low > WantsRefill {
		r.spoil()
	}
	return low
}

// runs reads pairs of numbers up to the end. They must be ascending, none above ceil, and no more
// numbers than were asked for.
func (r *reply) runs(i int, count, ceil int64) (runs []persist.Range) {
	if (len(r.items)-i)%2 != 0 {
		r.spoil()
		return nil
	}
	var before, got int64
	for ; i < len(r.items); i += 2 {
		run := persist.Range{First: r.number(i), Last: r.number(i + 1)}
		if run.Validate() != nil || run.First <= before || run.Last > ceil {
			r.spoil()
			return nil
		}
		before, got = run.Last, got+run.Size()
		runs = append(runs, run)
	}
	if got > count {
		r.spoil()
	}
	return runs
}

// spoil makes the whole reply an error.
func (r *reply) spoil() {
	r.err = fmt.Errorf("the script in Redis answered %.200q, which this build does not understand", fmt.Sprint(r.items))
}
