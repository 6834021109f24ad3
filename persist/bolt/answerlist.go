package bolt

import (
	"context"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

var _ persist.AnswerLister = (*answers)(nil)

// List implements [persist.AnswerLister].
func (a *answers) List(ctx context.Context, f func(id, text string, left time.Duration) error) error {
	if err := a.windows.use(); err != nil {
		return err
	}
	list, clock, err := a.windows.snapshot()
	if err != nil {
		return err
	}
	for _, one := range list {
		left := time.Duration(one.now().Until-clock) * time.Millisecond
		if left <= 0 {
			continue
		}
		err := one.view(ctx, func(tx *bbolt.Tx) error {
			return tx.Bucket(answersBucket).ForEach(func(id, data []byte) error {
				text, err := unsealed(string(id), data)
				if err == nil {
					err = f(string(id), text, left)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
