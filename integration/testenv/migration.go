package testenv

import (
	"context"
	"strconv"
	"time"
)

// Migration is the move of a slot, step by step. During the move, the old owner serves the keys
// that it still has and answers ASK for others. The new owner serves keys only after ASKING.
type Migration struct {
	From, To *Redis
	Slot     int
	cluster  *Cluster
	key      string // a key of the slot
}

// MigrateSlot moves the slot of a key and all its keys to another master, waits until all nodes
// know, and returns that master.
func (c *Cluster) MigrateSlot(key string) *Redis {
	c.t.Helper()
	m := c.BeginMigration(key)
	m.MoveKeys()
	m.Finish()
	return m.To
}

// BeginMigration starts the move of a key's slot to another master (SETSLOT IMPORTING and
// MIGRATING). It moves no keys.
func (c *Cluster) BeginMigration(key string) *Migration {
	c.t.Helper()
	m := &Migration{From: c.Master(key), Slot: c.slot(key), cluster: c, key: key}
	m.To = c.masterBut(m.From)
	m.set(m.To, "IMPORTING", c.ids[m.From])
	m.set(m.From, "MIGRATING", c.ids[m.To])
	return m
}

// masterBut returns a master other than the given one.
func (c *Cluster) masterBut(but *Redis) *Redis {
	c.t.Helper()
	var other *Redis
	eventually(c.t, "the cluster is well and has another master", func(ctx context.Context) error {
		shared, err := c.well(ctx)
		for _, owned := range shared {
			if node := c.ownerIn(shared, owned.first); node != nil && node != but {
				other = node
			}
		}
		return err
	})
	return other
}

// MoveKeys moves the current keys of the slot (MIGRATE).
func (m *Migration) MoveKeys() {
	m.cluster.t.Helper()
	ctx, cancel := within()
	defer cancel()
	for {
		keys, err := m.From.client.ClusterGetKeysInSlot(ctx, m.Slot, 100).Result()
		must(m.cluster.t, m.From, "CLUSTER GETKEYSINSLOT", err)
		for _, key := range keys {
			err := m.From.client.Migrate(ctx, "127.0.0.1", strconv.Itoa(m.To.port), key, 0, 5*time.Second).Err()
			must(m.cluster.t, m.From, "migrate "+key, err)
		}
		if len(keys) == 0 {
			return
		}
	}
}

// Finish makes the new master the owner of the slot (SETSLOT NODE) and waits until all nodes know.
func (m *Migration) Finish() {
	m.cluster.t.Helper()
	// The new owner comes first. Otherwise the old owner would redirect clients to a node that
	// rejects them.
	m.set(m.To, "NODE", m.cluster.ids[m.To])
	m.set(m.From, "NODE", m.cluster.ids[m.To])
	m.cluster.AwaitMaster(m.key, m.From)
}

func (m *Migration) set(node *Redis, state, id string) {
	m.cluster.t.Helper()
	ctx, cancel := within()
	defer cancel()
	must(m.cluster.t, node, "CLUSTER SETSLOT "+state, node.client.Do(ctx, "CLUSTER", "SETSLOT", m.Slot, state, id).Err())
}
