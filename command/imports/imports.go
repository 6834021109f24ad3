// Package imports takes over the numbers of Leaf and Tinyid: it reads their MySQL tables, and makes
// definitions of biz types that begin above all that those have issued. It is seqd import without
// the command line.
//
// Both services allocate a segment by raising max_id in the table, and issue from it afterwards. So
// max_id is above or at the last number of every segment that a server has, also of servers that
// still run: Leaf issues numbers below it, Tinyid up to and including it. A definition begins at
// max_id + 1, for both, because copies of Leaf exist that issue max_id. What a server allocates
// after the table was read is not known here; so their servers are to be stopped first, and the
// tables are read again at the end.
package imports

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seqd/seqd"
)

// counterRow is what a table says of one biz type.
type counterRow struct {
	// Name is the name in the table.
	Name string
	// MaxID is the highest number that belongs to a segment of a server. Valid is false for NULL.
	MaxID int64
	Valid bool
	// Step is the size of a segment, 0 if the table has none.
	Step int64
	// Delta and Remainder are those of Tinyid: it issues numbers n with n mod Delta = Remainder. Of
	// Leaf they are 1 and 0.
	Delta, Remainder int64
}

// hidden is a token of Tinyid. It does not print its value.
type hidden struct{ text string }

// String hides the secret.
func (hidden) String() string { return "(secret)" }

// GoString hides the secret.
func (hidden) GoString() string { return "(secret)" }

// grant is a row of the tokens of Tinyid.
type grant struct {
	ID      int64
	Token   hidden
	BizType string
}

// reading is what was read from a database at one time.
type reading struct {
	Rows   []counterRow
	Grants []grant
	// Warnings say what may be wrong with the reading.
	Warnings []string
}

// options say how definitions are made.
type options struct {
	// Margin is how many numbers are left free above max_id.
	Margin int64
	// Rename gives biz types another name, by their name in the table.
	Rename map[string]string
}

// entry is a biz type of the plan, and what became of it.
type entry struct {
	// From is the name in the table, and Name that of the biz type.
	From string `json:"from"`
	Name string `json:"name,omitempty"`
	// MaxID is that of the table, and Start the first number of the biz type.
	MaxID int64 `json:"maxId"`
	Start int64 `json:"start,omitempty"`
	// Step is 0 if the default of the service is used.
	Step int64 `json:"step,omitempty"`
	// Increment and Offset are 0 if every number is issued.
	Increment int64 `json:"increment,omitempty"`
	Offset    int64 `json:"offset,omitempty"`
	// Result is one of those below.
	Result outcome `json:"result"`
	// Detail says why.
	Detail string `json:"detail,omitempty"`
}

// outcome is what became of a biz type.
type outcome string

// Results.
const (
	// planned means that nothing was done yet.
	planned outcome = "planned"
	// unfit means that the row cannot be imported.
	unfit outcome = "refused"
	// created means that the biz type was created, or would be by a dry run.
	created outcome = "created"
	// raised means that the start of a biz type was raised, or would be.
	raised outcome = "raised"
	// unchanged means that the biz type exists and begins above all.
	unchanged outcome = "unchanged"
	// failed means that the service refused, or that it is not known what it did.
	failed outcome = "failed"
)

// Bounds of what is imported.
const (
	// leastLeft is how many numbers must be left above the start.
	leastLeft = 1_000_000
	// mostStep is the default of segment.maxStep.
	mostStep = 100_000_000
	// mostIncrement is the largest segment.increment.
	mostIncrement = 65_535
)

