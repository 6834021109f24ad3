package workers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// A client of CosId keeps no text of a lease: it names its instance. So what a text would say is in
// the token of the slot, and any node finds the lease of an instance in the registry.
//
//   - An instance has one lease at a time, also if it asks two nodes at once: each grant to a client of
//     CosId excludes all others (alone).
//   - An instance gets another worker ID only after its lease has ended, and nothing ends a lease
//     early. So if a registry was put back to an older copy, and that has a lease of the instance which
//     has not ended, then the instance has got no other one since.
//   - A pool is for clients of CosId or for others, never for both (unmixed).

// machineToken is the beginning of the token of such a lease: its lower, and how far it reaches, in ms.
const machineToken = "cosid %d %d "

// isMachine reports whether a slot was leased to a client of CosId, which nothing but another lease
// changes.
func isMachine(s persist.Slot) bool { return strings.HasPrefix(s.Token, "cosid ") }

// unmixed returns an error if worker IDs of a pool were leased to others than clients of CosId, or to
// those unless machines. Numbers of CosId have the machine ID above the sequence. So a number with one
// worker ID can equal one of the same millisecond with another worker ID that has it below.
func unmixed(pool string, t persist.SlotTable, machines bool) error {
	if len(t.Slots) == 0 || isMachine(t.Slots[0]) == machines {
		return nil
	}
	return seqd.Errorf(seqd.CodeConflict, "numbers of CosId's clients have another layout than those of other programs: "+
		"they cannot lease from one pool, and %s leases to the others; make another pool", pool)
}

// alone lets a grant exclude every other one that was decided by the same state of the registry.
func alone(swap *persist.SlotSwap) {
	set := *swap.OldSet
	set.Incarnation = machineid.Drawn()
	swap.NewSet = &set
}

// machine is an instance of CosId that asks for something.
type machine struct {
	pool   admin.WorkerPool
	member *machineid.Member
	table  persist.SlotTable
	held   *persist.Slot   // nil for none
	lease  machineid.Lease // in held
	reach  time.Duration   // that was granted with it
}

// find sets the lease that the instance has.
func (m *machine) find() {
	for i, s := range m.table.Slots {
		if s.Key == m.member.Key && s.Until >= m.table.Now && isMachine(s) {
			m.held, m.lease = &m.table.Slots[i], machineid.Lease{ID: s.ID, Token: s.Token, Until: s.Until, Reserved: s.Reserved}
			var ms int64
			_, _ = fmt.Sscanf(s.Token, machineToken, &m.lease.Lower, &ms) // nothing else writes such tokens
			m.reach = time.Duration(ms) * time.Millisecond
		}
	}
}

// distribute returns the change that leases a worker ID, or extends the lease that the instance has.
func (m *machine) distribute(bits int) (swap persist.SlotSwap, id int64, begin time.Time, err error) {
	now := m.table.Now
	if p := m.pool; bits != p.BitsMachine {
		return swap, 0, begin, seqd.Errorf(seqd.CodeInvalidRequest, "machineBit is %d, and bitsMachine of the pool %s is %d: they must be equal", bits, p.Name, p.BitsMachine)
	}
	if m.held != nil {
		if swap, err = m.guard(); err != nil {
			err = m.notYet(m.held.Until)
		}
		return swap, m.held.ID, time.UnixMilli(max(m.lease.Lower+1, m.held.RenewedAt)), err
	}
	swap, l, err := m.member.Acquire(m.table, now)
	if err != nil {
		return swap, 0, begin, &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second, Err: admin.ErrAllHeld,
			Detail: "all machine IDs of the pool " + m.pool.Name + " are held"}
	}
	// The client does not wait for its lease to begin. CosId also has numbers of whole seconds.
	if used := l.Lower + time.Second.Milliseconds(); used >= now {
		return swap, 0, begin, m.notYet(used)
	}
	if err := inTime(m.pool, now); err != nil {
		return swap, 0, begin, err
	}
	swap.NewSlot.Token = fmt.Sprintf(machineToken, l.Lower, m.member.Horizon) + l.Token
	alone(&swap)
	return swap, l.ID, time.UnixMilli(l.Lower + 1), nil
}

