package sqlstore

import (
	"context"
	"strings"

	"github.com/seqd/seqd/persist"
)

// history keeps each record as one row. Its key is the persist ID, "<biz type>/<ID>", so the
// primary key gives the records of a biz type in the order of time and refuses duplicates.
type history struct{ *link }

var _ persist.HistoryStore = (*history)(nil)

// mostRows is how many rows one statement inserts, and mostBytes how many bytes they have, unless
// one row has more. Servers bound the length of a statement: MariaDB by 16 MiB.
const (
	mostRows  = 1000
	mostBytes = 1 << 20
)

// pieces cuts rows, which are pairs of ID and body, into what one statement inserts.
func pieces(rows []any) (list [][]any) {
	from, size := 0, 0
	for i := 0; i < len(rows); i += 2 {
		bytes := len(rows[i].([]byte)) + len(rows[i+1].([]byte))
		if i > from && (size+bytes > mostBytes || i-from == 2*mostRows) {
			list, from, size = append(list, rows[from:i]), i, 0
		}
		size += bytes
	}
	if from < len(rows) {
		list = append(list, rows[from:])
	}
	return list
}

// Append implements [persist.HistoryStore].
func (h *history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	rows := make([]any, 0, 2*len(records))
	for _, r := range records {
		body, err := persist.Encode(r)
		if err != nil {
			return err
		}
		rows = append(rows, []byte(r.PersistID()), body)
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	for _, piece := range pieces(rows) {
		insert := "INSERT INTO seqd_history (id, body) VALUES (?,?)" + strings.Repeat(",(?,?)", len(piece)/2-1) + h.dialect.KeepFirst
		if _, err := h.db.Exec(ctx, "append history", insert, piece...); err != nil {
			return err
		}
	}
	return nil
}

// List implements [persist.HistoryStore].
func (h *history) List(ctx context.Context, query persist.HistoryQuery) (page []persist.HistoryRecord, err error) {
	low, high, err := query.Range()
	if err != nil || query.Limit <= 0 {
		return nil, err
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	err = h.db.Query(ctx, "list history", "SELECT id, body FROM seqd_history WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?", func(scan Scan) error {
		var id, body []byte
		if err := scan(&id, &body); err != nil {
			return err
		}
		r, err := persist.Decode[persist.HistoryRecord](body)
		if err == nil && r.PersistID() != string(id) {
			err = damaged(string(id))
		}
		page = append(page, r)
		return err
	}, []byte(low), []byte(high), int64(query.Limit))
	return page, err
}

// Purge implements [persist.HistoryStore].
func (h *history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	low, high, err := persist.PurgeRange(bizType, before)
	if err != nil || limit <= 0 {
		return 0, err
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return 0, err
	}
	purged, err := h.db.Exec(ctx, "purge history", h.dialect.DeleteSome("seqd_history", "id >= ? AND id < ?", "id"), []byte(low), []byte(high), int64(limit))
	return int(purged), err
}
