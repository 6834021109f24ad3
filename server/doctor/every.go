package doctor

import (
	"context"
	"iter"

	"github.com/seqd/seqd/persist"
)

const page = 1000

// every yields all records of a list that is read in pages, and at last an error where there is one.
func every[M persist.Model](ctx context.Context, list func(ctx context.Context, after string, limit int) ([]M, error)) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		for after := ""; ; {
			records, err := list(ctx, after, page)
			if err != nil {
				var none M
				yield(none, err)
				return
			}
			for _, m := range records {
				if !yield(m, nil) {
					return
				}
				after = m.PersistID()
			}
			if len(records) < page {
				return
			}
		}
	}
}
