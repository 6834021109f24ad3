package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
)

func tryPostgres(t *testing.T, url string, change func(*postgres.Options)) (*postgres.Store, error) {
	t.Helper()
	o := postgres.Options{URL: url, Options: sqlOptions()}
	if change != nil {
		change(&o)
	}
	s, err := postgres.Open(t.Context(), o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// Several nodes that start at once on an empty database create one schema.
func TestPostgresStartsAtOnce(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	for name, url := range map[string]string{"direct": server.URL(), "pgbouncer": testenv.StartPgbouncer(t, server.Addr()).URL()} {
		t.Run(name, func(t *testing.T) {
			dropTables(server)
			ids := make([]string, 8)
			var nodes sync.WaitGroup
			for i := range ids {
				nodes.Go(func() {
					s, err := tryPostgres(t, url, func(o *postgres.Options) { o.MaxConnections = 2 })
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
			if version := server.Query("SELECT count(*)::text || ' of ' || max(version) FROM seqd_schema"); version != "1 of 1" {
				t.Errorf("the schema is %s", version)
			}
		})
	}
}

// A newer schema is refused, at the start and by a store that was opened before the server could be
// reached. Nothing is changed.
func TestPostgresNewerSchema(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	openPostgres(t, server.URL(), nil)
	server.Query("UPDATE seqd_schema SET version = 2")
	for _, change := range []func(*postgres.Options){nil, func(o *postgres.Options) { o.ReadOnly = true }} {
		if _, err := tryPostgres(t, server.URL(), change); !errors.Is(err, persist.ErrNewer) || !strings.Contains(err.Error(), "version 2") {
			t.Error(err)
		}
	}
	s := openPostgres(t, server.URL(), func(o *postgres.Options) { o.Unreached = true })
	wants(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 1}), persist.ErrNewer)
	server.Query("UPDATE seqd_schema SET version = 1")
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 1}))
}

// A store that was opened before the server could be reached creates no tables, because it belongs
// to a database that has them; nor does one that is only looked at.
func TestPostgresCreatesNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, change := range []func(*postgres.Options){
		func(o *postgres.Options) { o.Unreached = true }, func(o *postgres.Options) { o.ReadOnly = true },
	} {
		s := openPostgres(t, server.URL(), change)
		_, err := persist.ReadCluster(t.Context(), s.Documents())
		wants(t, err, persist.ErrNotFound)
		if found := server.Query("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'seqd%'"); found != "0" {
			t.Errorf("there are %s tables", found)
		}
	}
}

