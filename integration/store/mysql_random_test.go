package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// The statement that allocates does exactly what Counter.Allocated does, also with counters that
// were written before a failover.
func TestMySQLAllocatesAsTheRule(t *testing.T) {
	t.Parallel()
	for _, lossless := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossless %t", lossless), func(t *testing.T) {
			server := testenv.StartMySQL(t)
			if lossless {
				server, _ = startPair(t)
			}
			seed := time.Now().UnixNano()
			t.Logf("seed %d", seed)
			d := differential{T: t, random: rand.New(rand.NewPCG(uint64(seed), 0))}
			o := newMySQL(t, server)
			o.Now, o.Lossless = func() time.Time { return time.UnixMilli(d.now) }, lossless
			d.store = openMySQL(t, o)
			admin := connectMySQL(t, o.DSN)
			d.foreign = func(name []byte) error {
				_, err := admin.ExecContext(t.Context(), "UPDATE seqd_counters SET fence = 'another' WHERE name = ?", name)
				return err
			}
			for range longtest.Or(100, 1000) {
				d.step()
			}
		})
	}
}
