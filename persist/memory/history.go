package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// mostHistory is how many records of a biz type are kept. Older ones are dropped, so that the
// process does not grow without bound.
const mostHistory = 1_000_000

// history keeps the records of each biz type, ascending by ID, under one lock.
type history struct {
	lock
	records map[string][]persist.HistoryRecord
}

var _ persist.HistoryStore = (*history)(nil)

// Append implements [persist.HistoryStore].
func (h *history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	for _, r := range records {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return h.locked(ctx, func() error {
		for _, r := range records {
			h.insert(r)
		}
		return nil
	})
}

func (h *history) insert(r persist.HistoryRecord) {
	list := h.records[r.BizType]
	if len(list) >= mostHistory {
		list = list[1:]
	}
	r.Runs, r.IDs = slices.Clone(r.Runs), slices.Clone(r.IDs)
	if n := len(list); n == 0 || list[n-1].ID < r.ID {
		h.records[r.BizType] = append(list, r)
		return
	}
	if at, there := find(list, r.ID); !there {
		list = slices.Insert(list, at, r)
	}
	h.records[r.BizType] = list
}

func find(list []persist.HistoryRecord, id string) (at int, there bool) {
	return slices.BinarySearchFunc(list, id, func(r persist.HistoryRecord, id string) int { return strings.Compare(r.ID, id) })
}

// List implements [persist.HistoryStore].
func (h *history) List(ctx context.Context, query persist.HistoryQuery) (found []persist.HistoryRecord, err error) {
	low, high, err := query.Range()
	if err != nil {
		return nil, err
	}
	err = h.locked(ctx, func() error {
		list := h.records[query.BizType]
		end, _ := slices.BinarySearchFunc(list, high, func(r persist.HistoryRecord, id string) int { return strings.Compare(r.PersistID(), id) })
		for _, r := range slices.Backward(list[:end]) {
			if len(found) >= query.Limit || r.PersistID() < low {
				break
			}
			if !query.Wants(r) {
				continue
			}
			r.Runs, r.IDs = slices.Clone(r.Runs), slices.Clone(r.IDs)
			found = append(found, r)
		}
		return nil
	})
	return found, err
}

// Remove implements [persist.HistoryStore].
func (h *history) Remove(ctx context.Context, bizType string, ids []string) error {
	gone := make(map[string]bool, len(ids))
	for _, id := range ids {
		gone[id] = true
	}
	return h.locked(ctx, func() error {
		list := slices.DeleteFunc(h.records[bizType], func(r persist.HistoryRecord) bool { return gone[r.ID] })
		if h.records[bizType] = list; len(list) == 0 {
			delete(h.records, bizType)
		}
		return nil
	})
}

// Purge implements [persist.HistoryStore].
func (h *history) Purge(ctx context.Context, bizType string, before int64, limit int) (n int, err error) {
	_, high, err := persist.PurgeRange(bizType, before)
	if err != nil {
		return 0, err
	}
	err = h.locked(ctx, func() error {
		list := h.records[bizType]
		for n < min(limit, len(list)) && list[n].PersistID() < high {
			n++
		}
		if n > 0 {
			clear(list[:n])
			h.records[bizType] = list[n:]
		}
		if n == len(list) {
			delete(h.records, bizType)
		}
		return nil
	})
	return n, err
}