// A row of a newer format is refused, a damaged one is an error, and neither is changed.
func TestPostgresOddRows(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := openPostgres(t, server.URL(), nil)
	ctx := t.Context()
	source := fencedBy(t, s).Current
	history := persist.HistoryRecord{ID: persist.HistoryID(5, 1, 1), BizType: "order", Time: 5, First: 1, Last: 1, Count: 1}
	const newer = `convert_to(replace(convert_from(body, 'UTF8'), '"v":1', '"v":2'), 'UTF8')`
	for _, test := range []struct {
		damage string
		want   error
	}{
		{"UPDATE seqd_counters SET version = 2; UPDATE seqd_documents SET version = 2; " +
			"UPDATE seqd_slots SET body = " + newer + "; UPDATE seqd_history SET body = " + newer, persist.ErrNewer},
		{"UPDATE seqd_counters SET epoch = 'odd'; UPDATE seqd_documents SET body = '\\xff'; " +
			"UPDATE seqd_slots SET body = substr(body, 2); UPDATE seqd_history SET body = ''", persist.ErrInvalid},
	} {
		server.Query("TRUNCATE seqd_counters, seqd_documents, seqd_slots, seqd_history")
		must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 5, Step: 10}))
		must.Do(t, s.Documents().Create(ctx, persist.Document{Kind: "token", Key: "x", Revision: 1, Expires: 5}))
		must.Do(t, s.History().Append(ctx, []persist.HistoryRecord{history}))
		if made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, Source: source}); !made {
			t.Fatal(err)
		}
		server.Query(test.damage)
		const all = "SELECT (SELECT string_agg(c::text, ';') FROM seqd_counters c) || (SELECT string_agg(d::text, ';') FROM seqd_documents d) || " +
			"(SELECT string_agg(s::text, ';') FROM seqd_slots s) || (SELECT string_agg(h::text, ';') FROM seqd_history h)"
		before := server.Query(all)
		_, read := s.Counters().Read(ctx, "order")
		_, list := s.Counters().List(ctx, "", 5)
		_, epoch := s.Counters().Epoch(ctx, "order")
		_, document := s.Documents().Read(ctx, "token", "x")
		_, documents := s.Documents().List(ctx, "token", "", 5)
		_, look := s.Slots().Look(ctx, registry)
		_, swapped := s.Slots().Swap(ctx, registry, persist.SlotSwap{OldSet: &slotSet, NewSet: &slotSet, Source: source})
		_, page := s.History().List(ctx, persist.HistoryQuery{BizType: "order", Limit: 5})
		for what, err := range map[string]error{
			"read": read, "list": list, "epoch": epoch, "document": document, "documents": documents, "look": look, "swap": swapped,
			"drop": s.Slots().Drop(ctx, registry), "history": page,
		} {
			must.Is(t, err, test.want, "%s", what)
		}
		if due, err := s.Documents().Due(ctx, "token", 10, 5); err != nil || len(due) != 0 {
			t.Errorf("%+v is due, %v", due, err)
		}
		if errors.Is(test.want, persist.ErrNewer) {
			_, taken := allocate(ctx, s)
			wants(t, taken, persist.ErrNewer)
			_, given := s.Counters().GiveBack(ctx, "order", persist.Range{First: 5, Last: 5})
			wants(t, given, persist.ErrNewer)
			wants(t, s.Counters().Delete(ctx, "order"), persist.ErrNewer)
			wants(t, s.Documents().Update(ctx, persist.Document{Kind: "token", Key: "x", Revision: 2}), persist.ErrNewer)
			wants(t, s.Documents().Delete(ctx, "token", "x", 1), persist.ErrNewer)
		}
		if after := server.Query(all); after != before {
			t.Errorf("%s became %s", before, after)
		}
	}
}

// A user without the right to create tables is enough if an operator created them.
func TestPostgresRights(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	server.Query("CREATE ROLE few LOGIN PASSWORD 'hidden'; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	url := strings.Replace(server.URL(), "seqd:secret", "few:hidden", 1)
	for want, prepare := range map[string]string{
		"permission denied for schema public": "SELECT 1",
		"password is wrong":                   "ALTER ROLE few PASSWORD 'changed'",
		"is not permitted to log in":          "ALTER ROLE few NOLOGIN PASSWORD 'hidden'",
	} {
		server.Query("ALTER ROLE few LOGIN PASSWORD 'hidden'")
		server.Query(prepare)
		_, err := tryPostgres(t, url, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, persist.ErrUnavailable) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v, want %q", prepare, err, want)
		}
	}
	if _, err := tryPostgres(t, strings.Replace(server.URL(), "/seqd?", "/none?", 1), nil); err == nil || !strings.Contains(err.Error(), "no such database") {
		t.Error(err)
	}
	if _, err := tryPostgres(t, strings.Replace(server.URL(), "disable", "require", 1), nil); err == nil || !strings.Contains(err.Error(), "sslmode") {
		t.Error(err)
	}
	server.Query("ALTER ROLE few LOGIN PASSWORD 'hidden'")
	openPostgres(t, server.URL(), nil) // as an operator does
	if _, err := tryPostgres(t, url, nil); err == nil || !strings.Contains(err.Error(), "permission denied for table seqd_schema") {
		t.Error(err)
	}
	server.Query("GRANT SELECT, INSERT, UPDATE, DELETE ON seqd_counters, seqd_documents, seqd_slots, seqd_history, seqd_schema TO few")
	s := openPostgres(t, url, nil)
	create(t, s)
	must.Report(t, must.Err(allocate(t.Context(), s)))
	must.Report(t, must.Err(s.Slots().Look(t.Context(), registry)))
	must.Do(t, s.ConfirmFence(t.Context(), fencedBy(t, s).Current))
}

