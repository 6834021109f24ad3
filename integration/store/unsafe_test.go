package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// becomesUnsafe checks that a store gives out nothing from the moment on at which its server can lose
// what it acknowledges, although its connections were made before, and that it says which setting that
// is.
func becomesUnsafe(t *testing.T, s fencedStore, weaken, mend func(), setting string) {
	t.Helper()
	ctx := t.Context()
	create(t, s)
	_, err := allocate(ctx, s)
	must.Do(t, err)
	fence, err := s.Fence(ctx)
	must.Do(t, err)
	must.Do(t, s.CreateFenced(ctx, ledgerDocument("invoice", 1), fence.Current))
	weaken()
	_, taken := allocate(ctx, s)
	_, read := s.Counters().Read(ctx, "order")
	made, swapped := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5), Source: fence.Current})
	for what, err := range map[string]error{
		"allocate": taken, "read": read, "swap": swapped, "update": s.UpdateFenced(ctx, ledgerDocument("invoice", 2), fence.Current),
	} {
		if err == nil || !errors.Is(err, persist.ErrUnavailable) && !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v (made: %t)", what, err, made)
		}
	}
	await.True(t, "the error names "+setting, func() bool {
		_, err := allocate(ctx, s)
		return err != nil && strings.Contains(err.Error(), setting)
	})
	mend()
	await.True(t, "the server is used again", func() bool { _, err = s.Counters().Read(ctx, "order"); return err == nil })
	if r, err := allocate(ctx, s); err != nil || r.First != 11 {
		t.Errorf("%+v, %v", r, err)
	}
	must.Do(t, s.UpdateFenced(ctx, ledgerDocument("invoice", 2), fence.Current))
}

func TestPostgresBecomesUnsafe(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	set := func(value string) func() {
		return func() {
			server.Query("ALTER SYSTEM SET full_page_writes = " + value)
			server.Reload()
		}
	}
	becomesUnsafe(t, openPostgres(t, server.URL(), nil), set("off"), set("on"), "full_page_writes is off")
}

// Behind a pooler a server restarts, and no connection of the store ends.
func TestPostgresBecomesUnsafeBehindPooler(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	set := func(value string) func() {
		return func() {
			server.Configure("fsync = " + value)
			server.Restart()
		}
	}
	s := openPostgres(t, testenv.StartPgbouncer(t, server.Addr()).URL(), nil)
	becomesUnsafe(t, s, set("off"), set("on"), "fsync is off")
}

// A server may create tables with another engine than the one it is told, and an operator can
// change it: such tables lose what was acknowledged.
func TestMySQLEngine(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	o := newMySQL(t, server)
	server.Query("SET GLOBAL enforce_storage_engine = Aria")
	if _, err := tryMySQL(t, o, nil); err == nil {
		t.Error("tables are created with another engine")
	}
	server.Query("SET GLOBAL enforce_storage_engine = NULL")
	must.Do(t, openMySQL(t, o).Close())
	execMySQL(t, connectMySQL(t, o.DSN), "ALTER TABLE seqd_schema ROW_FORMAT=DEFAULT, ENGINE=MyISAM")
	const want = "seqd_schema has the engine MyISAM"
	if _, err := tryMySQL(t, o, nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with another engine: %v, want an error with %q", err, want)
	}
}

func TestMySQLBecomesUnsafe(t *testing.T) {
	t.Parallel()
	server := testenv.StartMariaDB(t)
	set := func(value string) func() {
		return func() { server.Query("SET GLOBAL innodb_flush_log_at_trx_commit = " + value) }
	}
	becomesUnsafe(t, openMySQL(t, newMySQL(t, server)), set("2"), set("1"), "innodb_flush_log_at_trx_commit is 2")
}
