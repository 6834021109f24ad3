package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/strategy"
)

// openAlone begins without the store, where that cannot be reached now and biz types of this node
// can issue all the same. The others wait for it.
func (r *runtime) openAlone(ctx context.Context) bool {
	if r.cfg.Store.Driver != "mongo" {
		return false
	}
	alone, cluster := r.canAlone()
	if len(alone) == 0 {
		return false
	}
	err := r.openStore(ctx)
	if err == nil {
		err = r.readCluster(ctx)
	}
	switch {
	case err == nil:
		r.log.Info("store open", "promise", r.store.Describe())
		return true
	case !errors.Is(err, persist.ErrUnavailable):
		return false // opening it again will say so
	}
	if r.store == nil {
		unreached, openErr := newWatchedStore(ctx, r.cfg.Store, r.now, mongo.Options{Unreached: true, Monitor: r.mongoMonitor(), Admit: r.admit})
		if openErr != nil {
			return false
		}
		r.store = unreached
	}
	r.begin(alone, cluster)
	r.log.Warn("the store cannot be reached: biz types with a reservation of their own begin without it", "bizTypes", slices.Sorted(maps.Keys(alone)), "error", err)
	return true
}

// canAlone returns the biz types that can issue without the store, all of one cluster, and that
// cluster.
func (r *runtime) canAlone() (alone map[string]bool, cluster string) {
	alone = make(map[string]bool)
	for _, b := range r.cfg.BizTypes {
		factory, err := strategy.Lookup(b.Strategy)
		if err != nil || factory.Alone == nil {
			continue
		}
		shape, err := wholeShape(b)
		if err != nil {
			continue // building it will say so
		}
		if remembered, ok := factory.Alone(r.env(), b, shape); ok && (cluster == "" || cluster == remembered) {
			cluster, alone[b.Name] = remembered, true
		}
	}
	return alone, cluster
}

// begin puts the gate before the store.
func (r *runtime) begin(alone map[string]bool, cluster string) {
	r.gate, r.alone, r.cluster = &gate{}, alone, cluster
}

// confirmAlone opens the gate as soon as the store can be reached and is the one that the biz types
// remember which began without it. Where it is not it ends the run: what this node keeps elsewhere
// carries the wrong cluster, or its numbers have another shape than those before (invariant U6).
func (r *runtime) confirmAlone(ctx context.Context) {
	logged := ""
	for {
		err := r.confirm(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.gate.open.Store(true)
			r.log.Info("store open", "promise", r.store.Describe())
			return
		case seqd.CodeOf(err) == seqd.CodeConflict:
			r.failed <- err
			return
		}
		if reason := err.Error(); reason != logged {
			r.log.Error("the store cannot be asked yet whether it is the one of before", "error", err)
			logged = reason
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(openRetry):
		}
	}
}

// confirm asks the store behind the gate. It writes nothing before it knows that the store is that
// of this node's cluster.
func (r *runtime) confirm(ctx context.Context) error {
	ctx = r.gate.pass(ctx)
	known, err := persist.ReadCluster(ctx, r.store.Documents())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return seqd.Errorf(seqd.CodeConflict, "the store is new, the reservation on disk is of the cluster %s", r.cluster)
	case err != nil:
		return unavailable(err)
	case known.ID != r.cluster:
		return seqd.Errorf(seqd.CodeConflict, "the store is that of the cluster %s, the reservation on disk is of %s", known.ID, r.cluster)
	}
	for _, c := range r.claims {
		if !r.alone[c.name] {
			continue
		}
		fresh, err := c.compare(ctx, r.store)
		if err == nil && fresh { // an older copy of the store: it has issued all the same
			err = c.create(ctx, r.store)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// beganAlone reports whether a biz type began without the store, and that could not be reached
// since.
func (r *runtime) beganAlone(bizType string) bool {
	return r.gate != nil && !r.gate.open.Load() && r.alone[bizType]
}