// guard returns the change that extends the lease that the instance has, without a break.
func (m *machine) guard() (swap persist.SlotSwap, err error) {
	if m.held == nil {
		return swap, leaseLost(machineid.ErrLost)
	}
	t := m.table
	t.Lag = max(t.Lag, m.member.MaxSkew) // see Renew
	swap, next, err := m.member.Renew(t, m.lease, t.Now, 0)
	if err == nil && next.Lower != m.lease.Lower {
		err = machineid.ErrLost
	}
	if err != nil {
		err = leaseLost(err)
	}
	return swap, err
}

// covered returns an error unless a lease may reach so far: as far as leases of the pool do, or as it
// did when it was granted, because that is in the bootstrap part of the registry for longer.
func (m *machine) covered(reach time.Duration) error {
	switch p := m.pool; {
	case reach <= max(m.reach, ttlNow(p, m.table)):
		return nil
	case reach <= p.TTL:
		return &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Minute,
			Detail: "the ttl of the pool " + p.Name + " was set a moment ago, and a failover could lose it: try again in two minutes"}
	default:
		return seqd.Errorf(seqd.CodeInvalidRequest, "safeGuardDuration is %s, and the ttl of the pool %s is %s: raise the ttl", reach, p.Name, p.TTL)
	}
}

// notYet is the error while the machine ID that is free has been used up to a time.
func (m *machine) notYet(used int64) error {
	return &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Duration(used+1-m.table.Now) * time.Millisecond,
		Detail: "no machine ID of the pool " + m.pool.Name + " can be leased before " + admin.Time(used+1) + ": try again then"}
}

var errBusy = &seqd.Error{Code: seqd.CodeOverloaded, RetryAfter: time.Second, Detail: "many programs ask for a machine ID of the pool"}

// Distribute implements [admin.Machines].
func (w *Workers) Distribute(ctx context.Context, pool string, bits int, instance string, reach time.Duration) (id int64, begin time.Time, err error) {
	if _, err := w.recent(ctx, pool); err != nil {
		return 0, begin, err
	}
	// One after the other, because each grant excludes the others.
	q := w.queue(pool)
	if err := q.turn.LockWithin(ctx, turnPatience, errBusy); err != nil {
		return 0, begin, seqd.AsError(err)
	}
	defer q.turn.Unlock()
	again := false
	err = w.machine(ctx, pool, instance, reach, func(m *machine) (swap persist.SlotSwap, err error) {
		swap, id, begin, err = m.distribute(bits)
		again = m.held != nil
		return swap, err
	})
	switch {
	case again:
		w.counted(pool, err)
	case err == nil:
		q.leased.Add(1)
	}
	return id, begin, err
}

// Guard implements [admin.Machines].
func (w *Workers) Guard(ctx context.Context, pool, instance string, reach time.Duration) error {
	err := w.machine(ctx, pool, instance, reach, (*machine).guard)
	w.counted(pool, err)
	return err
}

// machine makes the change that decide returns.
func (w *Workers) machine(ctx context.Context, pool, instance string, reach time.Duration, decide func(*machine) (persist.SlotSwap, error)) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if err := checkInstance(instance); err != nil {
		return err
	}
	p, err := w.recent(ctx, pool)
	if err != nil {
		return err
	}
	for {
		m := machine{pool: p, member: w.instance(p, instance)}
		if m.table, err = w.prepared(ctx, p.Name, m.member); err != nil {
			return err
		}
		m.find()
		m.member.Horizon = reach.Milliseconds()
		swap, err := decide(&m)
		for _, err := range []error{unmixed(p.Name, m.table, true), err, m.covered(reach)} {
			if err != nil {
				return err
			}
		}
		if made, err := w.opts.Slots.Swap(ctx, registry(p.Name), swap); err != nil {
			return failure(err)
		} else if made {
			more := int64(0)
			if m.held == nil {
				more = 1
			}
			w.queue(p.Name).saw(p, m.table, more)
			return nil
		}
	}
}
