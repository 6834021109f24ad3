package store

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/seqd/seqd/persist/sqlstore"
)

// synchronous gives a server a synchronous standby, and lets the user of the store see it.
func synchronous(t testing.TB, server *testenv.Postgres) (standby *testenv.Postgres) {
	t.Helper()
	standby = testenv.StartStandby(t, server)
	server.Synchronous()
	server.Query("GRANT pg_read_all_stats TO seqd")
	return standby
}

// fencedBy returns the fence of a store.
func fencedBy(t *testing.T, s *postgres.Store) persist.Fence {
	t.Helper()
	return must.Get(s.Fence(t.Context()))(t)
}

// A standby that is promoted has another fence. Until an operator confirms it no counter is
// created; existing ones continue above a gap, without their cursors.
func TestPostgresFailover(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, server)
	s := openPostgres(t, testenv.PostgresURL(server.Addr(), standby.Addr()), func(o *postgres.Options) { o.Timeout = 5 * time.Second })
	ctx := t.Context()
	before := fencedBy(t, s)
	if before.FailedOver() || before.Current == "" {
		t.Fatalf("a new database has %+v", before)
	}
	epoch := persist.NewEpoch()
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "order", Max: 5, Step: 10}))
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "other", Max: 5, Step: 10}))
	must.Get(s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, To: persist.NewCursor("", epoch)}))(t)
	if made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5), Source: before.Current}); err != nil || !made {
		t.Fatalf("%t, %v", made, err)
	}
	server.AwaitStandby(standby)
	server.Kill()
	standby.Promote()

	awaitStore(t, s)
	fence := fencedBy(t, s)
	if !fence.FailedOver() || fence.Confirmed != before.Current {
		t.Errorf("after the failover it is %+v, before %+v", fence, before)
	}
	if c, err := s.Counters().Read(ctx, "order"); err != nil || !c.FailedOver || c.Epoch != "" || c.Max != 15 {
		t.Errorf("the counter is %+v, %v", c, err)
	}
	must.Equal(t, must.Get(s.Counters().Epoch(ctx, "order"))(t), "", "the epoch")
	if given, err := s.Counters().GiveBack(ctx, "order", persist.Range{First: 10, Last: 15}); err != nil || given {
		t.Errorf("it was given back: %t, %v", given, err)
	}
	wants(t, s.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 1}), persist.ErrFailedOver)
	wants(t, s.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 1}), persist.ErrExists)
	_, err := s.Counters().Read(ctx, "new")
	wants(t, err, persist.ErrNotFound)
	_, err = s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, To: persist.ToCursor(epoch)})
	wants(t, err, persist.ErrEpoch)
	r, err := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000})
	if want := (persist.Range{First: 1016, Last: 1025}); err != nil || r != want {
		t.Errorf("%+v, %v, want %+v", r, err, want)
	}
	if c, err := s.Counters().Read(ctx, "order"); err != nil || c.FailedOver {
		t.Errorf("the counter is %+v, %v", c, err)
	}
	table, err := s.Slots().Look(ctx, registry)
	if err != nil || table.Source != fence.Current || table.Lag <= 0 || table.Set == nil || len(table.Slots) != 1 {
		t.Errorf("the registry is %+v, %v", table, err)
	}
	renewal := persist.SlotSwap{OldSet: &slotSet, OldSlot: leased(5), NewSlot: leased(5), Source: before.Current}
	if made, err := s.Slots().Swap(ctx, registry, renewal); err != nil || made {
		t.Errorf("a swap under the former fence: %t, %v", made, err)
	}

	wants(t, s.ConfirmFence(ctx, before.Current), persist.ErrConflict)
	must.Do(t, s.ConfirmFence(ctx, fence.Current))
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 1}))
	for _, failovers := range []int64{1, 2} {
		if c, err := s.Counters().Read(ctx, "other"); err != nil || !c.FailedOver || c.Failovers != failovers {
			t.Errorf("a counter that was not used since %d failovers is %+v, %v", failovers, c, err)
		}
		must.Get(standby.Connect().Exec(ctx, "UPDATE seqd_counters SET fence = split_part(fence, '/', 1) || '/00000000' WHERE name = 'other'"))(t)
	}
}