// A range is allocated by one statement, which is prepared if the connection leads straight to the
// server: pgbouncer gives each transaction another one, which does not know it.
func TestPostgresAllocatesByOneStatement(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t, "log_statement = all")
	for name, url := range map[string]string{"stmtcache_": server.URL(), "<unnamed>": testenv.StartPgbouncer(t, server.Addr()).URL()} {
		before := len(server.Log())
		dropTables(server)
		s := openPostgres(t, url, nil)
		create(t, s)
		awaitStatements(t, server, before, `INSERT INTO "public".seqd_counters`, 1)
		before = len(server.Log())
		for range 10 {
			must.Get(allocate(t.Context(), s))(t)
		}
		log := awaitStatements(t, server, before, `UPDATE "public".seqd_counters`, 10)
		if n := strings.Count(log, "execute "+name); n != 10 || strings.Count(log, "execute ") != 10 || strings.Contains(log, " statement: ") {
			t.Errorf("%d statements were sent as %s:\n%s", n, name, log)
		}
	}
}

// awaitStatements waits until the log of a server has so many lines with a statement behind an
// offset, and returns what is behind it. The log arrives later than the answers.
func awaitStatements(t *testing.T, server *testenv.Postgres, offset int, statement string, count int) (log string) {
	t.Helper()
	await.True(t, fmt.Sprintf("%q is %d times in the log", statement, count), func() bool {
		log = server.Log()[offset:]
		return strings.Count(log, statement) >= count
	})
	return log
}

