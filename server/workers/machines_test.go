package workers

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
)

const guarded = 10 * time.Second

// machines makes a pool, and waits until machine IDs can be leased.
func machines(t *testing.T, w *Workers, bits int, ttl time.Duration) {
	t.Helper()
	pool(t, w, "shop", bits, ttl)
	time.Sleep(ttl + 2*maxSkew + 2*time.Second)
}

// distributed is a machine ID and the first time that may be used with it.
type distributed struct {
	id    int64
	begin time.Time
}

func distribute(ctx context.Context, w *Workers, instance string) (d distributed, err error) {
	d.id, d.begin, err = w.Distribute(ctx, "shop", 1, instance, guarded)
	return d, err
}

// A machine ID is guarded at any node, and distributed again to the instance that has it. It is lost at
// the end of its lease, and what the next program gets begins above.
func TestMachineLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, b := node(store, 0), node(store, 0)
		pool(t, a, "shop", 1, guarded)
		wants(t, must.Err(distribute(t.Context(), a, "one")), seqd.CodeNoMachineID, "can be leased")
		machines(t, a, 1, guarded)
		began := time.Now()
		one := must.Get(distribute(t.Context(), a, "one"))(t)
		time.Sleep(guarded - time.Millisecond)
		must.Do(t, b.Guard(t.Context(), "shop", "one", guarded))
		time.Sleep(guarded - time.Millisecond)
		again := must.Get(distribute(t.Context(), b, "one"))(t)
		must.Equal(t, again.id, one.id, "the machine ID of the instance")
		if again.begin.Before(began) || !again.begin.Before(time.Now()) {
			t.Errorf("it began %v, and begins %v", began, again.begin)
		}
		two := must.Get(distribute(t.Context(), b, "two"))(t)
		if err := must.Err(distribute(t.Context(), a, "three")); !errors.Is(err, admin.ErrAllHeld) {
			t.Errorf("all are held: %v", err)
		}
		must.Equal(t, two.id, 1-one.id, "the other machine ID")
		end := time.Now().Add(guarded)
		time.Sleep(guarded + time.Millisecond)
		wants(t, a.Guard(t.Context(), "shop", "one", guarded), seqd.CodeLeaseLost)
		wants(t, a.Guard(t.Context(), "shop", "nobody", guarded), seqd.CodeLeaseLost)
		wants(t, must.Err(distribute(t.Context(), a, "one")), seqd.CodeNoMachineID, "can be leased") // numbers of seconds
		time.Sleep(time.Second)
		again = must.Get(distribute(t.Context(), a, "one"))(t)
		must.Equal(t, again, distributed{one.id, end.Add(time.Millisecond).Truncate(time.Millisecond)}, "an instance gets its machine ID again, with times above")
	})
}

// What a request says must fit the pool.
func TestMachineRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := node(memory.New(time.Now), 0)
		_, _, err := w.Distribute(t.Context(), "shop", 1, "one", guarded)
		wants(t, err, seqd.CodeUnknownPool)
		wants(t, w.Guard(t.Context(), "shop", "one", guarded), seqd.CodeUnknownPool)
		machines(t, w, 4, guarded)
		_, _, err = w.Distribute(t.Context(), "shop", 10, "one", guarded)
		wants(t, err, seqd.CodeInvalidRequest, "machineBit is 10", "shop is 4")
		_, _, err = w.Distribute(t.Context(), "shop", 4, "one", time.Minute)
		wants(t, err, seqd.CodeInvalidRequest, "1m", "10s", "raise the ttl")
		_, _, err = w.Distribute(t.Context(), "shop", 4, "", guarded)
		wants(t, err, seqd.CodeInvalidRequest, "instance")
		_, _, err = w.Distribute(t.Context(), "shop", 4, "one", guarded)
		must.Do(t, err)
		pool(t, w, "shop", 4, time.Second)
		time.Sleep(guarded / 2)
		must.Do(t, w.Guard(t.Context(), "shop", "one", guarded)) // a client goes on as it began
		wants(t, w.Guard(t.Context(), "shop", "one", time.Minute), seqd.CodeInvalidRequest, "raise the ttl")
		time.Sleep(guarded - time.Millisecond)
		must.Do(t, w.Guard(t.Context(), "shop", "one", guarded))
	})
}

// meeting is a store in which something happens before a swap, once.
type meeting struct {
	persist.Store
	persist.SlotStore
	once sync.Once
	meet func()
}

func (m *meeting) Slots() persist.SlotStore { return m }

func (m *meeting) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	m.once.Do(m.meet)
	return m.SlotStore.Swap(ctx, registry, swap)
}

