package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/persisttest"
)

func tryMySQL(t *testing.T, o mysql.Options, change func(*mysql.Options)) (*mysql.Store, error) {
	t.Helper()
	if change != nil {
		change(&o)
	}
	s, err := mysql.Open(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// execMySQL runs statements in the database of a store.
func execMySQL(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// askMySQL returns the one value of a query.
func askMySQL(t testing.TB, db *sql.DB, query string) (value string) {
	t.Helper()
	must.Do(t, db.QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

// The suite passes whatever a server has as defaults of its sessions.
func TestMySQLOddDefaults(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMySQL(t,
		"sql-mode=ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE", "character-set-server=latin1",
		"collation-server=latin1_german1_ci", "autocommit=0", "completion-type=CHAIN", "default-time-zone=+05:30",
		"transaction-isolation=SERIALIZABLE", "innodb-default-row-format=redundant", "init-connect=SET SESSION sql_select_limit=1, sql_safe_updates=1, "+
			"sql_auto_is_null=1, unique_checks=0, foreign_key_checks=0, max_join_size=1, group_concat_max_len=4, innodb_lock_wait_timeout=1, autocommit=0",
		"wait-timeout=1", "default-storage-engine=MyISAM",
		"loose-skip-character-set-client-handshake", "explicit-defaults-for-timestamp=0")
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		o := newMySQL(t, server)
		o.Now = now
		return openMySQL(t, o)
	})
}

// Several nodes that start at once on an empty database create one schema.
func TestMySQLStartsAtOnce(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMySQL(t)
	o := newMySQL(t, server)
	o.MaxConnections, o.Timeout = 2, 30*time.Second
	ids := make([]string, 8)
	var nodes sync.WaitGroup
	for i := range ids {
		nodes.Go(func() {
			s, err := tryMySQL(t, o, nil)
			if err == nil {
				ids[i], err = persist.ClusterID(t.Context(), s, time.Now)
			}
			must.Report(t, err)
		})
	}
	nodes.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Errorf("the clusters are %q", ids)
		}
	}
	if version := askMySQL(t, connectMySQL(t, o.DSN), "SELECT CONCAT(count(*), ' of ', max(version)) FROM seqd_schema"); version != "1 of 1" {
		t.Errorf("the schema is %s", version)
	}
}

// A newer schema is refused, at the start and by a store that was opened before the server could be
// reached.
func TestMySQLNewerSchema(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	o := newMySQL(t, testenv.StartMySQL(t))
	openMySQL(t, o)
	db := connectMySQL(t, o.DSN)
	execMySQL(t, db, "UPDATE seqd_schema SET version = 2")
	for _, change := range []func(*mysql.Options){nil, func(o *mysql.Options) { o.ReadOnly = true }} {
		if _, err := tryMySQL(t, o, change); !errors.Is(err, persist.ErrNewer) || !strings.Contains(err.Error(), "version 2") {
			t.Error(err)
		}
	}
	o.Unreached = true
	s := openMySQL(t, o)
	wants(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 1}), persist.ErrNewer)
	execMySQL(t, db, "UPDATE seqd_schema SET version = 1")
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 1}))
}

// A store that was opened before the server could be reached creates no tables, because it belongs
// to a database that has them; nor does one that is only looked at. A creation that ended half-way
// is completed.
func TestMySQLCreatesTables(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	o := newMySQL(t, testenv.StartMySQL(t))
	db := connectMySQL(t, o.DSN)
	for _, change := range []func(*mysql.Options){
		func(o *mysql.Options) { o.Unreached = true }, func(o *mysql.Options) { o.ReadOnly = true },
	} {
		s, err := tryMySQL(t, o, change)
		must.Do(t, err)
		_, err = persist.ReadCluster(t.Context(), s.Documents())
		wants(t, err, persist.ErrNotFound)
		if found := askMySQL(t, db, "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()"); found != "0" {
			t.Errorf("there are %s tables", found)
		}
	}
	create(t, openMySQL(t, o))
	execMySQL(t, db, "DELETE FROM seqd_schema", "DROP TABLE seqd_history")
	s := openMySQL(t, o)
	must.Report(t, must.Err(s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 1})))
	must.Report(t, must.Err(s.Counters().Read(t.Context(), "order")))
}

