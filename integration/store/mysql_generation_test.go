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
	"github.com/seqd/seqd/persist/mysql"
)

// become restarts a server as another one with the same data: a replica that took over.
func become(server *testenv.MariaDB, id int) {
	server.Kill()
	server.Configure("server-id=" + strconv.Itoa(id))
	server.Start()
}

// smallGap is a gap that no more than a lost range fits into, so that one gap too few repeats it.
const smallGap = 30

// few ranges are as many as fit into the gap.
const few = smallGap / 10

// takeRanges allocates ranges of 10 numbers, and fails if one was allocated before.
func takeRanges(t *testing.T, s *mysql.Store, ranges int, taken map[int64]string, who string) {
	t.Helper()
	for range ranges {
		r := must.Get(s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, FailoverGap: smallGap}))(t)
		for n := r.First; n <= r.Last; n++ {
			if other, known := taken[n]; known {
				t.Fatalf("%d was issued by %s and by %s", n, other, who)
			}
			taken[n] = who
		}
	}
}

// Servers take turns, and none has a number that the one before issued. What it has is that the one
// before took over.
func TestMySQLFailoversThatLoseEverything(t *testing.T) {
	longtest.Only(t)
	for name, turns := range map[string][]int{
		"there and back": {1, 2, 1}, "on and on": {1, 2, 3}, "to and fro": {1, 2, 1, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartMariaDB(t, "server-id=1")
			o := newMySQL(t, server)
			taken := make(map[int64]string)
			create(t, openMySQL(t, o))
			takeRanges(t, openMySQL(t, o), few, taken, "turn 1")
			for i, id := range turns[1:] {
				who := fmt.Sprintf("turn %d", i+2)
				become(server, id)
				s := openMySQL(t, o)
				fence, err := s.Fence(t.Context())
				if want := fmt.Sprintf("/%d", i+2); err != nil || !strings.HasSuffix(fence.Current, want) || !fence.FailedOver() {
					t.Errorf("%s: %+v, %v", who, fence, err)
				}
				if i+2 == len(turns) { // from below to above all that was lost
					takeRanges(t, s, 10*few, taken, who)
					return
				}
				server.Stop()
				received := server.Snapshot()
				server.Start()
				awaitStore(t, s)
				takeRanges(t, s, few, taken, who)
				issued := takenMySQL(t, o)
				server.Kill()
				server.RestoreSnapshot(received)
				server.Start()
				if takenMySQL(t, o) == issued {
					t.Fatal("the restore lost nothing: this tests nothing")
				}
			}
		})
	}
}

// takenMySQL returns the highest number that was allocated.
func takenMySQL(t *testing.T, o mysql.Options) string {
	t.Helper()
	return askMySQL(t, connectMySQL(t, o.DSN), "SELECT highest FROM seqd_counters WHERE name = 'order'")
}

// After a failover that loses nothing a counter skips one gap, once, also if there were others
// before which it has skipped gaps for.
func TestMySQLSkipsOneGap(t *testing.T) {
	server := testenv.StartMariaDB(t, "server-id=1")
	o := newMySQL(t, server)
	create(t, openMySQL(t, o))
	want := int64(1)
	for _, id := range []int{1, 2, 2, 1, 3} {
		before := server.Query("SELECT @@GLOBAL.server_id")
		become(server, id)
		s := openMySQL(t, o)
		if before != strconv.Itoa(id) {
			want += smallGap
		}
		for range 2 {
			r, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, FailoverGap: smallGap})
			if err != nil || r.First != want {
				t.Fatalf("server %d: %+v, %v, want it to begin with %d", id, r, err, want)
			}
			want += 10
		}
	}
}

// Nodes that find a new server at the same time put it on record once.
func TestMySQLOnRecordOnce(t *testing.T) {
	server := testenv.StartMariaDB(t, "server-id=1")
	o := newMySQL(t, server)
	create(t, openMySQL(t, o))
	become(server, 2)
	const nodes = 10
	stranger, err := connectMySQL(t, o.DSN).BeginTx(t.Context(), nil)
	must.Do(t, err)
	_, err = stranger.ExecContext(t.Context(), "SELECT writer FROM seqd_schema FOR UPDATE")
	must.Do(t, err)
	o.Timeout = 30 * time.Second
	fences := make([]string, nodes)
	var work sync.WaitGroup
	for i := range nodes {
		work.Go(func() {
			s, err := tryMySQL(t, o, nil)
			if err != nil {
				t.Error(err)
				return
			}
			fence, err := s.Fence(t.Context())
			if fences[i] = fence.Current; err != nil {
				t.Error(err)
			}
		})
	}
	// All of them have seen that another server is on record, and wait for the row.
	awaitMySQL(t, server, "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'UPDATE seqd_schema%'", strconv.Itoa(nodes))
	must.Do(t, stranger.Rollback())
	work.Wait()
	for _, fence := range fences {
		if fence != fences[0] || !strings.HasPrefix(fence, "2/") || !strings.HasSuffix(fence, "/2") {
			t.Errorf("the fences are %q", fences)
			break
		}
	}
}