// The first range after a failover begins a gap higher. If the next failover loses that range, the
// counter is again as it was before both. Then one gap is not enough: the next range would be the
// same.
func TestPostgresFailoverLosesTheGap(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	first := testenv.StartPostgres(t)
	second := testenv.StartStandby(t, first)
	s := openPostgres(t, testenv.PostgresURL(first.Addr(), second.Addr()), func(o *postgres.Options) { o.Timeout = 5 * time.Second })
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 5, Step: 10}))
	first.AwaitStandby(second)
	first.Kill()
	second.Promote()
	awaitStore(t, s)

	third := testenv.StartStandby(t, second)
	second.AwaitStandby(third)
	third.Detach()
	req := persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000}
	lost, err := s.Counters().Allocate(t.Context(), req)
	if want := (persist.Range{First: 1006, Last: 1015}); err != nil || lost != want {
		t.Fatalf("%+v, %v, want %+v", lost, err, want)
	}
	second.Kill()
	third.Promote()

	after := openPostgres(t, third.URL(), func(o *postgres.Options) { o.Timeout = 5 * time.Second })
	if c, err := after.Counters().Read(t.Context(), "order"); err != nil || c.Max != 5 || !c.FailedOver {
		t.Fatalf("the counter is %+v, %v: the range was not lost", c, err)
	}
	r, err := after.Counters().Allocate(t.Context(), req)
	if want := (persist.Range{First: 2006, Last: 2015}); err != nil || r != want {
		t.Errorf("%+v, %v, want %+v", r, err, want)
	}
}

// With a synchronous standby and failover lossless nothing is skipped, and the fence stays: a
// ledger continues on the new server.
func TestPostgresLosslessFailover(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	url := testenv.PostgresURL(server.Addr(), standby.Addr())
	s := openPostgres(t, url, func(o *postgres.Options) { o.Lossless, o.Timeout = true, 5*time.Second })
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
	must.Get(allocate(t.Context(), s))(t)
	before := fencedBy(t, s).Current
	must.Do(t, s.CreateFenced(t.Context(), ledgerDocument("invoice", 1), before))
	server.Kill()
	standby.Promote()
	testenv.StartStandby(t, standby)
	standby.Synchronous()

	awaitStore(t, s)
	if fence := fencedBy(t, s); fence.FailedOver() || fence.Current != before {
		t.Errorf("it is %+v, before %s", fence, before)
	}
	must.Do(t, s.UpdateFenced(t.Context(), ledgerDocument("invoice", 2), before))
	must.Do(t, s.CreateFenced(t.Context(), ledgerDocument("order", 1), before))
	r, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000})
	if want := (persist.Range{First: 11, Last: 20}); err != nil || r != want {
		t.Errorf("%+v, %v, want %+v", r, err, want)
	}
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "new", Step: 10}))
}

// What a failover lost before nodes were told that none loses anything is lost nevertheless: the
// next range of a counter that nobody has used since begins a gap higher.
func TestPostgresLosslessAfterALoss(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	open := func(server *testenv.Postgres, lossless bool) *postgres.Store {
		return openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout = lossless, 5*time.Second })
	}
	first := testenv.StartPostgres(t)
	second := testenv.StartStandby(t, first)
	lossy := open(first, false)
	losesRange(t, lossy, func() { first.AwaitStandby(second); second.Detach() })
	first.Kill()
	second.Promote()
	third := synchronous(t, second)
	goesOnAbove(t, open(second, true))
	second.Kill()
	third.Promote()
	testenv.StartStandby(t, third)
	third.Synchronous()
	goesOnAtOnce(t, open(third, true))
	if fence := fencedBy(t, open(third, false)); !fence.FailedOver() {
		t.Errorf("told that failovers lose something, it is %+v", fence)
	}
}

// Nodes that begin at the same time on a new database are told once that failovers lose nothing,
// and can create counters.
func TestPostgresLosslessAtOnce(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	synchronous(t, server)
	o := postgres.Options{URL: server.URL(), Options: sqlOptions()}
	o.Lossless, o.Timeout = true, patient
	var nodes sync.WaitGroup
	for i := range 3 {
		nodes.Go(func() {
			s, err := postgres.Open(t.Context(), o)
			if must.Report(t, err); err != nil {
				return
			}
			defer func() { _ = s.Close() }()
			must.Report(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: fmt.Sprint("order", i), Step: 10}))
		})
	}
	nodes.Wait()
	fence, present := "", ""
	must.Do(t, server.Connect().QueryRow(t.Context(), "SELECT fence, origin FROM seqd_schema").Scan(&fence, &present))
	if fence != sqlstore.LosslessMark+present {
		t.Errorf("the fence is %s, of %s", fence, present)
	}
}

