package store

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/workers"
)

// Programs lease worker IDs on every store, at two nodes if it is shared.

func TestWorkersOnPostgres(t *testing.T) { twoOnPostgres(t, leasesWorkers) }
func TestWorkersOnMySQL(t *testing.T)    { twoOnMySQL(t, leasesWorkers) }
func TestWorkersOnMongo(t *testing.T)    { twoOnMongo(t, leasesWorkers) }

func TestWorkersOnBolt(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	s := must.Get(bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(t)
	t.Cleanup(func() { must.Do(t, s.Close()) })
	leasesWorkers(t, s, s)
}

func TestWorkersInMemory(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	s := memory.New(time.Now)
	leasesWorkers(t, s, s)
}

func leasesWorkers(t *testing.T, one, two persist.Store) {
	t.Helper()
	const instances, bits = 200, 8
	ctx := t.Context()
	node := func(s persist.Store) *workers.Workers {
		return workers.New(workers.Options{
			Documents: s.Documents(), Slots: s.Slots(), Cluster: strings.Repeat("c", 32), Now: time.Now,
			Stopping: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
		})
	}
	nodes := []*workers.Workers{node(one), node(two)}
	a, b := nodes[0], nodes[1]
	must.Get(a.SetPool(ctx, "shop", func(p *admin.WorkerPool) error { p.BitsMachine, p.TTL = bits, time.Hour; return nil }))(t)
	doc := must.Get(one.Documents().Read(ctx, "workerpool", "shop"))(t)
	doc.Revision, doc.Timestamp = doc.Revision+1, doc.Timestamp-time.Hour.Milliseconds() // so old that no failover loses it
	must.Do(t, one.Documents().Update(ctx, doc))
	lost := func(err error) {
		t.Helper()
		if seqd.CodeOf(err) != seqd.CodeLeaseLost {
			t.Errorf("%v; want %s", err, seqd.CodeLeaseLost)
		}
	}

	first := must.Get(a.Lease(ctx, "shop", "first", 0))(t)
	time.Sleep(5 * time.Second) // the floor of the new registry is 4 s further than leases reach
	renewed := must.Get(b.Renew(ctx, "shop", first.Lease))(t)
	if renewed.ID != first.ID || !renewed.After.Equal(first.After) || !renewed.Until.After(renewed.After) {
		t.Errorf("worker ID %d was renewed from %v to %v: %+v", first.ID, first.After, renewed.Until, renewed)
	}

	var mu sync.Mutex
	held := map[int64]string{first.ID: "first"}
	var programs sync.WaitGroup
	for i := range instances {
		name := fmt.Sprint("program ", i)
		programs.Go(func() {
			l, err := nodes[i%2].Lease(ctx, "shop", name, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			if other, taken := held[l.ID]; err != nil || taken || l.After.Before(first.After) {
				t.Errorf("%s has worker ID %d above %v, held by %q: %v", name, l.ID, l.After, other, err)
			}
			held[l.ID] = name
		})
	}
	programs.Wait()
	for i := len(held); i < 1<<bits; i++ {
		must.Get(b.Lease(ctx, "shop", fmt.Sprint("filler ", i), 0))(t)
	}
	if err := must.Err(a.Lease(ctx, "shop", "none", 0)); seqd.CodeOf(err) != seqd.CodeNoMachineID {
		t.Errorf("all worker IDs are held: %v", err)
	}

	last := renewed.After.Add(time.Millisecond)
	must.Do(t, a.Release(ctx, "shop", renewed.Lease, last))
	lost(b.Release(ctx, "shop", renewed.Lease, last))
	next := must.Get(b.Lease(ctx, "shop", "next", 0))(t)
	if next.ID != first.ID || !next.After.Equal(last) {
		t.Errorf("after the release worker ID %d begins at %v; want %d at %v", next.ID, next.After, first.ID, last)
	}
	lost(must.Err(a.Renew(ctx, "shop", renewed.Lease)))

	told := 0
	must.Do(t, workers.Restored(ctx, one, strings.Repeat("c", 32), func(pool, _ string) { told++ }))
	must.Equal(t, 1, told, "pools")
	must.Do(t, b.Release(ctx, "shop", next.Lease, next.Until))
	if again := must.Get(a.Lease(ctx, "shop", "again", 0))(t); !again.After.After(next.Until.Add(3 * time.Second)) {
		t.Errorf("after a restore a lease begins at %v, and one ended at %v", again.After, next.Until)
	}
	distributes(t, one, nodes)
}

// distributes leases machine IDs to clients of CosId. Each asks both nodes at once, and gets one.
func distributes(t *testing.T, store persist.Store, nodes []*workers.Workers) {
	t.Helper()
	const instances, bits, guard, registry = 12, 7, 20 * time.Second, "workers cosid"
	ctx := t.Context()
	must.Get(nodes[0].SetPool(ctx, "cosid", func(p *admin.WorkerPool) error { p.BitsMachine = bits; return nil }))(t)
	table := must.Get(store.Slots().Look(ctx, registry))(t)
	set := *table.Set
	set.Floor = table.Now - time.Hour.Milliseconds() // nothing of the pool was lost
	must.Equal(t, true, must.Get(store.Slots().Swap(ctx, registry, persist.SlotSwap{OldSet: table.Set, NewSet: &set, Source: table.Source}))(t))

	var mu sync.Mutex
	ids := make(map[string][]int64)
	var clients sync.WaitGroup
	began := time.Now()
	for i := range 2 * instances {
		name := fmt.Sprint("client ", i/2)
		clients.Go(func() {
			id, begin, err := nodes[i%2].Distribute(ctx, "cosid", bits, name, guard)
			for err != nil && seqd.AsError(err).RetryAfter > 0 { // the store is slow
				time.Sleep(seqd.AsError(err).RetryAfter)
				id, begin, err = nodes[i%2].Distribute(ctx, "cosid", bits, name, guard)
			}
			if err != nil || begin.UnixMilli() <= set.Floor {
				t.Errorf("%s begins at %v: %v", name, begin, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[name] = append(ids[name], id)
		})
	}
	clients.Wait()
	if time.Since(began) > guard/2 {
		t.Log("the store is too slow to tell: the first leases may have ended")
		return
	}
	held := make(map[int64]string)
	for name, both := range ids {
		if both[0] != both[1] || held[both[0]] != "" {
			t.Errorf("%s got the machine IDs %v, and %q has the first of them", name, both, held[both[0]])
		}
		held[both[0]] = name
		must.Do(t, nodes[1].Guard(ctx, "cosid", name, guard))
	}
	if err := must.Err(nodes[0].Lease(ctx, "cosid", "none", 0)); seqd.CodeOf(err) != seqd.CodeConflict {
		t.Errorf("a program leases from a pool of CosId's clients: %v", err)
	}
}
