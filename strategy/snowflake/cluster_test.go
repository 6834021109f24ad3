package snowflake

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// Tests of registries of other clusters.

// foreign gives a registry the bootstrap part of another cluster.
func foreign(t *testing.T, s *Strategy, other persist.SlotStore) {
	t.Helper()
	set := persist.SlotSet{Incarnation: machineid.Drawn(), Layout: s.held().registry.Layout, Ahead: 86_400_000, Floor: 1, Cluster: strings.Repeat("f", 32)}
	if ok, err := other.Swap(t.Context(), s.held().registry.name, persist.SlotSwap{NewSet: &set}); err != nil || !ok {
		t.Fatal(ok, err)
	}
}

// TestRegistryOfAnotherCluster checks that a node that finds another cluster's registry takes
// nothing from it and changes nothing in it.
func TestRegistryOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, other := newRegistry(true), newRegistry(true)
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir = time.Minute, dir }
		s := instance(t, mine, "1", offline)
		_ = s.Init(t.Context(), true)
		time.Sleep(100500 * time.Millisecond)
		one(t, s)
		foreign(t, s, other)
		before := slots(t, s, other)
		crash(s)
		again := instance(t, other, "1", offline)
		closes(t, again)
		if err := again.Init(t.Context(), false); seqd.CodeOf(err) != seqd.CodeConflict || !strings.Contains(err.Error(), "another cluster") {
			t.Errorf("got %v", err)
		}
		time.Sleep(10 * time.Second)
		cannot(t, again, seqd.CodeNoMachineID)
		if after := slots(t, s, other); *after.Set != *before.Set || len(after.Slots) > 0 {
			t.Errorf("the other cluster's registry was changed: %+v, %+v", after.Set, after.Slots)
		}
	})
}

// TestReservationOfAnotherCluster checks that a node does not write over the reservation of another
// cluster's node.
func TestReservationOfAnotherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		offline := func(s *Settings) { s.OfflineStart, s.StateDir = time.Minute, dir }
		s := instance(t, newRegistry(true), "1", offline)
		_ = s.Init(t.Context(), true)
		crash(s)
		env := s.held().env.Env
		env.Store, env.Cluster = newRegistry(true), strings.Repeat("f", 32)
		other := must.Get(New(env, seqd.BizType{Name: "user", Strategy: Name, Settings: s.held().settings}))(t)
		closes(t, other)
		if err := other.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeConflict || other.machineID() >= 0 {
			t.Errorf("machine ID %d, %v", other.machineID(), err)
		}
	})
}

// TestRegistryBecomesAnotherClusters checks the same while the node runs.
func TestRegistryBecomesAnotherClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, other := newRegistry(true), memory.New(time.Now)
		s := instance(t, r, "1", nil)
		closes(t, s)
		_ = s.Init(t.Context(), true)
		time.Sleep(20 * time.Second)
		one(t, s)
		foreign(t, s, other.Slots())
		r.other.Store(other)
		time.Sleep(1500 * time.Millisecond)
		if d := s.Degraded(); d == nil || d.Code != seqd.CodeConflict {
			t.Errorf("degraded: %v", d)
		}
		time.Sleep(5 * time.Second)
		cannot(t, s, seqd.CodeNoMachineID)
		must.Equal(t, slots(t, s, r).Set.Floor, 1, "the time at which the other cluster's nodes that start now begin to issue")
	})
}
