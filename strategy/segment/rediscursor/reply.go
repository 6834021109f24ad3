package rediscursor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seqd/seqd/persist"
)

// reply reads what a script returned: an array, or a text. An unexpected item sets err.
type reply struct {
	items []any
	short string
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

func (r *reply) number(i int) int64 { return r.parse(r.text(i)) }

func (r *reply) parse(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
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

// took reads "took", the ceil and the last of count numbers. It reports false if the reply is
// another one.
func (r *reply) took(count int64) (ceil int64, run persist.Range, ok bool) {
	text, ok := strings.CutPrefix(r.short, "took ")
	if !ok {
		return 0, run, false
	}
	before, after, _ := strings.Cut(text, " ")
	ceil, run.Last = r.parse(before), r.parse(after)
	run.First = run.Last - count + 1
	if run.Validate() != nil || run.Last > ceil {
		r.spoil()
	}
	return ceil, run, true
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
	said := r.short
	if r.items != nil {
		said = fmt.Sprint(r.items)
	}
	r.err = fmt.Errorf("the script in Redis answered %.200q, which this build does not understand", said)
}