// A row of a newer format is refused, a damaged one is an error, and neither is changed.
func TestMySQLOddRows(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	o := newMySQL(t, testenv.StartMySQL(t))
	s := openMySQL(t, o)
	ctx, db := t.Context(), connectMySQL(t, o.DSN)
	fence, err := s.Fence(ctx)
	must.Do(t, err)
	source := fence.Current
	history := persist.HistoryRecord{ID: persist.HistoryID(5, 1, 1), BizType: "order", Time: 5, First: 1, Last: 1, Count: 1}
	const newer = ` SET body = REPLACE(body, '"v":1', '"v":2')`
	for _, test := range []struct {
		damage []string
		want   error
	}{
		{[]string{"UPDATE seqd_counters SET version = 2", "UPDATE seqd_documents SET version = 2", "UPDATE seqd_slots" + newer, "UPDATE seqd_history" + newer}, persist.ErrNewer},
		{[]string{"UPDATE seqd_counters SET epoch = 'odd'", "UPDATE seqd_documents SET body = X'ff'", "UPDATE seqd_slots SET body = SUBSTR(body, 2)", "UPDATE seqd_history SET body = ''"}, persist.ErrInvalid},
		{[]string{"UPDATE seqd_counters SET highest = -1", "UPDATE seqd_documents SET revision = 0", "UPDATE seqd_slots SET id = 7", "UPDATE seqd_history SET body = X'00'"}, persist.ErrInvalid},
		{[]string{"UPDATE seqd_counters SET step = 0", "UPDATE seqd_documents SET version = 0", "UPDATE seqd_slots SET body = ''", "UPDATE seqd_history SET id = CONCAT('order/', REPEAT('0', 40))"}, persist.ErrInvalid},
	} {
		execMySQL(t, db, "DELETE FROM seqd_counters", "DELETE FROM seqd_documents", "DELETE FROM seqd_slots", "DELETE FROM seqd_history")
		must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 5, Step: 10}))
		must.Do(t, s.Documents().Create(ctx, persist.Document{Kind: "token", Key: "x", Revision: 1, Expires: 5}))
		must.Do(t, s.History().Append(ctx, []persist.HistoryRecord{history}))
		if made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, Source: source}); !made {
			t.Fatal(err)
		}
		execMySQL(t, db, test.damage...)
		const all = "SELECT CONCAT_WS('|', (SELECT HEX(CONCAT_WS(',', name, version, highest, step, step_at, epoch, fence)) FROM seqd_counters), " +
			"(SELECT HEX(CONCAT_WS(',', version, revision, body)) FROM seqd_documents), (SELECT HEX(CONCAT_WS(',', id, body)) FROM seqd_slots), " +
			"(SELECT HEX(CONCAT_WS(',', id, body)) FROM seqd_history))"
		before := askMySQL(t, db, all)
		_, read := s.Counters().Read(ctx, "order")
		_, list := s.Counters().List(ctx, "", 5)
		_, epoch := s.Counters().Epoch(ctx, "order")
		_, taken := allocate(ctx, s)
		_, document := s.Documents().Read(ctx, "token", "x")
		_, documents := s.Documents().List(ctx, "token", "", 5)
		_, look := s.Slots().Look(ctx, registry)
		_, page := s.History().List(ctx, persist.HistoryQuery{BizType: "order", Limit: 5})
		for what, err := range map[string]error{
			"read": read, "list": list, "epoch": epoch, "allocate": taken, "document": document, "documents": documents, "look": look, "history": page,
		} {
			must.Is(t, err, test.want, "%s after %s", what, test.damage)
		}
		if due, err := s.Documents().Due(ctx, "token", 10, 5); err != nil || len(due) != 0 {
			t.Errorf("after %s %+v is due, %v", test.damage, due, err)
		}
		if after := askMySQL(t, db, all); after != before {
			t.Errorf("%s became %s", before, after)
		}
	}
}

