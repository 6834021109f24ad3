package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
)

// coordinator is a store in memory as a coordinator.
type coordinator struct{ persist.Documents }

func (coordinator) Close() error { return nil }

func TestCoordination(t *testing.T) {
	const well, fresh, away = "well:1", "fresh:1", "away:1"
	d := examined(t, "bizTypes: [{name: a}]\n")
	must.Equal(t, len(run(t, coordinationCheck{d}.run)), 0, "findings without a coordinator")
	d.Config.Coordination.Driver, d.Config.Coordination.Addrs = config.CoordinateConsul, []string{well, fresh, away}
	d.Coordinator = func(cfg config.Coordination, _ string) (coordination.Coordinator, error) {
		c := coordinator{memory.New(time.Now).Documents()}
		switch cfg.Addrs[0] {
		case away:
			return nil, errors.New("no certificate")
		case well:
			must.Get(coordination.Identify(context.Background(), c))(t)
		}
		return c, nil
	}
	found := make(map[string]string)
	synctest.Test(t, func(t *testing.T) { // in which no answer is slow
		for _, f := range run(t, coordinationCheck{d}.run) {
			found[f.Subject] = f.Level.String() + " " + f.Found
		}
	})
	for subject, want := range map[string]string{
		"coordination " + well: "ok", "coordination " + fresh: "no node of this cluster has used it", "coordination " + away: "FAIL no certificate",
	} {
		must.Equal(t, strings.Contains(found[subject], want), true, found[subject])
	}
}