// While a stranger holds the row, a request ends in time, on the server too. Afterwards everything
// works, and no number was taken.
func TestPostgresLockedRow(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartPostgres(t)
	for name, url := range map[string]string{"direct": server.URL(), "pgbouncer": testenv.StartPgbouncer(t, server.Addr()).URL()} {
		t.Run(name, func(t *testing.T) {
			dropTables(server)
			s := openPostgres(t, url, func(o *postgres.Options) { o.Timeout = brief })
			create(t, s)
			stranger := must.Get(server.Connect().Begin(t.Context()))(t)
			must.Get(stranger.Exec(t.Context(), "SELECT FROM seqd_counters FOR UPDATE"))(t)
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
			awaitQuery(t, server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", "0")
			must.Do(t, stranger.Rollback(t.Context()))
			awaitStore(t, s)
			if r, err := allocate(t.Context(), s); err != nil || r.First != 1 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// awaitQuery waits for what a query returns.
func awaitQuery(t *testing.T, server *testenv.Postgres, query, want string) {
	t.Helper()
	await.True(t, query+" is "+want, func() bool { return server.Query(query) == want })
}

// A server that takes no writes is away, not broken, and is used again as soon as it takes them.
// Connections of before are not.
func TestPostgresReadOnlyServer(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := openPostgres(t, server.URL(), nil)
	create(t, s)
	server.Query("ALTER SYSTEM SET default_transaction_read_only = on")
	server.Reload()
	awaitError(t, s, "read only")
	must.Is(t, must.Err(tryPostgres(t, server.URL(), nil)), persist.ErrUnavailable)
	server.Query("ALTER SYSTEM RESET default_transaction_read_only")
	server.Reload()
	if r, err := allocate(t.Context(), s); err != nil || r.First != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// awaitError waits until allocating fails because the server is away, with a text in the error.
func awaitError(t *testing.T, s persist.Store, text string) {
	t.Helper()
	await.Eventually(t, "the error has "+text, func() error {
		_, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order"})
		if !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), text) {
			return fmt.Errorf("it is %w", err)
		}
		return nil
	})
}

func TestPostgresPurgeUnderLoad(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartPostgres(t)
	purgeUnderLoad(t, openPostgres(t, server.URL(), nil), func() string {
		return server.Query("SELECT (SELECT count(*) FROM seqd_documents) || ' ' || (SELECT count(*) FROM seqd_history)")
	})
}

// Many processes purge while records are added: each record goes once, and those that stay stay.
// left returns how many documents and records the database has.
func purgeUnderLoad(t *testing.T, s persist.Store, left func() string) {
	t.Helper()
	const count, expired = 400, 1000
	var work sync.WaitGroup
	var mu sync.Mutex
	documents, records := 0, 0
	work.Go(func() {
		for i := range count {
			d := persist.Document{Kind: "answer", Key: strconv.Itoa(i), Revision: 1, Expires: 1}
			if i%4 == 0 {
				d.Expires = expired + 1
			}
			at := d.Expires
			r := persist.HistoryRecord{ID: persist.HistoryID(at, 1, uint64(i)), BizType: "order", Time: at, First: 1, Last: 1, Count: 1}
			must.Report(t, errors.Join(s.Documents().Create(t.Context(), d), s.History().Append(t.Context(), []persist.HistoryRecord{r})))
		}
	})
	const want = count * 3 / 4
	deadline := time.Now().Add(await.Patience)
	for range 3 {
		work.Go(func() {
			for done := false; !done && !t.Failed(); {
				d, err := s.Documents().Purge(t.Context(), "answer", expired, 7)
				h, historyErr := s.History().Purge(t.Context(), "order", expired, 7)
				if err := errors.Join(err, historyErr); err != nil || d > 7 || h > 7 || time.Now().After(deadline) {
					t.Errorf("purged %d and %d, %v", d, h, err)
				}
				mu.Lock()
				documents, records = documents+d, records+h
				done = documents >= want && records >= want
				mu.Unlock()
			}
		})
	}
	work.Wait()
	rest := fmt.Sprintf("%d %d", count-want, count-want)
	if left := left(); documents != want || records != want || left != rest {
		t.Errorf("%d documents and %d records were purged, %s are left", documents, records, left)
	}
}

// No statement needs a scan of a table that grows, and no update of a counter changes an index.
func TestPostgresUsesIndexes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	s := openPostgres(t, server.URL(), nil)
	create(t, s)
	for range 200 {
		must.Get(allocate(t.Context(), s))(t)
	}
	awaitQuery(t, server, "SELECT n_tup_upd = 200 AND n_tup_hot_upd = 200 FROM pg_stat_user_tables WHERE relname = 'seqd_counters'", "t")
	if pages := server.Query("SELECT pg_relation_size('seqd_counters') / 8192"); pages != "1" {
		t.Errorf("the table has %s pages", pages)
	}
	server.Query("INSERT INTO seqd_documents SELECT 'answer', convert_to(i::text, 'UTF8'), 1, 1, '', 0, i FROM generate_series(1, 20000) i; " +
		"INSERT INTO seqd_history SELECT convert_to('order/' || lpad(i::text, 40, '0'), 'UTF8'), '' FROM generate_series(1, 20000) i; ANALYZE")
	const scans = "SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('seqd_documents', 'seqd_history')"
	before := server.Query(scans)
	for _, use := range []func() (int, error){
		func() (int, error) {
			due, err := s.Documents().Due(t.Context(), "answer", 1000, 100)
			return len(due), err
		},
		func() (int, error) { return s.Documents().Purge(t.Context(), "answer", 1000, 100) },
		func() (int, error) { return s.History().Purge(t.Context(), "order", 1, 100) },
	} {
		must.Report(t, must.Err(use()))
	}
	must.Do(t, s.Close())
	awaitQuery(t, server, "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'seqd_documents'", "100")
	if after := server.Query(scans); after != before {
		t.Errorf("%s rows were read without an index", after)
	}
}

// A store that is only looked at writes nothing, not even to the log of the server.
func TestPostgresLooksOnly(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t, "autovacuum = off")
	create(t, openPostgres(t, server.URL(), nil))
	server.Query("CHECKPOINT; ALTER ROLE seqd SET default_transaction_read_only = on")
	s := openPostgres(t, server.URL(), func(o *postgres.Options) { o.ReadOnly = true })
	must.Report(t, must.Err(s.Slots().Look(t.Context(), registry)))
	if list, err := s.Counters().List(t.Context(), "", 5); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	wants(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "x", Step: 1}), persist.ErrUnavailable)
}
