package bolt

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// historySuffix is appended to the name of the store's file for that of the history.
const historySuffix = "-history"

// historyAdvice is what to do about a damaged history.
const historyAdvice = "stop seqd, and restore a backup of the file or remove it to begin a new history; numbers do not depend on it"

var historyBucket = []byte("history")

func historyContent() content {
	return content{[][]byte{historyBucket}, persist.FormatVersion, historyAdvice}
}

// history is kept in a file of its own, which is created when it is first used. So ranges do not
// wait for its writes, the store's file stays small for backups, and numbers are still issued if
// the history is damaged or its disk is full.
type history struct {
	opts Options

	mu     sync.Mutex // guards the fields below
	file   opened
	writer *writer // nil until the file is open
	closed bool
}

var _ persist.HistoryStore = (*history)(nil)

// open returns the writer and the file. It opens the file if it is not open.
func (h *history) open() (*writer, *opened, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, nil, persist.ErrClosed
	case h.writer != nil:
		return h.writer, &h.file, nil
	}
	file, err := openFile(h.opts)
	if err != nil {
		return nil, nil, err
	}
	if err := file.verify(h.opts.content); err != nil {
		return nil, nil, err
	}
	// Once is enough: if a damaged page takes back the last batch, no number is issued twice.
	h.file, h.writer = file, startWriter(&file, false)
	return h.writer, &h.file, nil
}

func (h *history) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed = true; h.writer == nil {
		return nil
	}
	h.writer.stop()
	return h.file.close()
}

// update runs f in a write transaction and returns when it is on disk. If f returns an error, it
// has written nothing.
func (h *history) update(ctx context.Context, f func(*bbolt.Bucket) error) error {
	w, _, err := h.open()
	if err != nil {
		return err
	}
	return w.do(ctx, func(tx *bbolt.Tx) error { return f(tx.Bucket(historyBucket)) })
}

// fillPercent is how full a page is when it is split. Most records come in the order of their keys,
// so few are inserted later.
const fillPercent = 0.9

// Append implements [persist.HistoryStore].
func (h *history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	keys, values := make([][]byte, len(records)), make([][]byte, len(records))
	for i, r := range records {
		value, err := persist.Encode(r)
		if err != nil {
			return err
		}
		keys[i], values[i] = []byte(r.PersistID()), value
	}
	return h.update(ctx, func(b *bbolt.Bucket) error {
		b.FillPercent = fillPercent
		for i, key := range keys {
			if b.Get(key) != nil {
				continue
			}
			if err := b.Put(key, values[i]); err != nil {
				return err // about the arguments, so nothing was written
			}
		}
		return nil
	})
}

// List implements [persist.HistoryStore].
func (h *history) List(ctx context.Context, query persist.HistoryQuery) (list []persist.HistoryRecord, err error) {
	low, high, err := query.Range()
	if err != nil {
		return nil, err
	}
	_, file, err := h.open()
	if err != nil {
		return nil, err
	}
	err = file.view(ctx, func(tx *bbolt.Tx) error {
		cursor := tx.Bucket(historyBucket).Cursor()
		before := cursor.Prev
		if key, _ := cursor.Seek([]byte(high)); key == nil {
			before = cursor.Last
		}
		for key, value := before(); key != nil && bytes.Compare(key, []byte(low)) >= 0 && len(list) < query.Limit; key, value = cursor.Prev() {
			r, err := persist.Decode[persist.HistoryRecord](value)
			if err == nil && r.PersistID() != string(key) {
				err = fmt.Errorf("%w: its record is that of %q", persist.ErrInvalid, r.PersistID())
			}
			if err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
			if query.Wants(r) {
				list = append(list, r)
			}
		}
		return nil
	})
	return list, translate(err)
}

// Remove implements [persist.HistoryStore].
func (h *history) Remove(ctx context.Context, bizType string, ids []string) error {
	return h.update(ctx, func(b *bbolt.Bucket) error {
		for _, id := range ids {
			if err := b.Delete([]byte(persist.HistoryRecord{BizType: bizType, ID: id}.PersistID())); err != nil {
				return err
			}
		}
		return nil
	})
}

// Purge implements [persist.HistoryStore].
func (h *history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	low, high, err := persist.PurgeRange(bizType, before)
	if err != nil {
		return 0, err
	}
	n := 0
	err = h.update(ctx, func(b *bbolt.Bucket) error {
		var keys [][]byte
		cursor := b.Cursor()
		for key, _ := cursor.Seek([]byte(low)); key != nil && string(key) < high && len(keys) < limit; key, _ = cursor.Next() {
			keys = append(keys, bytes.Clone(key))
		}
		for _, key := range keys {
			if err := b.Delete(key); err != nil {
				return err
			}
		}
		n = len(keys)
		return nil
	})
	if err != nil {
		return 0, err // the transaction may still write to n
	}
	return n, nil
}