// A user without the right to create tables is enough if an operator created them. What is wrong
// with a user is said in one sentence, without the password.
func TestMySQLRights(t *testing.T) {
	t.Parallel()
	server := testenv.StartMySQL(t)
	o := newMySQL(t, server)
	config, err := library.ParseDSN(o.DSN)
	must.Do(t, err)
	few := o
	few.DSN = fmt.Sprintf("few:hidden@tcp(%s)/%s", config.Addr, config.DBName)
	refused := func(dsn, want string) {
		t.Helper()
		bad := o
		bad.DSN = dsn
		_, err := tryMySQL(t, bad, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, persist.ErrUnavailable) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	server.Query("CREATE USER few IDENTIFIED BY 'hidden'")
	refused(few.DSN, "no right to the database")
	refused(strings.Replace(few.DSN, "hidden", "hidden2", 1), "the user or the password")
	refused(strings.Replace(o.DSN, config.DBName, "none", 1), "database")
	server.Query(fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO few", config.DBName))
	refused(few.DSN, "lacks a right")
	server.Query("ALTER USER few ACCOUNT LOCK")
	refused(few.DSN, "is locked")
	server.Query("ALTER USER few ACCOUNT UNLOCK")
	server.Query("ALTER USER few REQUIRE SSL")
	refused(few.DSN, "the user or the password") // the server does not say more
	refused(few.DSN+"?tls=true", "TLS")
	server.Query("ALTER USER few REQUIRE NONE")

	openMySQL(t, o) // as an operator does
	s := openMySQL(t, few)
	create(t, s)
	must.Report(t, must.Err(allocate(t.Context(), s)))
	must.Report(t, must.Err(s.Slots().Look(t.Context(), registry)))
	fence, err := s.Fence(t.Context())
	must.Do(t, err)
	must.Do(t, s.ConfirmFence(t.Context(), fence.Current))
}

// A range is allocated by one statement in one round trip, and so are the other operations on
// counters.
func TestMySQLSendsOneStatement(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartMySQL(t)
	var mu sync.Mutex
	traced := 0
	o := newMySQL(t, server)
	o.Trace = func(context.Context, string) func(error) {
		mu.Lock()
		defer mu.Unlock()
		traced++
		return func(error) {}
	}
	s := openMySQL(t, o)
	create(t, s)
	server.Query("SET GLOBAL log_output = 'TABLE'")
	server.Query("SET GLOBAL general_log = 1")
	traced = 0
	const rounds = 10
	for range rounds {
		must.Get(allocate(t.Context(), s))(t)
		must.Get(s.Counters().Epoch(t.Context(), "order"))(t)
	}
	server.Query("SET GLOBAL general_log = 0")
	got := server.Query("SELECT GROUP_CONCAT(kind, ' ', n ORDER BY kind) FROM (SELECT kind, count(*) AS n FROM (SELECT CONCAT(command_type, ' ', " +
		"LEFT(argument, 6)) AS kind FROM mysql.general_log WHERE user_host LIKE 'seqd%') k GROUP BY kind) g")
	if want := fmt.Sprintf("Query SELECT %d,Query UPDATE %[1]d", rounds); got != want || traced != 2*rounds {
		t.Errorf("the server got %s, and %d were traced; want %s", got, traced, want)
	}
}

// While a stranger holds the row, a request ends in time, on the server too. Afterwards everything
// works. What the server took after its caller had left comes to nobody.
func TestMySQLLockedRow(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartMySQL(t)
	o := newMySQL(t, server)
	o.Timeout = brief
	s := openMySQL(t, o)
	create(t, s)
	stranger, err := connectMySQL(t, o.DSN).BeginTx(t.Context(), nil)
	must.Do(t, err)
	must.Get(stranger.ExecContext(t.Context(), "UPDATE seqd_counters SET step = 77"))(t)
	var callers sync.WaitGroup
	for range 20 { // more than there are connections
		callers.Go(func() {
			begin := time.Now()
			_, err := allocate(context.Background(), s)
			if !errors.Is(err, persist.ErrUnavailable) || time.Since(begin) > 2*time.Minute {
				t.Errorf("%v after %s", err, time.Since(begin))
			}
		})
	}
	callers.Wait()
	const waiting = "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE seqd_counters%'"
	await.True(t, "the server does not wait for the row", func() bool { return server.Query(waiting) == "0" })
	must.Do(t, stranger.Rollback())
	awaitStore(t, s)
	if r, err := allocate(t.Context(), s); err != nil || r.First != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A range whose answer was lost is taken once: the statement is not sent again, and no other caller
// gets its numbers.
func TestMySQLLostReplies(t *testing.T) {
	server := testenv.StartMySQL(t)
	link := testenv.NewLink(t, server.Addr())
	o := newMySQL(t, server)
	direct := openMySQL(t, o)
	create(t, direct)
	o.DSN = strings.Replace(o.DSN, server.Addr(), link.Addr(), 1)
	o.Timeout = brief
	s := openMySQL(t, o)
	for round := range int64(3) {
		if _, err := s.Now(t.Context()); err != nil { // a connection is idle
			t.Fatal(err)
		}
		link.DropReplies()
		must.Is(t, must.Err(allocate(t.Context(), s)), persist.ErrUnavailable)
		link.Restore()
		awaitStore(t, s)
		r, err := allocate(t.Context(), s)
		if want := 20*round + 11; err != nil || r.First != want {
			t.Errorf("round %d: %+v, %v, want it to begin with %d", round, r, err, want)
		}
	}
	link.Cut()
	must.Is(t, must.Err(allocate(t.Context(), s)), persist.ErrUnavailable)
	link.Restore()
	awaitStore(t, s)
	if r, err := allocate(t.Context(), s); err != nil || r.First != 61 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A store ends all waiting when it is closed, and connections that the server ended meanwhile are
// not noticed by callers.
func TestMySQLConnectionsThatEnded(t *testing.T) {
	server := testenv.StartMySQL(t)
	s := openMySQL(t, newMySQL(t, server))
	create(t, s)
	for range 3 {
		ids := server.Query("SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = 'seqd'")
		for id := range strings.SplitSeq(ids, ",") {
			server.Query("KILL CONNECTION " + id)
		}
		// A connection is closed before it leaves the list.
		for server.Query("SELECT COUNT(*) FROM information_schema.processlist WHERE id IN ("+ids+")") != "0" {
			time.Sleep(5 * time.Millisecond)
		}
		must.Report(t, must.Err(allocate(t.Context(), s)))
	}
}

func TestMySQLPurgeUnderLoad(t *testing.T) {
	longtest.Only(t)
	o := newMySQL(t, testenv.StartMySQL(t))
	purgeUnderLoad(t, openMySQL(t, o), func() string {
		return askMySQL(t, connectMySQL(t, o.DSN), "SELECT CONCAT((SELECT count(*) FROM seqd_documents), ' ', (SELECT count(*) FROM seqd_history))")
	})
}
