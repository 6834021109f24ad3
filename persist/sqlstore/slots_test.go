package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// lookedAt is a database whose registry has these rows.
type lookedAt struct {
	fake
	rows          map[int64]persist.Registry
	fence, origin string
}

func (l *lookedAt) Query(ctx context.Context, name, statement string, row func(Scan) error, params ...any) error {
	if name != "read slots" {
		return l.fake.Query(ctx, name, statement, row, params...)
	}
	show := func(id *int64, body []byte) error {
		return row(func(columns ...any) error {
			*columns[0].(**int64), *columns[1].(*[]byte) = id, body
			*columns[2].(*string), *columns[3].(*string) = l.fence, l.origin
			*columns[5].(*int64) = 1000
			return nil
		})
	}
	for id, part := range l.rows {
		body, err := persist.Encode(part)
		if err == nil {
			err = show(&id, body)
		}
		if err != nil {
			return err
		}
	}
	if len(l.rows) == 0 { // as a left join does
		return show(nil, nil)
	}
	return nil
}

// A registry can have lost something if it is not empty, or if the store has failed over at any
// time since its tables were created.
func TestLag(t *testing.T) {
	set := &persist.SlotSet{Incarnation: "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1", Layout: "l", Ahead: 5}
	slot := persist.Slot{ID: 5, Key: "k", Token: "t", Until: 1, Reserved: 1, RenewedAt: 1}
	empty := map[int64]persist.Registry{root: {Name: "r"}}
	for name, test := range map[string]struct {
		rows     map[int64]persist.Registry
		fence    string
		ids      []int64
		lossless bool
		want     persist.SlotTable
	}{
		"new":                      {fence: "a/1", want: persist.SlotTable{Source: "a/1"}},
		"never used":               {rows: empty, fence: "a/1", want: persist.SlotTable{Source: "a/1"}},
		"new, failed over":         {fence: "a/2", want: persist.SlotTable{Source: "a/2", Lag: lag}},
		"never used, failed over":  {rows: empty, fence: "a/2", want: persist.SlotTable{Source: "a/2", Lag: lag}},
		"new, some slots":          {fence: "a/1", ids: []int64{5}, want: persist.SlotTable{Source: "a/1", Lag: lag}},
		"has a set":                {rows: map[int64]persist.Registry{root: {Name: "r", Set: set}}, fence: "a/1", want: persist.SlotTable{Source: "a/1", Lag: lag}},
		"set dropped, has a slot":  {rows: map[int64]persist.Registry{5: {Name: "r", Slots: []persist.Slot{slot}}}, fence: "a/1", want: persist.SlotTable{Source: "a/1", Lag: lag}},
		"loses nothing":            {fence: "a/1", lossless: true, want: persist.SlotTable{Source: "a/1"}},
		"loses nothing, has a set": {rows: map[int64]persist.Registry{root: {Name: "r", Set: set}}, fence: "a/1", lossless: true, want: persist.SlotTable{Source: "a/1"}},
		"lost something before":    {rows: empty, fence: "a/2", lossless: true, want: persist.SlotTable{Source: "a/2", Lag: lag}},
	} {
		db := &lookedAt{fake: fake{version: 3}, rows: test.rows, fence: test.fence, origin: "a/1"}
		s := New(db, fakeDialect, Options{Timeout: time.Hour, Lossless: test.lossless})
		got, err := s.Slots().Look(t.Context(), "r", test.ids...)
		if err != nil || got.Source != test.want.Source || got.Lag != test.want.Lag || got.Now != 1000 {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
	db := &lookedAt{fake: fake{version: 3}, origin: "a/1"}
	s := New(db, fakeDialect, Options{Timeout: time.Hour})
	if got, err := s.Slots().Look(t.Context(), "r"); !errors.Is(err, persist.ErrUnavailable) || got.Lag != 0 || got.Source != "" {
		t.Errorf("without a fence: %+v, %v", got, err)
	}
}
