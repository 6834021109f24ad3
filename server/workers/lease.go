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
	// restFactor bounds the load of a large registry, which takes long to read: the pause after an
	// attempt is at least restFactor times as long as the attempt.
	restFactor = 5
	// turnPatience is how long a request waits for its turn, also without wait, unless the request
	// that has the turn stands by.
	turnPatience = 10 * time.Second
	// shareWithin is how long a renewal waits for others at most.
	shareWithin = 100 * time.Millisecond
	// longestInstance is the longest name of an instance, in bytes.
	longestInstance = 200
)

// queue holds the requests that lease worker IDs of one pool at this node. They have their turn one
// after the other. So only one of them reads the registry, however many stand by.
type queue struct {
	turn     longlock.Lock
	waiting  atomic.Int64 // how many requests came with wait, and may stand by
	standing atomic.Bool  // the request that has the turn stands by

	leased, renewed, lost atomic.Int64 // see Figures
	seen                  atomic.Pointer[seen]
	renewal               atomic.Int64 // when one came last, in ns since the Unix epoch
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
	} else if q.standing.Load() {
		return l, allHeld(pool)
	}
	within := wait
	if !q.standing.Load() {
		within = max(wait, turnPatience)
	}
	if err := q.turn.LockWithin(ctx, within, allHeld(pool)); err != nil {
		return l, seqd.AsError(err)
	}
	defer func() { q.standing.Store(false); q.turn.Unlock() }()
	for {
		tried := time.Now()
		l, err := w.lease(ctx, pool, instance)
		pause := max(pollPause, restFactor*time.Since(tried))
		left := wait - time.Since(began)
		switch {
		case !errors.Is(err, machineid.ErrStandby):
			return l, err
		case left <= 0:
			return l, allHeld(pool)
		case w.opts.Stopping():
			return l, &seqd.Error{Code: seqd.CodeStopping, Detail: "this node is about to stop: ask another one", RetryAfter: time.Second}
		}
		q.standing.Store(true)
		select {
		case <-time.After(min(pause, left)):
		case <-ctx.Done():
			return l, seqd.AsError(ctx.Err())
		}
	}
}

// allHeld is the error while other programs hold every worker ID of a pool.
func allHeld(pool string) error {
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

// lease tries once to lease a worker ID: Member.Acquire decides which one and its interval, and
// Swap writes that to the registry. It returns [machineid.ErrStandby] if all worker IDs are held.
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
		m := w.instance(p, instance)
		t, err := w.prepared(ctx, p.Name, m)
		if err != nil {
			return admin.WorkerLease{}, err
		}
		if err := unmixed(p.Name, t, false); err != nil {
			return admin.WorkerLease{}, err
		}
		m.Horizon = ttlNow(p, t).Milliseconds()
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
			p.TTL = ttlNow(p, t)
			return w.answer(ctx, p, grant{l, t.Now})
		}
	}
}

// gather lets a renewal that comes soon after another one wait until the next multiple of
// shareWithin. Renewals that end their waits together share a transaction of the store.
func (q *queue) gather(now time.Time) {
	before := time.Unix(0, q.renewal.Swap(now.UnixNano()))
	if since := now.Sub(before); 0 <= since && since < shareWithin {
		time.Sleep(time.Until(now.Truncate(shareWithin).Add(shareWithin)))
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
	q.gather(time.Now())
	if s := q.seen.Load(); s == nil || time.Since(s.at) > lookAgain {
		ids = nil
	}
	for {
		m := w.holder(p, l)
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
		ttl := ttlNow(p, t)
		m.Key, m.Horizon = slot.Key, ttl.Milliseconds()
		// A backup may have been restored on a server whose clock is behind. By the clock of the
		// former server the lease may have ended, and that server may have granted the worker ID to
		// another program.
		t.Lag = max(t.Lag, m.MaxSkew)
		swap, next, err := m.Renew(t, l.Lease, w.ms(), 0)
		if err != nil {
			return none, leaseLost(err)
		}
		if next.Lower != l.Lower { // a break: other programs may have been granted the times in it
			return none, w.endLease(ctx, p.Name, l, swap)
		}
		switch made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); {
		case err != nil:
			return none, failure(err)
		case made:
			w.logOlder(p.Name, l, swap.NewSet)
			p.TTL = ttl
			return w.answer(ctx, p, grant{next, t.Now})
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
	m := w.holder(p, l)
	for {
		t, err := w.opts.Slots.Look(ctx, registry(p.Name), l.ID)
		if err != nil {
			return failure(err)
		}
		slot, err := w.held(ctx, p.Name, m, t, l)
		if err != nil {
			return err
		}
		ends := max(slot.Until, l.Until) // an older copy of the registry may have an earlier until
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
			return leaseLost(err)
		}
		switch made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); {
		case err != nil:
			return failure(err)
		case made:
			w.logOlder(p.Name, l, swap.NewSet)
			w.queue(p.Name).released()
			return nil
		}
	}
}

// held returns the slot of a lease, or [seqd.CodeLeaseLost] if the lease has ended (W3). If the
// slot is missing or older than the lease, the registry was put back to an older copy. Then held
// raises the floor first, because that copy may lack leases of other programs too.
func (w *Workers) held(ctx context.Context, pool string, m *machineid.Member, t persist.SlotTable, l grant) (slot persist.Slot, err error) {
	i := slices.IndexFunc(t.Slots, func(s persist.Slot) bool { return s.ID == l.ID })
	if i >= 0 && t.Slots[i].Token == l.Token && t.Slots[i].Until >= t.Now {
		return t.Slots[i], nil
	}
	if i < 0 || t.Slots[i].RenewedAt < l.at {
		if swap := m.Covered(t, l.Lease); swap != nil {
			return slot, w.endLease(ctx, pool, l, *swap)
		}
	}
	return slot, leaseLost(machineid.ErrLost)
}

