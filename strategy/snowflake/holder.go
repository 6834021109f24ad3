package snowflake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// holder holds a machine ID for all biz types of this process that have the same settings, and the
// generator that uses it. It is the shell around the protocol in protocol.go: one goroutine, run,
// seeks a machine ID (seek.go), renews its lease (renew.go) and releases it (release.go). With
// offlineStart it keeps the lease in a file too (reservation.go).
type holder struct {
	member
	gen      *generator
	registry persist.SlotStore
	// check returns why the registry cannot be used as it is configured. It may be nil.
	check    func(context.Context) error
	name     string // the name of the registry
	title    string // the name of the registry for operators
	settings *Settings
	env      strategy.Env
	identity statefile.Identity
	fileName string

	mu    sync.Mutex // guards what follows
	lease lease
	// the generator may use times up to bound: the lease's until, or later ones of the reservation
	bound   int64
	state   state              // seeking or holding
	failure *seqd.Error        // why there is no machine ID, or why it is not renewed
	users   map[string]string  // the biz types and their shapes, see users.go
	listed  chan struct{}      // has a value if users changed; capacity 1
	first   chan struct{}      // closed after the first attempt to get a machine ID
	stop    context.CancelFunc // stops run; nil before start
	over    bool               // end was called
	done    chan struct{}      // closed when run has ended
	seen    seen               // for measurements

	// Only run uses what follows.
	file *statefile.File // nil without offlineStart
	kept statefile.State // the content of the file, the zero State if it is useless
	// pending is a lease that may be on record although it is not used, because the answer was lost
	// or the file could not be written. The next attempt continues with it.
	pending lease
	// owed is a lease that was granted and is not on record any more. The holder raises the floor
	// of the registry above it before it does anything else there.
	owed lease
	// fromFile is true until the reservation of an earlier process has been dealt with.
	fromFile bool
	// surveyed is when the whole registry was last read while a lease is held.
	surveyed time.Time
	surveys  sync.WaitGroup
}

// state says whether a holder has a machine ID.
type state int

const (
	seeking state = iota // without a machine ID
	holding              // with one
)

// newHolder returns a holder that has not started.
func newHolder(env strategy.Env, settings *Settings, l *layout) (*holder, error) {
	if err := l.begun(env.Now()); err != nil {
		return nil, fmt.Errorf("%s: %s", err.key, err.text)
	}
	file, key, err := instanceOf(env.Addr, settings)
	if err != nil {
		return nil, err
	}
	h := &holder{
		name: registryName(l), settings: settings, env: env,
		fileName: file, users: make(map[string]string), listed: make(chan struct{}, 1),
		first: make(chan struct{}), done: make(chan struct{}),
	}
	if h.registry, err = openRegistry(env, settings); err != nil {
		return nil, err
	}
	if settings.UsesRedis() != "" {
		h.check = func(ctx context.Context) error { return redisslots.Check(ctx, env.Redis) }
	}
	h.member = newMember(env, settings, l)
	h.title = settings.Registry + " " + h.layout
	h.key = key
	h.identity = statefile.Identity{Cluster: env.Cluster, Layout: h.layout, Key: h.key}
	h.gen = newGenerator(l, generatorOptions{now: env.Now, maxWait: settings.MaxWaitRollback, randomStart: settings.RandomStart, onRollback: h.rolledBack})
	env.Log.Info("snowflake", "layout", l.text(), "key", h.key, "machineIds", fmt.Sprintf("%d to %d", h.member.first, h.last), "overflow", l.overflow().Format(time.RFC3339))
	return h, nil
}

// start starts the search for a machine ID, once.
func (h *holder) start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.over:
		return errStopping
	case h.stop == nil:
		var ctx context.Context
		ctx, h.stop = context.WithCancel(context.Background())
		go h.run(ctx)
	}
	return nil
}

// end stops issuing and releases the machine ID. It returns when that is done or ctx ends.
func (h *holder) end(ctx context.Context) error {
	h.mu.Lock()
	h.over = true
	stop := h.stop
	h.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-h.done:
		return nil
	case <-ctx.Done():
		// The goroutine may still be running. It releases the machine ID only after it has stopped
		// the generator, so stopping it here is safe.
		h.gen.stop(errStopping)
		return ctx.Err()
	}
}

// ready waits for the end of the first attempt to get a machine ID, and returns an error if no
// number can be made.
func (h *holder) ready(ctx context.Context) error {
	select {
	case <-h.first:
	case <-ctx.Done():
		return seqd.AsError(ctx.Err())
	}
	if err := h.health(); err != nil {
		return err
	}
	return nil
}

// ms returns the node's time.
func (h *holder) ms() int64 { return h.env.Now().UnixMilli() }

// run seeks, holds and renews until ctx ends, and then releases the machine ID.
func (h *holder) run(ctx context.Context) {
	defer close(h.done)
	defer h.surveys.Wait()
	h.reach = holders.reach(h)
	first := sync.OnceFunc(func() { close(h.first) })
	defer first()
	h.fromFile = true
	for ctx.Err() == nil {
		err := h.seek(ctx)
		h.note(err)
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
		case <-h.listed:
			if err := h.vouch(); err != nil { // the next renewal writes it again
				h.env.Log.Warn("the list of biz types in the file of the reservation could not be written", "error", err)
			}
		}
	}
}

// held reports whether there is a machine ID.
func (h *holder) held() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == holding
}

// use lets the generator use a lease up to bound. With offlineStart it writes that to the file
// first.
func (h *holder) use(l lease, bound int64) error {
	if h.file != nil {
		// After an offline start the interval begins above until. Progress, which is never below
		// lower, records that.
		err := h.keep(statefile.State{
			MachineID: l.id, Token: l.token, Lower: min(l.lower, l.until), Until: l.until, Reserved: l.reserved, Progress: max(bound, l.until),
			Users: h.names(),
		})
		if err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	changed := h.state == seeking || h.lease.id != l.id || h.lease.token != l.token
	h.lease, h.bound, h.pending, h.fromFile = l, bound, lease{}, false
	h.gen.set(l.id, l.lower, bound, l.floored)
	if changed {
		h.state = holding
		h.env.Log.Info("machine ID", "machineId", l.id, "key", h.key, "from", at(l.lower+1), "until", at(bound))
	}
	return nil
}
