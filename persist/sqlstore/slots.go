package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// slots keeps each record of a registry of machine IDs in a row ([persist.Registry]). Whoever changes
// a registry locks its root first. The clock of a registry is that of the server.
type slots struct{ *link }

var _ persist.SlotStore = (*slots)(nil)

// root is the ID of the row with the bootstrap part.
const root = persist.Root

// lag is how old the writes can be that a failover loses, in ms: as old as a standby may be behind.
const lag = 60_000

// lagOf returns the lag of a registry. In a store that has never failed over, one that is empty is
// new and lost nothing; nor did any if failovers lose nothing from now on. origin is the fence under
// which the tables were created. It is not the one that was confirmed last: what an operator
// confirmed may be lost all the same.
func lagOf(t persist.SlotTable, all, lossless bool, origin string) int64 {
	if t.Source == origin && (lossless || all && t.Set == nil && len(t.Slots) == 0) {
		return 0
	}
	return lag
}

// Look implements [persist.SlotStore]. One statement reads the slots, the fences and then the
// clock. What it returns can be relied on after a failover as far as acknowledged writes can: a
// write whose acknowledgement was cancelled is visible, but only a later write proves it.
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return t, err
	}
	found := persist.Registry{Name: registry}
	var fence, origin string
	statement := "SELECT s.id, s.body, " + s.presentFence() + ", COALESCE((SELECT origin FROM seqd_schema), ''), " + s.proof() + ", " + s.dialect.Clock +
		" FROM (SELECT 1) one LEFT JOIN seqd_slots s ON s.registry = ?" + among(ids)
	err = s.db.Query(ctx, "read slots", statement, func(scan Scan) error {
		var id *int64
		var body []byte
		var proof int64
		err := scan(&id, &body, &fence, &origin, &proof, &t.Now)
		switch {
		case err != nil:
			return err
		case fence == "":
			return ErrStandby
		case id == nil:
			return nil
		}
		return found.Add(*id, body)
	}, []byte(registry))
	if err != nil {
		return persist.SlotTable{}, about(registry, err)
	}
	slices.SortFunc(found.Slots, func(a, b persist.Slot) int { return cmp.Compare(a.ID, b.ID) })
	t.Set, t.Slots, t.Source = found.Set, found.Slots, fence
	t.Lag = lagOf(t, len(ids) == 0, s.opts.Lossless, origin)
	return t, nil
}

// among selects the root and the slots with these IDs, or all slots if there are none.
func among(ids []int64) string {
	if len(ids) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, " AND s.id IN (%d", root)
	for _, id := range ids {
		fmt.Fprintf(&b, ",%d", id)
	}
	return b.String() + ")"
}

// errUnlike ends a transaction that changes nothing because something is not as it was seen.
var errUnlike = errors.New("something is not as it was seen")

// Swap implements [persist.SlotStore]. It compares and sets in one transaction. That compares the
// fence too: no server changes it during a transaction.
func (s *slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	err := s.change(ctx, "swap slot", registry, swap.IDs(), func(old persist.Registry, fence string) (persist.Registry, error) {
		next, made := old, false
		if swap.Source == fence {
			step := swap     // the driver may do this again
			step.Source = "" // [persist.Registry] knows none
			next, made = old.Swapped(step)
		}
		if !made {
			return old, errUnlike
		}
		return next, nil
	})
	if errors.Is(err, errUnlike) {
		return false, nil
	}
	return err == nil, about(registry, err)
}

// Drop implements [persist.SlotStore].
func (s *slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	return about(registry, s.change(ctx, "drop slots", registry, []int64{root}, func(old persist.Registry, _ string) (persist.Registry, error) {
		if old.Set == nil {
			return old, persist.ErrNotFound
		}
		old.Set = nil
		return old, nil
	}))
}

// decision returns what a registry becomes, or an error if it stays as it is.
type decision func(old persist.Registry, fence string) (persist.Registry, error)

// change replaces the rows with these IDs by what decide returns, in one transaction.
func (s *slots) change(ctx context.Context, name, registry string, ids []int64, decide decision) error {
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	empty, err := persist.Encode(persist.Registry{Name: registry})
	if err != nil {
		return err
	}
	return s.db.Transact(ctx, name, func(c Conn) error {
		// A row that does not exist cannot be locked.
		_, err := c.Exec(ctx, "create registry", "INSERT INTO seqd_slots (registry, id, body) VALUES (?,?,?)"+s.dialect.KeepFirst,
			[]byte(registry), root, empty)
		if err != nil {
			return err
		}
		fence, err := s.lock(ctx, c, registry)
		if err != nil {
			return err
		}
		old, err := read(ctx, c, registry, ids)
		if err != nil {
			return err
		}
		next, err := decide(old, fence)
		if err != nil {
			return err
		}
		return write(ctx, c, old, next, ids)
	})
}

// lock waits until this transaction is the only one that changes the registry.
func (s *slots) lock(ctx context.Context, c Conn, registry string) (fence string, err error) {
	err = c.Query(ctx, "lock registry", "SELECT "+s.presentFence()+" FROM seqd_slots s WHERE s.registry = ? AND s.id = ? FOR UPDATE",
		func(scan Scan) error { return scan(&fence) }, []byte(registry), root)
	if err == nil && fence == "" {
		err = ErrStandby
	}
	return fence, err
}

// read reads some rows of a registry. FOR UPDATE reads what others have committed by now.
func read(ctx context.Context, c Conn, registry string, ids []int64) (persist.Registry, error) {
	found := persist.Registry{Name: registry}
	err := c.Query(ctx, "read registry", "SELECT s.id, s.body FROM seqd_slots s WHERE s.registry = ?"+among(ids)+" FOR UPDATE", func(scan Scan) error {
		var id int64
		var body []byte
		if err := scan(&id, &body); err != nil {
			return err
		}
		return found.Add(id, body)
	}, []byte(registry))
	return found, err
}

// write replaces the rows of a registry that differ: the root, and at most one slot.
func write(ctx context.Context, c Conn, old, next persist.Registry, ids []int64) error {
	records, err := next.Records()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id == root && next.Set == old.Set { // the same pointer: it is never changed in place
			continue
		}
		statement := "UPDATE seqd_slots SET body = ? WHERE registry = ? AND id = ?"
		if id != root && len(old.Slots) == 0 {
			statement = "INSERT INTO seqd_slots (body, registry, id) VALUES (?,?,?)"
		}
		if err := one(c.Exec(ctx, "write registry", statement, records[id], []byte(next.Name), id)); err != nil {
			return err
		}
	}
	return nil
}
