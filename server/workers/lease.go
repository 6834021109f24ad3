package workers

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/longlock"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

const (
	// maxSkew is how far a node's clock may be from the store's.
	maxSkew = 2 * time.Second
	// pollPause is the pause between two attempts of the request that stands by first.
	pollPause = 50 * time.Millisecond
	// restful is how many times longer than an attempt the pause after it is, at least: a large
	// registry takes long to read.
	restful = 5
	// patience is how long a request waits for those before it at least, unless they stand by.
	patience = 10 * time.Second
	// longestInstance is the longest name of an instance, in bytes.
	longestInstance = 200
)

// queue is the requests for worker IDs of one pool at this node. They are answered one after the
// other, so that those that stand by cost one read of the registry, however many there are.
type queue struct {
	turn    longlock.Lock
	waiting atomic.Int64 // those that may stand by
	starved atomic.Bool  // whoever has the turn stands by

	leased, renewed, lost atomic.Int64 // see Figures
	seen                  atomic.Pointer[seen]
}

// queue returns the queue of a pool.
func (w *Workers) queue(pool string) *queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.queues[pool]
	if q == nil {
		q = new(queue)
		w.queues[pool] = q
	}
	return q
}

// Lease implements [admin.Workers].
func (w *Workers) Lease(ctx context.Context, pool, instance string, wait time.Duration) (l admin.WorkerLease, err error) {
	began := time.Now()
	if err := checkInstance(instance); err != nil {
		return l, err
	}
	if _, err := w.Pool(ctx, pool); err != nil {
		return l, err
	}
	q := w.queue(pool)
	if wait > 0 {
		q.waiting.Add(1)
		defer q.waiting.Add(-1)
	} else if q.starved.Load() {
		return l, standby(pool)
	}
	within := wait
	if !q.starved.Load() {
		within = max(wait, patience)
	}
	if err := q.turn.LockWithin(ctx, within, standby(pool)); err != nil {
		return l, seqd.AsError(err)
	}
	defer func() { q.starved.Store(false); q.turn.Unlock() }()
	for {
		tried := time.Now()
		l, err := w.lease(ctx, pool, instance)
		pause := max(pollPause, restful*time.Since(tried))
		left := wait - time.Since(began)
		switch {
		case !errors.Is(err, machineid.ErrStandby):
			return l, err
		case left <= 0:
			return l, standby(pool)
		case w.opts.Stopping():
			return l, &seqd.Error{Code: seqd.CodeStopping, Detail: "this node is about to stop: ask another one", RetryAfter: time.Second}
		}
		q.starved.Store(true)
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return l, seqd.AsError(ctx.Err())
		}
	}
}

// standby is the error while other programs hold every worker ID of a pool.
func standby(pool string) error {
	return &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second, Err: machineid.ErrStandby,
		Detail: "all worker IDs of the pool " + pool + " are held: stand by with wait=20s, or make a pool with more bitsMachine"}
}

// checkInstance returns an error unless a text can name an instance.
func checkInstance(name string) error {
	if name == "" || len(name) > longestInstance || !utf8.ValidString(name) || !printable(name) {
		return seqd.Errorf(seqd.CodeInvalidRequest, "instance: it is not 1 to %d bytes of printable UTF-8, such as shop.8080.10.0.0.7", longestInstance)
	}
	return nil
}

func printable(text string) bool {
	return !slices.ContainsFunc([]rune(text), func(r rune) bool { return !unicode.IsPrint(r) })
}

// lease makes one attempt. Its error is [machineid.ErrStandby] if all worker IDs are held.
func (w *Workers) lease(ctx context.Context, pool, instance string) (admin.WorkerLease, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	p, err := w.recent(ctx, pool)
	if err != nil {
		return admin.WorkerLease{}, err
	}
	if _, err := w.sealKey(ctx); err != nil { // before anything is granted
		return admin.WorkerLease{}, err
	}
	for {
		m := w.member(p, instance)
		t, err := w.prepared(ctx, p.Name, m)
		if err != nil {
			return admin.WorkerLease{}, err
		}
		if err := unmixed(p.Name, t, false); err != nil {
			return admin.WorkerLease{}, err
		}
		m.Horizon = reaches(p, t).Milliseconds()
		swap, l, err := m.Acquire(t, w.ms())
		if err != nil {
			w.queue(p.Name).saw(p, t, 0)
			return admin.WorkerLease{}, err
		}
		if err := inTime(p, max(t.Now, l.Lower)); err != nil {
			return admin.WorkerLease{}, err
		}
		if len(t.Slots) == 0 {
			alone(&swap)
		}
		switch made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); {
		case err != nil:
			return admin.WorkerLease{}, failure(err)
		case made:
			w.queue(p.Name).leased.Add(1)
			w.queue(p.Name).saw(p, t, 1)
			p.TTL = reaches(p, t)
			return w.granted(ctx, p, grant{l, t.Now})
		}
	}
}

