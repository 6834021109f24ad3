package persist

import (
	"context"
	"iter"
	"strings"
)

// pageSize is how many records one call of List reads, and ledgerPage how many of [LedgerKind],
// which may have a megabyte each.
const pageSize, ledgerPage = 1000, 100

// EveryCounter yields all counters in byte order of their names, and at last an error if there is
// one. They are read in pages: what is created or deleted meanwhile may be among them or not.
func EveryCounter(ctx context.Context, from Counters) iter.Seq2[Counter, error] {
	return CountersUnder(ctx, from, "")
}

// CountersAfter is [CountersUnder] for the counters whose names follow after.
func CountersAfter(ctx context.Context, from Counters, prefix, after string) iter.Seq2[Counter, error] {
	return pages(prefix, max(prefix, after), pageSize, func(after string) ([]Counter, error) { return from.List(ctx, after, pageSize) }, Counter.PersistID)
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
	return pages(prefix, max(prefix, after), size, func(after string) ([]Document, error) { return from.List(ctx, kind, after, size) }, func(d Document) string { return d.Key })
}

// pages yields the records whose keys begin with a prefix and follow after, page after page, until
// a page is not full.
func pages[T any](prefix, after string, size int, list func(after string) ([]T, error), key func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for after := after; ; {
			page, err := list(after)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, record := range page {
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
