package store

import (
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/postgres"
)

// fencedStore is a store whose server can lose writes.
type fencedStore interface {
	persist.Store
	persist.Fenced
}

// failovers open a store whose server fails over when it is told to.
var failovers = map[string]func(t *testing.T) (s fencedStore, failOver func()){
	"PostgreSQL": func(t *testing.T) (fencedStore, func()) {
		server := testenv.StartPostgres(t)
		standby := testenv.StartStandby(t, server)
		s := openPostgres(t, testenv.PostgresURL(server.Addr(), standby.Addr()), func(o *postgres.Options) { o.Timeout = 5 * time.Second })
		return s, func() {
			server.AwaitStandby(standby)
			server.Kill()
			standby.Promote()
		}
	},
	"MariaDB": func(t *testing.T) (fencedStore, func()) {
		server := testenv.StartMariaDB(t, "server-id=1")
		return openMySQL(t, newMySQL(t, server)), func() { become(server, 2) }
	},
}

// A new registry in a new store has lost nothing. After a failover it may have, even if it is empty
// and an operator has confirmed the failover.
func TestLagOfANewRegistry(t *testing.T) {
	longtest.Only(t)
	for kind, start := range failovers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, failOver := start(t)
			hasLag := func(name string, want bool, ids ...int64) persist.SlotTable {
				t.Helper()
				table, err := s.Slots().Look(t.Context(), name, ids...)
				if err != nil || table.Lag > 0 != want || table.Source == "" {
					t.Errorf("%s: %+v, %v", name, table, err)
				}
				return table
			}
			table := hasLag("used", false)
			made, err := s.Slots().Swap(t.Context(), "used", persist.SlotSwap{NewSet: &slotSet, NewSlot: leased(5), Source: table.Source})
			if err != nil || !made {
				t.Fatal(made, err)
			}
			hasLag("used", true)
			hasLag("used", true, 7)
			must.Do(t, s.Slots().Drop(t.Context(), "used"))
			hasLag("used", true)
			hasLag("new", false)

			failOver()
			awaitStore(t, s)
			hasLag("new", true)
			fence, err := s.Fence(t.Context())
			if err != nil || !fence.FailedOver() {
				t.Fatalf("%+v, %v", fence, err)
			}
			must.Do(t, s.ConfirmFence(t.Context(), fence.Current))
			hasLag("new", true)
		})
	}
}
