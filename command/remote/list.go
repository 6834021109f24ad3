package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/seqd/seqd/client/admin"
	"github.com/seqd/seqd/command/clitool"
)

// pageSize is how many items one request for a list asks for: the most that the service gives.
const pageSize = 1000

// list prints every page of a list as it comes: there may be a million items. The list must be in
// the order of its names, by which run notices one that does not end.
type list[T any] struct {
	env *clitool.Env
	// field is the name of the list in JSON. titles and row are the columns of text; titles is nil if
	// there is only one.
	field  string
	titles []string
	row    func(T) []string
	// write writes rows in another form than as a table; nil for that. begins is whether the first row
	// is that of the titles.
	write func(out io.Writer, rows [][]string, begins bool) error
	// falling is whether the list is in the reverse order.
	falling bool
	begun   bool // what precedes the items is printed
	items   int  // printed so far
}

// run prints the pages that get returns.
func (l *list[T]) run(ctx context.Context, get func(context.Context, admin.Page) ([]T, string, error)) error {
	page := admin.Page{Limit: pageSize}
	for {
		items, next, err := get(ctx, page)
		if err == nil && next != "" && page.After != "" && (next == page.After || (next < page.After) != l.falling) {
			err = fmt.Errorf("the list of %s does not end: after %q comes %q", l.field, page.After, next)
		}
		if err != nil {
			return breakOff(l.env, l.begun, err)
		}
		if err := l.print(items, next == ""); err != nil || next == "" {
			return err
		}
		page.After = next
	}
}

func (l *list[T]) print(items []T, last bool) error {
	if l.env.JSON {
		return l.printJSON(items, last)
	}
	var rows [][]string
	begins := !l.begun && l.titles != nil
	if begins {
		rows = append(rows, slices.Clone(l.titles))
	}
	l.begun = true
	for _, item := range items {
		rows = append(rows, l.row(item))
	}
	l.items += len(items)
	if l.write != nil {
		return l.write(l.env.Out, rows, begins)
	}
	return table(l.env.Out, rows)
}

// printJSON writes one document of all pages, with an item on each line.
func (l *list[T]) printJSON(items []T, last bool) error {
	var b bytes.Buffer
	if !l.begun {
		fmt.Fprintf(&b, "{%s: [", quoted(l.field))
	}
	l.begun = true
	for _, item := range items {
		if l.items > 0 {
			b.WriteByte(',')
		}
		text, err := json.Marshal(item)
		if err != nil {
			return err
		}
		b.WriteString("\n  ")
		b.Write(text)
		l.items++
	}
	if last {
		b.WriteString("\n]}\n")
	}
	_, err := l.env.Out.Write(b.Bytes())
	return err
}