// Renew implements [admin.Workers].
func (w *Workers) Renew(ctx context.Context, pool, text string) (none admin.WorkerLease, err error) {
	defer func() { w.counted(pool, err) }()
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	p, err := w.recent(ctx, pool)
	if err != nil {
		return none, err
	}
	l, err := w.open(ctx, p.Name, text)
	if err != nil {
		return none, err
	}
	ids, q := []int64{l.ID}, w.queue(p.Name)
	if s := q.seen.Load(); s == nil || time.Since(s.at) > lookAgain {
		ids = nil
	}
	for {
		m := w.holding(p, l)
		t, err := w.prepared(ctx, p.Name, m, ids...)
		if err != nil {
			return none, err
		}
		if ids == nil {
			q.saw(p, t, 0)
		}
		slot, err := w.held(ctx, p.Name, m, t, l)
		if err != nil {
			return none, err
		}
		ttl := reaches(p, t)
		m.Key, m.Horizon = slot.Key, ttl.Milliseconds()
		// The clock of a server on which a backup was restored may be behind. Then the lease may have
		// ended by that of the one before, which may have granted the worker ID to another program.
		t.Lag = max(t.Lag, m.MaxSkew)
		swap, next, err := m.Renew(t, l.Lease, w.ms(), 0)
		if err != nil {
			return none, lost(err)
		}
		if next.Lower != l.Lower { // the registry may have lost grants, so the times in between may be those of others
			return none, w.ended(ctx, p.Name, l, swap.OldSet, swap.NewSet, swap.Source)
		}
		switch made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); {
		case err != nil:
			return none, failure(err)
		case made:
			w.behind(p.Name, l, swap.NewSet)
			p.TTL = ttl
			return w.granted(ctx, p, grant{next, t.Now})
		}
	}
}

// Release implements [admin.Workers].
func (w *Workers) Release(ctx context.Context, pool, text string, last time.Time) (err error) {
	defer func() {
		if err != nil { // a release is no renewal
			w.counted(pool, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	p, err := w.recent(ctx, pool)
	if err != nil {
		return err
	}
	l, err := w.open(ctx, p.Name, text)
	if err != nil {
		return err
	}
	m := w.holding(p, l)
	for {
		t, err := w.opts.Slots.Look(ctx, registry(p.Name), l.ID)
		if err != nil {
			return failure(err)
		}
		slot, err := w.held(ctx, p.Name, m, t, l)
		if err != nil {
			return err
		}
		ends := max(slot.Until, l.Until) // an older copy of the registry may not know how far the lease reaches
		used := ends
		if !last.IsZero() {
			used = last.UnixMilli()
		}
		if used > ends {
			return seqd.Errorf(seqd.CodeInvalidRequest, "last: %s is after %s, when the lease ends", last.UTC().Format(admin.TimeFormat), admin.Time(ends))
		}
		m.Key = slot.Key
		swap, err := m.Release(t, l.Lease, used)
		if err != nil {
			return lost(err)
		}
		switch made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); {
		case err != nil:
			return failure(err)
		case made:
			w.behind(p.Name, l, swap.NewSet)
			w.queue(p.Name).released()
			return nil
		}
	}
}

// held returns the slot of a lease that has not ended. If the slot is older than the lease, the
// registry was put back to an older copy: held raises its floor, because other programs may hold
// leases that it does not know either.
func (w *Workers) held(ctx context.Context, pool string, m *machineid.Member, t persist.SlotTable, l grant) (slot persist.Slot, err error) {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.ID })
	if i >= 0 && t.Slots[i].Token == l.Token && t.Slots[i].Until >= t.Now {
		return t.Slots[i], nil
	}
	if i < 0 || t.Slots[i].RenewedAt < l.at {
		if swap := m.Covered(t, l.Lease); swap != nil {
			return slot, w.ended(ctx, pool, l, swap.OldSet, swap.NewSet, swap.Source)
		}
	}
	return slot, lost(machineid.ErrLost)
}

// ended returns that a lease has ended, after it has raised the floor of a registry that was put
// back to an older copy. next is nil if there is no need to.
func (w *Workers) ended(ctx context.Context, pool string, l grant, old, next *persist.SlotSet, source string) error {
	if next != nil {
		made, err := w.opts.Slots.Swap(ctx, registry(pool), persist.SlotSwap{OldSet: old, NewSet: next, Source: source})
		switch {
		case err != nil:
			return failure(err)
		case !made: // the caller asks again
			return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the registry of the worker IDs has just been changed", RetryAfter: time.Second}
		}
		w.behind(pool, l, next)
	}
	return lost(machineid.ErrLost)
}