// Nodes with failover lossless do not notice what a failover has lost. So a node with lossy writes
// nothing as soon as there is one, until an operator says that there is none.
func TestPostgresLossyBesideLossless(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	open := func(server *testenv.Postgres, lossless bool) *postgres.Store {
		return openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout = lossless, patient })
	}
	lossy := open(server, false)
	must.Do(t, lossy.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
	command := openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout, o.Beside = true, patient, true })
	must.Do(t, command.ConfirmFence(t.Context(), fencedBy(t, command).Current))
	must.Get(allocate(t.Context(), lossy))(t)
	fencedBy(t, open(server, true))
	must.Do(t, command.ConfirmFence(t.Context(), fencedBy(t, command).Current)) // keeps the mark
	server.Configure("synchronous_standby_names = ''")                          // as an operator does whose standby is away
	server.Reload()
	server.AwaitStandby(standby)
	standby.Detach()
	given, err := allocate(t.Context(), lossy)
	looked(t, openPostgres(t, server.URL(), func(o *postgres.Options) { o.ReadOnly, o.Timeout = true, patient }))

	server.Kill()
	standby.Promote()
	testenv.StartStandby(t, standby)
	standby.Synchronous()
	if r, again := allocate(t.Context(), open(standby, true)); again != nil || err == nil && r.First <= given.Last {
		t.Errorf("%+v, %v; another node was given %+v", r, again, given)
	}
	lossy = open(standby, false)
	stopped(t, lossy, err)
	must.Do(t, lossy.ConfirmFence(t.Context(), fencedBy(t, lossy).Current))
	must.Get(lossy.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000}))(t)
}

// stopped checks that a node with failover lossy has not written beside one with lossless.
func stopped(t *testing.T, s interface {
	persist.Store
	persist.Fenced
}, err error) {
	t.Helper()
	wants(t, err, persist.ErrUnavailable)
	wants(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "new", Step: 10}), persist.ErrFailedOver)
	fence := must.Get(s.Fence(t.Context()))(t)
	if err := s.CreateFenced(t.Context(), ledgerDocument("invoice", 1), fence.Current); err == nil {
		t.Error("it writes a ledger")
	}
	must.Is(t, must.Err(s.Slots().Look(t.Context(), registry)), persist.ErrUnavailable, "it reads a registry")
	if !fence.FailedOver() {
		t.Errorf("there is nothing to confirm: %+v", fence)
	}
}

// looked checks that a command that only looks, and was told that failovers lose something, sees what
// is there while nodes are told that they lose nothing.
func looked(t *testing.T, s persist.Store) {
	t.Helper()
	must.Report(t, must.Err(s.Slots().Look(t.Context(), registry)))
	if c, err := s.Counters().Read(t.Context(), "order"); err != nil || c.Max == 0 || c.FailedOver {
		t.Errorf("it sees the counter %+v, %v", c, err)
	}
}

// losesRange takes a range from a store, and another one that is lost after cut was called.
func losesRange(t *testing.T, s persist.Store, cut func()) {
	t.Helper()
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
	must.Get(allocate(t.Context(), s))(t)
	cut()
	if r, err := allocate(t.Context(), s); err != nil || r.Last != 20 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// goesOnAbove checks a lossless store that has lost a range before it was that.
func goesOnAbove(t *testing.T, s interface {
	persist.Store
	persist.Fenced
}) {
	t.Helper()
	ctx, fence := t.Context(), must.Get(s.Fence(t.Context()))(t)
	if c, err := s.Counters().Read(ctx, "order"); err != nil || !c.FailedOver || !fence.FailedOver() {
		t.Errorf("the counter is %+v, %v, and the fence %+v", c, err, fence)
	}
	wants(t, s.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 10}), persist.ErrFailedOver)
	if r, err := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000}); err != nil || r.First <= 1000 {
		t.Errorf("%+v, %v, want it above a gap", r, err)
	}
	must.Do(t, s.ConfirmFence(ctx, fence.Current))
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 10}))
}

// goesOnAtOnce checks the same store after a failover that lost nothing.
func goesOnAtOnce(t *testing.T, s interface {
	persist.Store
	persist.Fenced
}) {
	t.Helper()
	ctx := t.Context()
	before := must.Get(s.Counters().Read(ctx, "order"))(t)
	r, err := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, FailoverGap: 1000})
	if fence := must.Get(s.Fence(ctx))(t); err != nil || r.First != before.Max+1 || fence.FailedOver() {
		t.Errorf("%+v, %v, above %d; the fence is %+v", r, err, before.Max, fence)
	}
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "newer", Step: 10}))
}