// A primary became a replica of another server and takes the writes again, and connections of
// before are still open. What is sent on them changes nothing, and they are closed: a new one puts
// the server on record.
func TestMySQLBackOnOldConnections(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartMySQL(t)
	o := newMySQL(t, server)
	o.MaxConnections = 1
	s := openMySQL(t, o)
	ctx, db := t.Context(), connectMySQL(t, o.DSN)
	create(t, s)
	swapped := func(ctx context.Context) error {
		made, err := s.Slots().Swap(ctx, registry, persist.SlotSwap{NewSet: &slotSet})
		if made {
			err = errors.New("it was made")
		}
		return err
	}
	generation := 1
	for what, send := range map[string]func(context.Context) error{
		"allocate": func(ctx context.Context) error { _, err := allocate(ctx, s); return err },
		"read":     func(ctx context.Context) error { _, err := s.Counters().Read(ctx, "order"); return err },
		"epoch":    func(ctx context.Context) error { _, err := s.Counters().Epoch(ctx, "order"); return err },
		"missing":  func(ctx context.Context) error { _, err := s.Counters().Read(ctx, "none"); return err },
		"create": func(ctx context.Context) error {
			return s.Counters().Create(ctx, persist.Counter{BizTag: "new", Step: 1})
		},
		"create lost": func(ctx context.Context) error { return s.CreateLost(ctx, persist.Counter{BizTag: "new", Step: 1}) },
		"give back": func(ctx context.Context) error {
			_, err := s.Counters().GiveBack(ctx, "order", persist.Range{First: 1, Last: 10})
			return err
		},
		"fence": func(ctx context.Context) error { _, err := s.Fence(ctx); return err },
		"look":  func(ctx context.Context) error { _, err := s.Slots().Look(ctx, registry); return err },
		"swap":  swapped,
	} {
		if _, err := s.Fence(ctx); err != nil { // on the connection that will be an old one
			t.Fatal(err)
		}
		execMySQL(t, db, "UPDATE seqd_schema SET writer = 'another', generation = generation + 1")
		const all = "SELECT CONCAT((SELECT GROUP_CONCAT(name, highest, epoch, fence) FROM seqd_counters), ' ', (SELECT count(*) FROM seqd_slots))"
		before := askMySQL(t, db, all)
		must.Is(t, send(ctx), persist.ErrUnavailable, "%s", what)
		if after := askMySQL(t, db, all); after != before {
			t.Errorf("%s: %s became %s", what, before, after)
		}
		generation += 2
		fence, err := s.Fence(ctx)
		if want := fmt.Sprintf("/%d", generation); err != nil || !strings.HasSuffix(fence.Current, want) {
			t.Errorf("after %s: %+v, %v, want %s", what, fence, err, want)
		}
	}
	fence, err := s.Fence(ctx)
	must.Do(t, err)
	execMySQL(t, db, "UPDATE seqd_schema SET writer = 'another', generation = generation + 1")
	wants(t, s.ConfirmFence(ctx, fence.Current), persist.ErrConflict)
}

// Whoever only looks sees the fence that the server will have, and puts nobody on record.
func TestMySQLLooksAtNewServer(t *testing.T) {
	longtest.Only(t)
	o := newMySQL(t, testenv.StartMySQL(t))
	create(t, openMySQL(t, o))
	db := connectMySQL(t, o.DSN)
	execMySQL(t, db, "UPDATE seqd_schema SET writer = 'another', generation = 7")
	looking, err := tryMySQL(t, o, func(o *mysql.Options) { o.ReadOnly = true })
	must.Do(t, err)
	seen, err := looking.Fence(t.Context())
	must.Do(t, err)
	if c, err := looking.Counters().Read(t.Context(), "order"); err != nil || !c.FailedOver {
		t.Errorf("the counter is %+v, %v", c, err)
	}
	if writer := askMySQL(t, db, "SELECT CONCAT(writer, '/', generation) FROM seqd_schema"); writer != "another/7" {
		t.Errorf("%s is on record", writer)
	}
	if fence, err := openMySQL(t, o).Fence(t.Context()); err != nil || fence != seen || !strings.HasSuffix(seen.Current, "/8") {
		t.Errorf("it saw %+v; then it is %+v, %v", seen, fence, err)
	}
	if c, err := openMySQL(t, o).Counters().Read(t.Context(), "order"); err != nil || c.Failovers != 7 {
		t.Errorf("after seven failovers the counter is %+v, %v", c, err)
	}
}

