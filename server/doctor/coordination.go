package doctor

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/persist"
)

// coordinationCheck looks at the coordinator.
type coordinationCheck struct{ d *Doctor }

// run asks each server for what a node asks first.
func (c coordinationCheck) run(ctx context.Context, f *findings) {
	cfg := c.d.Config.Coordination
	if !cfg.Apart() {
		return
	}
	cluster := redisCheck(c).cluster(ctx)
	var wg sync.WaitGroup
	for _, addr := range cfg.Addrs {
		wg.Go(func() { c.server(ctx, f, addr, cmp.Or(cluster, "unknown")) })
	}
	wg.Wait()
	f.sort()
	if cluster == "" {
		f.add(Info, "coordination", "", "what it has for this cluster was not read: the store does not tell the cluster's ID now")
	}
}

// slowCoordinator is from when on a beat, which takes some operations, may come too late.
const slowCoordinator = 200 * time.Millisecond

// server asks one server.
func (c coordinationCheck) server(ctx context.Context, f *findings, addr, cluster string) {
	key := "coordination " + addr
	cfg := c.d.Config.Coordination
	cfg.Addrs = []string{addr}
	documents, err := c.d.Coordinator(cfg, cluster)
	if err != nil {
		f.add(Fail, key, "", "%v", err)
		return
	}
	defer documents.Close()
	_, err = coordination.ReadID(ctx, documents) // which connects
	sent := time.Now()
	if err == nil || errors.Is(err, persist.ErrNotFound) {
		_, err = coordination.ReadID(ctx, documents)
	}
	trip := time.Since(sent)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		f.add(Info, key, "", "%s answers in %s, and no node of this cluster has used it", cfg.Driver, trip.Round(10*time.Microsecond))
	case err != nil:
		f.add(Fail, key, "without it jobs wait, and machine IDs are not leased if snowflake.registry is coordinator; other numbers are issued", "%v", err)
	case trip > slowCoordinator:
		f.add(Warn, key, "put it nearer, or leave coordination.driver at store", "%s answers in %s", cfg.Driver, trip.Round(time.Millisecond))
	default:
		f.ok(key, "%s answers in %s", cfg.Driver, trip.Round(10*time.Microsecond))
	}
}