// A commit that did not wait for the standby is not acknowledged, and what it wrote is not shown as
// certain: registries of machine IDs are not, and with failover lossless documents neither.
func TestPostgresCancelledCommit(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	s := openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout = true, 30*time.Second })
	ctx := t.Context()
	must.Do(t, s.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 10}))
	fence := fencedBy(t, s).Current
	standby.Pause()
	done := make(chan error, 1)
	go func() {
		made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, Source: fence})
		if made {
			err = errors.New("it was acknowledged")
		}
		done <- err
	}()
	cancelWait(t, server)
	if err := <-done; !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a swap whose commit was cancelled: %v", err)
	}
	go func() {
		_, err := allocate(ctx, s)
		done <- err
	}()
	cancelWait(t, server)
	if err := <-done; !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a range whose commit was cancelled: %v", err)
	}
	// It is there, but not certain.
	if c, err := s.Counters().Read(ctx, "order"); err != nil || c.Max != 10 {
		t.Errorf("the counter is %+v, %v", c, err)
	}
	for what, read := range map[string]func(context.Context) error{
		"a registry": func(ctx context.Context) error { _, err := s.Slots().Look(ctx, registry); return err },
		"a document": func(ctx context.Context) error {
			err := s.Documents().Create(ctx, persist.Document{Kind: "answer", Key: "x", Revision: 1})
			if errors.Is(err, persist.ErrExists) {
				_, err = s.Documents().Read(ctx, "answer", "x")
			}
			return err
		},
	} {
		for range 2 {
			ended := make(chan error, 1)
			go func() { ended <- read(ctx) }()
			cancelWait(t, server)
			must.Is(t, <-ended, persist.ErrUnavailable, "%s was shown while the standby was away", what)
		}
	}
	standby.Resume()
	if table, err := s.Slots().Look(ctx, registry); err != nil || table.Set == nil {
		t.Errorf("the registry is %+v, %v", table, err)
	}
	must.Report(t, must.Err(s.Documents().Read(ctx, "answer", "x")))
}

// What is written is durable although the server was told meanwhile not to wait for commits.
func TestPostgresWritesDurably(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	ctx := t.Context()
	open := func() *postgres.Store {
		return openPostgres(t, server.URL(), func(o *postgres.Options) { o.Timeout = brief })
	}
	first := open()
	create(t, first)
	fence := fencedBy(t, first).Current
	must.Do(t, first.CreateFenced(ctx, ledgerDocument("invoice", 1), fence))
	writes := map[string]func(s *postgres.Store) error{
		"a range": func(s *postgres.Store) error { return must.Err(allocate(ctx, s)) },
		"a lease": func(s *postgres.Store) error {
			return must.Err(s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5), Source: fence}))
		},
		"a ledger":     func(s *postgres.Store) error { return s.UpdateFenced(ctx, ledgerDocument("invoice", 3), fence) },
		"a new ledger": func(s *postgres.Store) error { return s.CreateFenced(ctx, ledgerDocument("order", 1), fence) },
	}
	stores := map[string]*postgres.Store{} // an error ends a connection, and a new one would be refused
	for what := range writes {
		stores[what] = open()
		fencedBy(t, stores[what])
	}
	server.Query("ALTER SYSTEM SET synchronous_commit = off")
	server.Reload()
	must.Do(t, first.UpdateFenced(ctx, ledgerDocument("invoice", 2), fence))
	for _, s := range stores {
		must.Report(t, must.Err(allocate(ctx, s)))
	}
	standby.Pause()
	for what, write := range writes {
		must.Is(t, write(stores[what]), persist.ErrUnavailable, "%s did not wait for the standby", what)
	}
	standby.Resume()
	awaitQuery(t, server, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "0")
}

// cancelWait ends the wait of the one commit that waits for a standby, as an operator may.
func cancelWait(t *testing.T, server *testenv.Postgres) {
	t.Helper()
	await.True(t, "a commit waits for the standby", func() bool {
		return server.Query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "t"
	})
}

// awaitStore waits until a store answers.
func awaitStore(t *testing.T, s persist.Store) {
	t.Helper()
	await.Eventually(t, "the store answers", func() error {
		_, err := s.Now(t.Context())
		if err != nil && !errors.Is(err, persist.ErrUnavailable) {
			t.Fatal(err)
		}
		return err
	})
}

func wants(t testing.TB, err, want error) {
	t.Helper()
	must.Is(t, err, want)
}

