package sqlstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// fake is a database that has nothing but a schema. A step is the version that it leads to.
type fake struct {
	mu      sync.Mutex // held by Alone
	version int64      // -1 if there is no table
	ran     []string
	sent    int // statements
	fails   error
}

var _ DB = (*fake)(nil)

func (f *fake) Exec(_ context.Context, _, statement string, _ ...any) (int64, error) {
	f.sent++
	if f.fails != nil {
		return 0, f.fails
	}
	ran, _, _ := strings.Cut(statement, " seqd_schema")
	f.ran = append(f.ran, ran)
	if step, is := strings.CutPrefix(statement, "step to "); is {
		f.version, _ = strconv.ParseInt(step, 10, 64)
	}
	return 1, nil
}

func (f *fake) Query(_ context.Context, _, statement string, row func(Scan) error, _ ...any) error {
	f.sent++
	switch {
	case statement == "clock":
	case f.version < 0, f.version == 0 && statement != "tables":
		return nil
	}
	return row(func(columns ...any) error {
		if len(columns) > 0 {
			*columns[0].(*int64) = f.version
		}
		return nil
	})
}

func (f *fake) Transact(_ context.Context, _ string, do func(Conn) error) error { return do(f) }

func (f *fake) Exclusively(_ context.Context, _ string, do func(Conn) error) error { return do(f) }

func (f *fake) Alone(_ context.Context, _ string, do func(Conn) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return do(f)
}

func (f *fake) Allocate(context.Context, persist.Request, int64) (int64, error) {
	return 0, persist.ErrNotFound
}

func (f *fake) Pool() persist.Pool { return persist.Pool{} }

func (f *fake) Close() error { return nil }

var fakeDialect = Dialect{
	HasTables: hasTables, Clock: "clock", Steps: []string{"step to 1", "step to 2", "step to 3"},
	DeleteSome: func(string, string, string) string { return "" },
}

func hasTables(ctx context.Context, c Conn) (found bool, err error) {
	err = c.Query(ctx, "find tables", "tables", func(Scan) error { found = true; return nil })
	return found, err
}

// The steps that are missing are run, in order, and only by those who may.
func TestSchema(t *testing.T) {
	for name, test := range map[string]struct {
		version int64
		opts    Options
		ran     string
		want    error
	}{
		"empty":              {version: -1, ran: "step to 1 step to 2 step to 3"},
		"half made":          {version: 0, ran: "step to 1 step to 2 step to 3"},
		"older":              {version: 1, ran: "step to 2 step to 3"},
		"present":            {version: 3},
		"lossless":           {version: -1, opts: Options{Lossless: true}, ran: "step to 1 step to 2 step to 3 UPDATE"},
		"lossless, beside":   {version: -1, opts: Options{Lossless: true, Beside: true}, ran: "step to 1 step to 2 step to 3"},
		"lossless, older":    {version: 1, opts: Options{Lossless: true}, ran: "step to 2 step to 3"},
		"newer":              {version: 4, want: persist.ErrNewer},
		"empty, read only":   {version: -1, opts: Options{ReadOnly: true}, want: persist.ErrNotFound},
		"older, read only":   {version: 2, opts: Options{ReadOnly: true}, want: Refused("the tables have schema version 2, this build needs 3: start seqd on them first")},
		"present, read only": {version: 3, opts: Options{ReadOnly: true}},
		"empty, unreached":   {version: -1, opts: Options{Unreached: true}, want: persist.ErrNotFound},
		"older, unreached":   {version: 2, opts: Options{Unreached: true}, ran: "step to 3"},
	} {
		db := &fake{version: test.version}
		test.opts.Timeout = time.Second
		s := New(db, fakeDialect, test.opts)
		if _, err := s.Now(t.Context()); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		must.Equal(t, strings.Join(db.ran, " "), test.ran, "%s: ran", name)
		sent := db.sent
		if _, err := s.Now(t.Context()); test.want == nil && (err != nil || db.sent != sent+1) {
			t.Errorf("%s: it was checked again: %d statements, %v", name, db.sent-sent, err)
		}
	}
}

// A schema that could not be upgraded is tried again, and the error says what was tried.
func TestSchemaFails(t *testing.T) {
	db := &fake{version: 1, fails: Refused("the user lacks a right")}
	_, err := Open(t.Context(), db, fakeDialect, Options{Timeout: time.Hour}, "")
	if !errors.Is(err, db.fails) || !strings.Contains(err.Error(), "create the tables") {
		t.Error(err)
	}
	s := New(db, fakeDialect, Options{Timeout: time.Hour})
	for range 2 {
		must.Is(t, must.Err(s.Now(t.Context())), db.fails)
	}
	db.fails = nil
	if _, err := s.Now(t.Context()); err != nil || db.version != 3 {
		t.Errorf("version %d, %v", db.version, err)
	}
}

// What is not admitted sends nothing, and neither does what ended before it began.
func TestAdmit(t *testing.T) {
	refuse := errors.New("not yet")
	db := &fake{version: 3}
	s := New(db, fakeDialect, Options{Timeout: time.Hour, Now: time.Now, Admit: func(context.Context) error { return refuse }})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ctx := range map[error]context.Context{refuse: t.Context(), context.Canceled: ended} {
		_, now := s.Now(ctx)
		_, fence := s.Fence(ctx)
		_, taken := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 1})
		_, given := s.Counters().GiveBack(ctx, "order", persist.Range{First: 1, Last: 1})
		_, read := s.Counters().Read(ctx, "order")
		_, list := s.Counters().List(ctx, "", 1)
		_, epoch := s.Counters().Epoch(ctx, "order")
		_, document := s.Documents().Read(ctx, "token", "x")
		_, documents := s.Documents().List(ctx, "token", "", 1)
		_, purge := s.Documents().Purge(ctx, "token", 1, 1)
		_, look := s.Slots().Look(ctx, "order")
		_, history := s.History().List(ctx, persist.HistoryQuery{BizType: "order", Limit: 1})
		_, purged := s.History().Purge(ctx, "order", 1, 1)
		for what, err := range map[string]error{
			"now": now, "fence": fence, "confirm": s.ConfirmFence(ctx, "x"), "allocate": taken, "give back": given, "read": read, "list": list,
			"epoch": epoch, "create": s.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 1}), "delete": s.Counters().Delete(ctx, "order"),
			"document": document, "documents": documents, "purge": purge, "look": look, "history": history, "purge history": purged,
			"append": s.History().Append(ctx, nil), "drop": s.Slots().Drop(ctx, "order"),
			"create document": s.Documents().Create(ctx, persist.Document{Kind: "token", Key: "x", Revision: 1}),
			"update document": s.Documents().Update(ctx, persist.Document{Kind: "token", Key: "x", Revision: 2}),
			"delete document": s.Documents().Delete(ctx, "token", "x", 1),
		} {
			must.Is(t, err, want, "%s", what)
		}
	}
	if db.sent > 0 {
		t.Errorf("%d statements were sent", db.sent)
	}
}