// If a failover loses nothing, the fence stays, and nobody is put on record: several servers may
// take writes at once.
func TestMySQLLosslessIgnoresRecord(t *testing.T) {
	longtest.Only(t)
	primary, _ := startPair(t)
	o := newMySQL(t, primary)
	o.Lossless, o.Timeout = true, 20*time.Second
	s := openMySQL(t, o)
	db := connectMySQL(t, o.DSN)
	create(t, s)
	fence, err := s.Fence(t.Context())
	must.Do(t, err)
	must.Do(t, s.CreateFenced(t.Context(), ledgerDocument("invoice", 1), fence.Current))
	execMySQL(t, db, "UPDATE seqd_schema SET writer = 'another', generation = 7")
	must.Do(t, s.UpdateFenced(t.Context(), ledgerDocument("invoice", 2), fence.Current))
	must.Do(t, s.CreateFenced(t.Context(), ledgerDocument("order", 1), fence.Current))
	for want := int64(1); want < 30; want += 10 {
		r, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, FailoverGap: smallGap})
		if err != nil || r.First != want {
			t.Errorf("%+v, %v, want it to begin with %d", r, err, want)
		}
	}
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "new", Step: 10}))
	if fences := askMySQL(t, db, "SELECT GROUP_CONCAT(DISTINCT SUBSTRING_INDEX(fence, '/', -1)) FROM seqd_counters"); fences != "1" {
		t.Errorf("counters were written in the generations %s", fences)
	}
	if writer := askMySQL(t, db, "SELECT CONCAT(writer, '/', generation) FROM seqd_schema"); writer != "another/7" {
		t.Errorf("%s is on record", writer)
	}
}

// As TestPostgresLosslessAfterALoss. The counter lacks nothing here, and another server wrote it.
func TestMySQLLosslessAfterALoss(t *testing.T) {
	longtest.Only(t)
	primary, _ := startPair(t)
	o := newMySQL(t, primary)
	losesRange(t, openMySQL(t, o), func() {})
	db := connectMySQL(t, o.DSN)
	failOver := func(generation string) {
		execMySQL(t, db, "UPDATE seqd_schema SET writer = 'another', generation = "+generation)
	}
	failOver("7")
	o.Lossless, o.Timeout = true, 20*time.Second
	goesOnAbove(t, openMySQL(t, o))
	failOver("9")
	goesOnAtOnce(t, openMySQL(t, o))
	o.Lossless = false
	if fence, err := openMySQL(t, o).Fence(t.Context()); err != nil || !fence.FailedOver() {
		t.Errorf("told that failovers lose something, it is %+v, %v", fence, err)
	}
}

// A failover lost a range, and before a node saw the server that took over, nodes were told that
// none loses anything. Then the former server, whose fence was confirmed, takes over again: what was
// lost is noticed nevertheless. From then on it does not matter which server answers.
func TestMySQLLosslessThereAndBack(t *testing.T) {
	t.Parallel()
	primary, _ := startPair(t)
	o := newMySQL(t, primary)
	losesRange(t, openMySQL(t, o), func() {})
	o.Lossless, o.Timeout = true, 20*time.Second
	server := primary.Query("SELECT @@GLOBAL.server_id")
	identify := func(id string) { primary.Query("SET GLOBAL server_id = " + id) }
	var fence persist.Fence
	for _, id := range []string{"77", server} {
		identify(id)
		s := openMySQL(t, o)
		fence = must.Get(s.Fence(t.Context()))(t)
		if again := must.Get(s.Fence(t.Context()))(t); !fence.FailedOver() || again != fence {
			t.Errorf("server %s: the fence is %+v, and then %+v", id, fence, again)
		}
	}
	s := openMySQL(t, o)
	identify("78")
	goesOnAbove(t, s)
	identify("77")
	goesOnAtOnce(t, s)
	if now := must.Get(s.Fence(t.Context()))(t); now.Current != fence.Current || !strings.HasPrefix(now.Current, "77/") {
		t.Errorf("the fence was %+v and is %+v", fence, now)
	}
}

// As TestPostgresLossyBesideLossless.
func TestMySQLLossyBesideLossless(t *testing.T) {
	t.Parallel()
	primary, _ := startPair(t)
	o := newMySQL(t, primary)
	o.Timeout = 20 * time.Second
	lossy := openMySQL(t, o)
	must.Do(t, lossy.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
	must.Get(allocate(t.Context(), lossy))(t)
	o.Lossless, o.Beside = true, true
	command := openMySQL(t, o)
	must.Do(t, command.ConfirmFence(t.Context(), must.Get(command.Fence(t.Context()))(t).Current))
	must.Get(allocate(t.Context(), lossy))(t)
	o.Beside = false
	must.Get(openMySQL(t, o).Fence(t.Context()))(t)
	must.Do(t, command.ConfirmFence(t.Context(), must.Get(command.Fence(t.Context()))(t).Current)) // keeps the mark
	_, err := allocate(t.Context(), lossy)
	stopped(t, lossy, err)
	o.Lossless, o.ReadOnly = false, true
	looked(t, openMySQL(t, o))
	o.ReadOnly = false
	again := openMySQL(t, o)
	must.Do(t, again.ConfirmFence(t.Context(), must.Get(again.Fence(t.Context()))(t).Current))
	must.Get(allocate(t.Context(), again))(t)
	must.Get(allocate(t.Context(), lossy))(t)
}

// awaitMySQL waits until a query has a result.
func awaitMySQL(t *testing.T, server *testenv.MariaDB, query, want string) {
	t.Helper()
	await.True(t, query+" is "+want, func() bool { return server.Query(query) == want })
}
