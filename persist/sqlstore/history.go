package sqlstore

import (
	"context"
	"encoding/json"

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

// pieces cuts rows into what one statement inserts. size returns how many bytes a row has.
func pieces[R any](rows []R, size func(R) int) (list [][]R) {
	from, bytes := 0, 0
	for i, row := range rows {
		if i > from && (bytes+size(row) > mostBytes || i-from == mostRows) {
			list, from, bytes = append(list, rows[from:i]), i, 0
		}
		bytes += size(row)
	}
	if from < len(rows) {
		list = append(list, rows[from:])
	}
	return list
}

// historyRow is a row of seqd_history.
type historyRow struct{ id, body []byte }

// Append implements [persist.HistoryStore].
func (h *history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	list := make([]historyRow, 0, len(records))
	for _, r := range records {
		body, err := persist.Encode(r)
		if err != nil {
			return err
		}
		list = append(list, historyRow{[]byte(r.PersistID()), body})
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	for _, piece := range pieces(list, func(r historyRow) int { return len(r.id) + len(r.body) }) {
		var params []any
		for _, r := range piece {
			params = append(params, r.id, r.body)
		}
		insert := "INSERT INTO seqd_history (id, body) VALUES " + rows(len(piece), 2) + h.dialect.KeepFirst
		if _, err := h.db.Exec(ctx, "append history", insert, params...); err != nil {
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
	where, params, err := historyWhere(query, low, high)
	if err != nil {
		return nil, err
	}
	err = h.query(ctx, "list history", "SELECT id, body FROM seqd_history WHERE "+where+" ORDER BY id DESC LIMIT ?", func(scan Scan) error {
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
	}, append(params, int64(query.Limit))...)
	return page, err
}

// historyWhere returns the condition that selects the records of a query, and its parameters. A key
// is looked for in the JSON of the record: quotation marks inside another text are escaped there,
// so nothing else looks like the member.
func historyWhere(query persist.HistoryQuery, low, high string) (where string, params []any, err error) {
	where, params = "id >= ? AND id < ?", []any{[]byte(low), []byte(high)}
	if query.Key == "" {
		return where, params, nil
	}
	member, err := json.Marshal(struct {
		Key string `json:"key"`
	}{query.Key})
	if err != nil {
		return "", nil, err
	}
	return where + " AND POSITION(? IN body) > 0", append(params, member[1:len(member)-1]), nil
}

// Remove implements [persist.HistoryStore].
func (h *history) Remove(ctx context.Context, bizType string, ids []string) error {
	if len(ids) == 0 {
		return ctx.Err()
	}
	var params []any
	for _, id := range ids {
		params = append(params, []byte(persist.HistoryRecord{BizType: bizType, ID: id}.PersistID()))
	}
	_, err := h.exec(ctx, "remove history", "DELETE FROM seqd_history WHERE id IN "+list(len(ids)), params...)
	return err
}

// Purge implements [persist.HistoryStore].
func (h *history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	low, high, err := persist.PurgeRange(bizType, before)
	if err != nil || limit <= 0 {
		return 0, err
	}
	purged, err := h.exec(ctx, "purge history", h.dialect.DeleteSome("seqd_history", "id >= ? AND id < ?", "id"), []byte(low), []byte(high), int64(limit))
	return int(purged), err
}
