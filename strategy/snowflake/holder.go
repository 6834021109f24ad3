package snowflake

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// holder holds a machine ID for all biz types of this process that have the same settings, and the
// generator that uses it. It is the shell around the protocol, package machineid: one goroutine,
// run, seeks a machine ID (seek.go), renews its lease (renew.go) and releases it (release.go). With
// offlineStart it keeps the lease in a file too (reservation.go).
//
// Its parts have one job each, and each says who may use it. No part is called under the lock of
// another, except that tenure calls the generator under its own.
type holder struct {
	settings *Settings
	env      *environment
	registry slotRegistry // where machine IDs are leased
	tenure   tenure       // the machine ID that is held now
	users    *users       // the biz types and their shapes
	file     leaseFile    // the lease on disk
	worker   worker       // the goroutine

	// Only run uses what follows.
	debt debt
	// pending is a lease that may be on record although it is not used, because the answer was lost
	// or the file could not be written. The next attempt continues with it.
	pending machineid.Lease
	// fromFile is true until the reservation of an earlier process has been dealt with.
	fromFile bool
	steady   steady
}

// newHolder returns a holder that has not started.
func newHolder(env strategy.Env, settings *Settings, l *layout) (*holder, error) {
	file, key, err := instanceOf(env.Addr, settings)
	if err != nil {
		return nil, err
	}
	dir, err := settings.stateDir()
	if err != nil {
		return nil, err
	}
	slots, err := openRegistry(env, settings, false)
	if err != nil {
		return nil, err
	}
	shared := &environment{env}
	h := &holder{settings: settings, env: shared, users: newUsers(), worker: newWorker()}
	h.registry = slotRegistry{Member: newMember(env, settings, l), slots: slots, env: shared, name: registryName(l), title: settings.Registry + " " + l.text()}
	h.registry.Key = key
	h.registry.naming = newNaming(env, settings, h.registry.name, slots)
	if settings.Registry == registryRedis {
		h.registry.check = func(ctx context.Context) error { return redisslots.Check(ctx, env.Redis) }
	}
	h.debt.registry = &h.registry
	identity := statefile.Identity{Cluster: env.Cluster, Layout: l.text(), Key: key}
	h.file = leaseFile{dir: dir, name: file, identity: identity, users: h.users, log: env.Log}
	gen := newGenerator(l, generatorOptions{now: env.Now, maxWait: settings.MaxWaitRollback, randomStart: settings.RandomStart, onRollback: shared.rolledBack, left: left[atomic.Int64](env, h.registry.name)})
	h.tenure = tenure{gen: gen, env: shared, key: key, registry: h.registry.name, maxWait: settings.MaxWaitRollback}
	env.Log.Info("snowflake", "layout", l.text(), "registrationKey", key, "machineIds", fmt.Sprintf("%d to %d", h.registry.First, h.registry.Last), "overflowAt", l.overflow().Format(time.RFC3339))
	return h, nil
}

// start starts the search for a machine ID, once.
func (h *holder) start() error { return h.worker.start(h.run) }

// end stops issuing and releases the machine ID. It returns when that is done or ctx ends.
func (h *holder) end(ctx context.Context) error {
	err := h.worker.end(ctx)
	if err != nil {
		// The goroutine may still be running. It releases the machine ID only after it has stopped
		// the generator, so stopping it here is safe.
		h.tenure.gen.stop(errStopping)
	}
	return err
}

// ready waits for the end of the first attempt to get a machine ID, and returns an error if none can
// be used. It is no error that the clock was set back: the generator says so once, and not at each
// attempt to initialise the strategy.
func (h *holder) ready(ctx context.Context) error {
	select {
	case <-h.worker.first:
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
	if err := h.tenure.usable(); err != nil {
		return err
	}
	return nil
}

// run seeks, holds and renews until ctx ends, and then releases the machine ID.
func (h *holder) run(ctx context.Context) {
	defer close(h.worker.done)
	defer h.registry.surveys.Wait()
	first := sync.OnceFunc(func() { close(h.worker.first) })
	defer first()
	h.fromFile = true
	for ctx.Err() == nil {
		err := h.seek(ctx)
		h.tenure.note(err)
		first()
		if err != nil {
			h.pause(ctx, h.settings.PollInterval)
			continue
		}
		h.hold(ctx)
	}
	h.release()
}

// pause waits. It returns false if ctx ended. Meanwhile it updates the list of biz types in the
// file.
func (h *holder) pause(ctx context.Context, d time.Duration) bool {
	over := time.After(d)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-over:
			return true
		case <-h.users.listed:
			if err := h.file.vouch(); err != nil { // the next renewal writes it again
				h.env.Log.Warn("the list of biz types in the file of the reservation could not be written", "error", err)
			}
		}
	}
}

// use lets the generator use a lease up to bound. With offlineStart it writes that to the file
// first.
func (h *holder) use(l machineid.Lease, bound int64) error {
	if err := h.file.use(l, bound); err != nil {
		return err
	}
	h.pending, h.fromFile = machineid.Lease{}, false
	h.tenure.set(l, bound)
	return nil
}

// onRecord notes the shape that the store has on record, "" if that is not the one of this process.
// The run goroutine updates the file. If the holder is not running, onRecord removes the biz type
// from the file itself.
func (h *holder) onRecord(bizType, shape string) {
	h.users.record(bizType, shape)
	idle := !h.worker.started() // after record: a goroutine that starts later sees the new list
	h.users.changed()
	if idle && shape == "" && h.settings.OfflineStart > 0 {
		if err := h.file.strike(); err != nil {
			h.env.Log.Error("the file of the reservation still lists a biz type that it must not", "bizType", bizType, "error", err)
		}
	}
}
