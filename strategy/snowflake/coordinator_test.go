package snowflake

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

// The store names a registry in a coordinator. One in another coordinator counts only for who has used
// the one before, or by the word of an operator; one at another place not even then.
func TestRegistryInACoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		settings.Registry = registryCoord
		l, _ := newLayout(&settings)
		store := memory.New(time.Now)
		// process returns a process with a coordinator at a place. Its look prepares the registry.
		process := func(documents coordination.Documents, place string) (look func() (persist.SlotTable, error), say func() error) {
			env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Coordinator: documents, CoordinatorPlace: place, Cluster: strings.Repeat("c3", 16), Addr: "127.0.0.1:80"}
			slots := must.Get(openRegistry(env, &settings, false))(t)
			names := newNaming(env, &settings, registryName(l), slots)
			r := &slotRegistry{Member: newMember(env, &settings, l), slots: slots, env: &environment{env}, name: registryName(l), naming: names}
			return func() (persist.SlotTable, error) { return r.prepared(t.Context()) }, func() error {
				m := newMember(env, &settings, l)
				_, err := restore(t.Context(), &m, names, store.Slots())
				return err
			}
		}
		one, two := memory.New(time.Now), memory.New(time.Now)
		runs, _ := process(one.Documents(), "consul, keys a")
		first := must.Get(runs())(t)
		if wait := first.Set.Floor - first.Now; wait < 9000 {
			t.Errorf("the new registry has a floor %d ms ahead", wait)
		}
		starts, say := process(two.Documents(), "consul, keys a")
		must.Is(t, must.Err(starts()), errUnnamed, "another coordinator")
		must.Equal(t, strings.Contains(must.Err(starts()).Error(), "the coordinator consul, keys a, which has the ID "+first.Source), true, must.Err(starts()).Error())
		other, _ := process(one.Documents(), "consul, keys b")
		must.Get(other())(t) // the same registry, which has moved with its keys

		time.Sleep(time.Minute)
		must.Do(t, say())
		second := must.Get(starts())(t)
		if second.Set.Floor < time.Now().UnixMilli()+9000 {
			t.Error("the registry that an operator named has no floor above what was granted")
		}
		must.Is(t, must.Err(runs()), errUnnamed, "the former coordinator")
	})
}