// plan makes the definitions of rows. Rows that cannot be imported are refused, and say why. Of
// rows that would share a biz type none is imported: it would begin below what another of them
// issued.
func plan(rows []counterRow, o options) []entry {
	items, sharing := make([]entry, 0, len(rows)), make(map[string][]string)
	for _, row := range rows {
		name := cmp.Or(o.Rename[row.Name], row.Name)
		items = append(items, entry{From: row.Name, Name: name, MaxID: row.MaxID, Result: planned})
		sharing[name] = append(sharing[name], row.Name)
	}
	for i := range items {
		item := &items[i]
		err := item.define(rows[i], o.Margin)
		if err == nil {
			err = alone(item.From, sharing[item.Name])
		}
		if err != nil {
			item.Result, item.Detail, item.Start, item.Step, item.Increment, item.Offset = unfit, err.Error(), 0, 0, 0, 0
		}
	}
	return items
}

// alone returns an error if rows share the biz type of a row. sharing is what they are called.
func alone(row string, sharing []string) error {
	if len(sharing) == 1 {
		return nil
	}
	for _, other := range sharing {
		if other != row {
			return fmt.Errorf("%q has the same name here: give one of them another with --rename '%s=NAME'", other, row)
		}
	}
	return fmt.Errorf("the table has %d rows of this name: create a biz type that starts above the max_id of each", len(sharing))
}

// define sets start, step, increment and offset. The other databases of a biz type that several share
// issue other remainders, so that they need not be known.
func (i *entry) define(row counterRow, margin int64) error {
	if err := seqd.CheckName(i.Name); err != nil {
		text := err.Error()
		if known, ok := errors.AsType[*seqd.Error](err); ok {
			text = known.Detail
		}
		return fmt.Errorf("%s: give it another name with --rename '%s=NAME'", text, row.Name)
	}
	switch {
	case !row.Valid:
		return errors.New("its max_id is NULL")
	case row.Delta < 1 || row.Delta > mostIncrement || row.Remainder < 0 || row.Remainder >= row.Delta:
		return fmt.Errorf("it issues numbers n with n mod %d = %d (delta and remainder): there are none, "+
			"or they are further apart than segment.increment can be, which is %d", row.Delta, row.Remainder, mostIncrement)
	}
	highest := max(row.MaxID, 0)
	if highest > seqd.MaxNumber-leastLeft*row.Delta-margin-1 {
		return fmt.Errorf("its max_id is %d, and the largest number of a segment is %d: less than %d would be left above it", row.MaxID, int64(seqd.MaxNumber), leastLeft)
	}
	// Tinyid takes step numbers at a time and issues one in delta of them.
	i.Start, i.Step = highest+margin+1, min((max(row.Step, 0)+row.Delta-1)/row.Delta, mostStep)
	if row.Delta > 1 {
		i.Increment, i.Offset = row.Delta, row.Remainder
	}
	return nil
}

// moved compares two readings, and returns a text for each biz type that was allocated from between
// them, was added or was removed.
func moved(before, after []counterRow) (texts []string) {
	was, now := highest(before), highest(after)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		switch id, ok := now[name]; {
		case !ok:
			texts = append(texts, name+" was removed from the table meanwhile")
		case id != was[name]:
			texts = append(texts, fmt.Sprintf("the max_id of %s went from %d to %d meanwhile", name, was[name], id))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[name]; !ok {
			texts = append(texts, name+" was added to the table meanwhile")
		}
	}
	return texts
}

// highest returns the highest max_id of each name.
func highest(rows []counterRow) map[string]int64 {
	ids := make(map[string]int64)
	for _, r := range rows {
		if id, ok := ids[r.Name]; !ok || r.MaxID > id {
			ids[r.Name] = r.MaxID
		}
	}
	return ids
}

// parseRename reads a flag such as old=new.
func parseRename(texts []string) (map[string]string, error) {
	names := make(map[string]string, len(texts))
	for _, text := range texts {
		from, to, ok := strings.Cut(text, "=")
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("--rename %q: want OLD=NEW", text)
		}
		if err := seqd.CheckName(to); err != nil {
			return nil, fmt.Errorf("--rename %q: %w", text, err)
		}
		if _, twice := names[from]; twice {
			return nil, fmt.Errorf("--rename: %q is given twice", from)
		}
		names[from] = to
	}
	return names, nil
}
