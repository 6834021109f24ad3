package persist

import (
	"context"
	"iter"
	"strings"
)

// pageSize is how many records one call of List reads, and ledgerPage how many of [LedgerKind],
// which may have a megabyte each.
const pageSize, ledgerPage = 1000, 100

// pacedPage is how many records one call of List reads for work that has a pace. A store may use the
// processor of its callers to read them.
const pacedPage = 10

// pace is the key of the pace in a context.
type pace struct{}

// Paced returns a context whose holder goes through records slowly: [EveryCounter] and the functions
// like it read few at a time, and call wait for each, which may sleep. It is for work that takes long
// and that nobody waits for. Functions may call wait at the same time if they share the context.
func Paced(ctx context.Context, wait func()) context.Context {
	return context.WithValue(ctx, pace{}, wait)
}

// Pace returns how many records to read at a time, at most page, and what to call for each.
func Pace(ctx context.Context, page int) (int, func()) {
	if wait, ok := ctx.Value(pace{}).(func()); ok {
		return min(page, pacedPage), wait
	}
	return page, func() {}
}

// EveryCounter yields all counters in byte order of their names, and at last an error if there is
// one. They are read in pages: what is created or deleted meanwhile may be among them or not.
func EveryCounter(ctx context.Context, from Counters) iter.Seq2[Counter, error] {
	return CountersUnder(ctx, from, "")
}

// CountersAfter is [CountersUnder] for the counters whose names follow after.
func CountersAfter(ctx context.Context, from Counters, prefix, after string) iter.Seq2[Counter, error] {
	size, wait := Pace(ctx, pageSize)
	return pages(prefix, max(prefix, after), size, wait, func(after string) ([]Counter, error) { return from.List(ctx, after, size) }, Counter.PersistID)
}

// CountersUnder is [EveryCounter] for the counters whose names begin with a prefix and are longer.
func CountersUnder(ctx context.Context, from Counters, prefix string) iter.Seq2[Counter, error] {
	return CountersAfter(ctx, from, prefix, "")
}

// lister is the operation that [EveryDocument] needs.
type lister interface {
	List(ctx context.Context, kind, after string, limit int) ([]Document, error)
}

// EveryDocument is [EveryCounter] for the documents of one kind, in byte order of their keys.
func EveryDocument(ctx context.Context, from lister, kind string) iter.Seq2[Document, error] {
	return DocumentsUnder(ctx, from, kind, "")
}

// DocumentsUnder is [EveryDocument] for the documents whose keys begin with a prefix and are
// longer.
func DocumentsUnder(ctx context.Context, from lister, kind, prefix string) iter.Seq2[Document, error] {
	return DocumentsAfter(ctx, from, kind, prefix, "")
}

// DocumentsAfter is [DocumentsUnder] for the documents whose keys follow after.
func DocumentsAfter(ctx context.Context, from lister, kind, prefix, after string) iter.Seq2[Document, error] {
	size := pageSize
	if kind == LedgerKind {
		size = ledgerPage
	}
	size, wait := Pace(ctx, size)
	return pages(prefix, max(prefix, after), size, wait, func(after string) ([]Document, error) { return from.List(ctx, kind, after, size) }, func(d Document) string { return d.Key })
}

// pages yields the records whose keys begin with a prefix and follow after, page after page, until
// a page is not full.
func pages[T any](prefix, after string, size int, wait func(), list func(after string) ([]T, error), key func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := after; ; {
			page, err := list(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, record := range page {
				wait()
				after = key(record)
				if !strings.HasPrefix(after, prefix) || !yield(record, nil) {
					return
				}
			}
			if len(page) < size {
				return
			}
		}
	}
}