// behind logs that a lease has shown that the registry was put back to an older copy, unless next is
// nil.
func (w *Workers) behind(pool string, l grant, next *persist.SlotSet) {
	if next != nil {
		w.opts.Log.Error("the registry of worker IDs was put back to an older copy; new leases begin above everything that it may have granted",
			"pool", pool, "workerId", l.ID, "from", admin.Time(next.Floor+1))
	}
}

// lost returns what callers see of an error of the protocol about a lease.
func lost(err error) error {
	return &seqd.Error{Code: seqd.CodeLeaseLost, Detail: "the lease has ended: stop making numbers with it, and lease a worker ID anew", Err: err}
}

// granted returns a lease that is on record. It ends with the times of the pool: later ones do not fit
// into a number, and would repeat earlier ones.
func (w *Workers) granted(ctx context.Context, p admin.WorkerPool, l grant) (admin.WorkerLease, error) {
	text, err := w.seal(ctx, p.Name, l)
	return admin.WorkerLease{
		WorkerPool: p, ID: l.ID, Lease: text, After: time.UnixMilli(l.Lower).UTC(), Until: time.UnixMilli(min(l.Until, last(p))).UTC(),
	}, err
}

// member returns an instance as a member of the protocol.
func (w *Workers) member(p admin.WorkerPool, instance string) *machineid.Member {
	m := member(p, w.opts.Cluster)
	m.Key = instance
	return m
}

// member returns any node as a member of the protocol. A new registry always has a floor, also if no
// other node can reach it: a store that lost its data, such as a memory store that was started again,
// does not know of the programs that go on.
func member(p admin.WorkerPool, cluster string) *machineid.Member {
	return &machineid.Member{
		Layout: layout(p), Cluster: cluster, Last: 1<<p.BitsMachine - 1,
		Horizon: p.TTL.Milliseconds(), MaxSkew: maxSkew.Milliseconds(), Floored: true,
	}
}

// holding returns the holder of a lease as a member of the protocol. The lease may reach further than
// the registry knows that leases do, if that was put back to an older copy.
func (w *Workers) holding(p admin.WorkerPool, l grant) *machineid.Member {
	m := w.member(p, "")
	if l.Until > l.Lower { // otherwise only its floor is so far ahead
		m.Reach = l.Until - l.at + m.MaxSkew
	}
	return m
}

// usualTTL is how far leases reach at most while a failover may lose what the ttl of the pool is.
const usualTTL = 30 * time.Second

// reaches returns how far the leases of a pool reach. A failover can lose a new ttl, or the whole
// pool, and with it the record of how far leases reach, but not the leases that programs hold. So in
// a store that can lose writes, leases reach no further than usualTTL, for which there always is a
// floor (prepared), until the definition is so old that no failover loses it: Lag for what a standby
// lacks, and Lag for which a server that was replaced goes on.
func reaches(p admin.WorkerPool, t persist.SlotTable) time.Duration {
	if t.Source != "" && t.Now <= p.Updated.UnixMilli()+2*t.Lag+maxSkew.Milliseconds() {
		return min(p.TTL, usualTTL)
	}
	return p.TTL
}

// ms returns the node's time.
func (w *Workers) ms() int64 { return w.opts.Now().UnixMilli() }

// prepared reads the registry of a pool after making the changes that its bootstrap part needs.
func (w *Workers) prepared(ctx context.Context, pool string, m *machineid.Member, ids ...int64) (t persist.SlotTable, err error) {
	for {
		before := w.ms()
		t, err = w.opts.Slots.Look(ctx, registry(pool), ids...)
		if err == nil && t.Set == nil && len(ids) > 0 {
			// without a bootstrap part, only all slots show whether the registry is new
			t, err = w.opts.Slots.Look(ctx, registry(pool))
		}
		if err != nil {
			return t, failure(err)
		}
		if t.Source != "" { // see reaches
			m.Reach = max(m.Reach, usualTTL.Milliseconds()+2*m.MaxSkew)
		}
		if err := m.Skewed(before, w.ms(), t); err != nil {
			return t, &seqd.Error{Code: seqd.CodeNoMachineID, Detail: err.Error(), RetryAfter: time.Second, Err: err}
		}
		swap, err := m.Prepare(t)
		if err != nil {
			return t, &seqd.Error{Code: seqd.CodeConflict, Detail: err.Error(), Err: err}
		}
		if swap == nil {
			return t, nil
		}
		if _, err := w.opts.Slots.Swap(ctx, registry(pool), *swap); err != nil {
			return t, failure(err)
		}
	}
}