// named returns an instance that gets this one of two machine IDs if it is free.
func named(prefix string, id uint64) string {
	for i := 0; ; i++ {
		name, hash := fmt.Sprint(prefix, i), fnv.New64a()
		_, _ = hash.Write([]byte(name))
		if hash.Sum64()%2 == id {
			return name
		}
	}
}

// An instance that asks two nodes at once gets one machine ID, although the second node chooses another
// one than the first.
func TestMachineAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		b := node(store, 0)
		machines(t, b, 1, guarded)
		must.Equal(t, must.Get(distribute(t.Context(), b, named("other", 1)))(t).id, 1, "the machine ID of another instance")
		time.Sleep(guarded - 500*time.Millisecond)
		one, second := named("one", 1), distributed{}
		a := node(&meeting{Store: store, SlotStore: store.Slots(), meet: func() { // a has chosen 0
			time.Sleep(2 * time.Second)
			second = must.Get(distribute(t.Context(), b, one))(t)
		}}, 0)
		must.Equal(t, must.Get(distribute(t.Context(), a, one))(t).id, 1, "the machine ID of the instance")
		must.Equal(t, second.id, 1, "what the second node chose")
	})
}

// CosId's clients and others never lease from one pool, whoever comes first, and at the same time too.
func TestMachinesAreUnmixed(t *testing.T) {
	type ask func(*Workers) error
	cosid := ask(func(w *Workers) error { return must.Err(distribute(context.Background(), w, named("one", 0))) })
	lease := ask(func(w *Workers) error { return must.Err(w.Lease(context.Background(), "shop", named("one", 1), 0)) })
	for name, order := range map[string][2]ask{"CosId's first": {cosid, lease}, "others first": {lease, cosid}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New(time.Now)
				b := node(store, 0)
				machines(t, b, 1, guarded)
				a := node(&meeting{Store: store, SlotStore: store.Slots(), meet: func() { must.Do(t, order[0](b)) }}, 0)
				for _, w := range []*Workers{a, b} {
					wants(t, order[1](w), seqd.CodeConflict, "another layout")
				}
				time.Sleep(guarded + 2*time.Second) // the lease has ended
				wants(t, order[1](b), seqd.CodeConflict, "another layout")
				must.Do(t, order[0](b))
			})
		})
	}
}

// In a store that can lose writes a lease reaches no further than what no failover loses.
func TestMachinesOfLossyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := storesim.New(storesim.Options{Mode: storesim.Lossy})
		defer c.Close()
		w := node(must.Get(c.View(nil).Open(t.Context(), storesim.Client{Now: time.Now, Timeout: time.Second}))(t), 0)
		pool(t, w, "shop", 1, time.Minute)
		time.Sleep(70 * time.Second)
		_, _, err := w.Distribute(t.Context(), "shop", 1, "one", time.Minute)
		wants(t, err, seqd.CodeNoMachineID, "two minutes")
		time.Sleep(2 * time.Minute)
		_, _, err = w.Distribute(t.Context(), "shop", 1, "one", time.Minute)
		must.Do(t, err)
		pool(t, w, "shop", 1, 2*time.Minute)
		must.Do(t, w.Guard(t.Context(), "shop", "one", time.Minute)) // a changed ttl takes nothing from it
		wants(t, w.Guard(t.Context(), "shop", "one", 2*time.Minute), seqd.CodeNoMachineID, "two minutes")
	})
}

// A store was put back to a copy in which an instance has another machine ID than it got later, on a
// server whose clock is behind. The guard of the instance does not extend that lease.
func TestMachinePutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		w := node(store, 0)
		machines(t, w, 1, guarded)
		before := must.Get(distribute(t.Context(), w, "one"))(t)
		backup := store.Copy(func() time.Time { return time.Now().Add(-maxSkew) })
		time.Sleep(guarded + 1001*time.Millisecond)
		for id := int64(-1); id != before.id; {
			id = must.Get(distribute(t.Context(), w, fmt.Sprint("other ", id)))(t).id
		}
		restored := node(backup, 0)
		must.Do(t, Restored(t.Context(), backup, w.opts.Cluster, func(string, string) {}))
		wants(t, restored.Guard(t.Context(), "shop", "one", guarded), seqd.CodeLeaseLost)
		holders, _, err := restored.Holders(t.Context(), "shop")
		must.Do(t, err)
		if slices.ContainsFunc(holders, func(h admin.WorkerHolder) bool { return h.Until.After(time.Now()) }) {
			t.Errorf("%+v", holders)
		}
	})
}