// endLease returns that a lease has ended. If swap raises the floor of the registry, endLease raises
// it first, but leaves the slot as it is.
func (w *Workers) endLease(ctx context.Context, pool string, l grant, swap persist.SlotSwap) error {
	if swap.NewSet == nil {
		return leaseLost(machineid.ErrLost)
	}
	swap.OldSlot, swap.NewSlot = nil, nil
	switch made, err := w.opts.Slots.Swap(ctx, registry(pool), swap); {
	case err != nil:
		return failure(err)
	case !made: // the caller asks again
		return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the registry of the worker IDs has just been changed", RetryAfter: time.Second}
	}
	w.logOlder(pool, l, swap.NewSet)
	return leaseLost(machineid.ErrLost)
}

// logOlder logs that the registry was put back to an older copy, which a lease has shown. next is
// the bootstrap part with the raised floor. If it is nil, there is nothing to log.
func (w *Workers) logOlder(pool string, l grant, next *persist.SlotSet) {
	if next != nil {
		w.opts.Log.Error("the registry of worker IDs was put back to an older copy; new leases begin above everything that it may have granted",
			"pool", pool, "workerId", l.ID, "from", admin.Time(next.Floor+1))
	}
}

// leaseLost returns the error that callers get if a lease has ended. err is the error of machineid.
func leaseLost(err error) error {
	return &seqd.Error{Code: seqd.CodeLeaseLost, Detail: "the lease has ended: stop making numbers with it, and lease a worker ID anew", Err: err}
}

// answer returns what a program gets of a lease that is on record. Its after is the Lower of the
// lease. Its until is at most the last time of the pool, because numbers with later times would
// repeat earlier ones.
func (w *Workers) answer(ctx context.Context, p admin.WorkerPool, l grant) (admin.WorkerLease, error) {
	text, err := w.seal(ctx, p.Name, l)
	return admin.WorkerLease{
		WorkerPool: p, ID: l.ID, Lease: text, After: time.UnixMilli(l.Lower).UTC(), Until: time.UnixMilli(min(l.Until, lastTime(p))).UTC(),
	}, err
}

// instance returns the member of the protocol for an instance; "" for a change of the registry
// itself.
func (w *Workers) instance(p admin.WorkerPool, instance string) *machineid.Member {
	m := member(p, w.opts.Cluster)
	m.Key = instance
	return m
}

// member returns the member of the protocol for a program of a pool, without its Key. It is
// Floored, so a new registry always has a floor, also if no other node can reach it: programs may
// still hold leases that a store granted before it lost its data, such as a memory store that was
// started again.
func member(p admin.WorkerPool, cluster string) *machineid.Member {
	return &machineid.Member{
		Layout: layout(p), Cluster: cluster, Last: 1<<p.BitsMachine - 1,
		Horizon: p.TTL.Milliseconds(), MaxSkew: maxSkew.Milliseconds(), Floored: true,
	}
}

// holder returns the member of the protocol for the holder of a lease. Its Reach covers the lease:
// an older copy of the registry may have a lower Ahead.
func (w *Workers) holder(p admin.WorkerPool, l grant) *machineid.Member {
	m := w.instance(p, "")
	if l.Until > l.Lower { // an empty lease has no times to cover: only a floor is so far ahead
		m.Reach = l.Until - l.at + m.MaxSkew
	}
	return m
}

// usualTTL is how far leases reach at most while a failover can lose the definition of the pool.
const usualTTL = 30 * time.Second

// ttlNow returns how far the leases of a pool reach now: the ttl of the pool, but at most usualTTL
// as long as a failover can lose the definition. Such a failover can lose a new ttl, or the whole
// pool, and with it the record of how far leases reach (Ahead), but the programs keep their leases.
// A floor always covers usualTTL (prepared). After 2·Lag no failover loses the definition: a new
// primary lacks writes of at most Lag, and a server that was replaced goes on for at most Lag.
func ttlNow(p admin.WorkerPool, t persist.SlotTable) time.Duration {
	if t.Source != "" && t.Now <= p.Updated.UnixMilli()+2*t.Lag+maxSkew.Milliseconds() {
		return min(p.TTL, usualTTL)
	}
	return p.TTL
}

// ms returns the node's time.
func (w *Workers) ms() int64 { return w.opts.Now().UnixMilli() }

// prepared reads the registry of a pool. Before that it makes the changes that the bootstrap part
// needs, such as a floor after a failover of the store (Member.Prepare). ids are the slots to read,
// none for all.
func (w *Workers) prepared(ctx context.Context, pool string, m *machineid.Member, ids ...int64) (t persist.SlotTable, err error) {
	for {
		before := w.ms()
		t, err = w.opts.Slots.Look(ctx, registry(pool), ids...)
		if err == nil && t.Set == nil && len(ids) > 0 {
			// without a bootstrap part, the registry is new only if it has no slot at all
			t, err = w.opts.Slots.Look(ctx, registry(pool))
		}
		if err != nil {
			return t, failure(err)
		}
		if t.Source != "" { // see ttlNow
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