// Behind a pooler a connection can lead to a standby from one statement to the next. What the
// standby has may be out of date, so it is away.
func TestPostgresPoolerLeadsToStandby(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, server)
	link := testenv.NewLink(t, server.Addr())
	s := openPostgres(t, testenv.StartPgbouncer(t, link.Addr()).URL(), nil)
	ctx := t.Context()
	create(t, s)
	must.Do(t, s.Documents().Create(ctx, persist.Document{Kind: "token", Key: "x", Revision: 1}))
	server.AwaitStandby(standby)
	link.Switch(standby.Addr())
	_, document := s.Documents().Read(ctx, "token", "x")
	_, documents := s.Documents().List(ctx, "token", "", 1)
	_, counter := s.Counters().Read(ctx, "order")
	_, counters := s.Counters().List(ctx, "", 1)
	_, epoch := s.Counters().Epoch(ctx, "order")
	_, look := s.Slots().Look(ctx, registry)
	_, taken := allocate(ctx, s)
	_, noDocument := s.Documents().Read(ctx, "token", "later")
	_, noCounter := s.Counters().Read(ctx, "later")
	_, noEpoch := s.Counters().Epoch(ctx, "later")
	for what, err := range map[string]error{
		"document": document, "documents": documents, "counter": counter, "counters": counters, "epoch": epoch, "look": look, "allocate": taken,
		"missing document": noDocument, "missing counter": noCounter, "missing epoch": noEpoch,
	} {
		must.Is(t, err, persist.ErrUnavailable, "%s on a standby", what)
	}
}

// The server says by a warning that a commit did not wait for the standby. A user who gets no
// warnings does not get ranges that the standby lacks either.
func TestPostgresCancelledCommitWithoutWarnings(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	standby := synchronous(t, server)
	create(t, openPostgres(t, server.URL(), nil))
	server.Query("ALTER ROLE seqd SET client_min_messages = error")
	s := openPostgres(t, server.URL(), func(o *postgres.Options) { o.Lossless, o.Timeout = true, 30*time.Second })
	standby.Pause()
	done := make(chan error, 1)
	go func() {
		_, err := allocate(t.Context(), s)
		done <- err
	}()
	cancelWait(t, server)
	wants(t, <-done, persist.ErrUnavailable)
	standby.Resume()
	_, err := tryPostgres(t, testenv.StartPgbouncer(t, server.Addr()).URL(), func(o *postgres.Options) { o.Lossless = true })
	if err == nil || !strings.Contains(err.Error(), "client_min_messages") {
		t.Errorf("behind a pooler: %v", err)
	}
}

// If commits cease to wait for a standby while connections are open, as when a pooler leads to a
// server that has none, a store that must lose nothing is away at once.
func TestPostgresCommitsCeaseToWait(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	synchronous(t, server)
	lossless := func(o *postgres.Options) { o.Lossless = true }
	s, other := openPostgres(t, server.URL(), lossless), openPostgres(t, server.URL(), lossless)
	create(t, s)
	must.Get(allocate(t.Context(), s))(t)
	fence := fencedBy(t, other).Current
	must.Do(t, s.CreateFenced(t.Context(), ledgerDocument("invoice", 1), fence))
	names := server.Query("SHOW synchronous_standby_names")
	server.Query("ALTER SYSTEM SET synchronous_standby_names = ''")
	server.Reload()
	wants(t, other.UpdateFenced(t.Context(), ledgerDocument("invoice", 2), fence), persist.ErrUnavailable)
	if other.CreateFenced(t.Context(), ledgerDocument("order", 1), fence) == nil {
		t.Error("the ledger is on one server only")
	}
	lease := persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5), Source: fence}
	made, err := s.Slots().Swap(t.Context(), registry, lease)
	if err == nil || !strings.Contains(err.Error(), "synchronous_standby_names is empty") {
		t.Errorf("%t, %v: the lease is on one server only", made, err)
	}
	server.Query("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
	server.Reload()
	awaitQuery(t, server, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')", "1")
	must.Report(t, must.Err(allocate(t.Context(), s)))
	server.Query("ALTER SYSTEM SET synchronous_standby_names = ''")
	server.Reload()
	for range 2 {
		if r, err := allocate(t.Context(), s); err == nil || !strings.Contains(err.Error(), "synchronous_standby_names is empty") {
			t.Errorf("%+v, %v: the range is on one server only", r, err)
		}
	}
	server.Query("ALTER SYSTEM SET synchronous_standby_names = '" + names + "'")
	server.Reload()
	awaitQuery(t, server, "SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')", "1")
	must.Report(t, must.Err(allocate(t.Context(), s)))
	must.Report(t, s.UpdateFenced(t.Context(), ledgerDocument("invoice", 2), fence)) // it is still the first one
}
