package persist

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// clusterPersistID is the persist ID of the one [Cluster] of a store.
const clusterPersistID = "cluster"

// Cluster is who the nodes that share a store are together. What they keep elsewhere carries the ID, so that a Redis which is shared by
// mistake with the cluster of another store is noticed.
type Cluster struct {
	// ID is 32 hexadecimal digits, drawn at random once in the life of the store.
	ID string `json:"id"`
	// Timestamp is when it was drawn, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
}

// PersistID is the same for every cluster: a store holds one.
func (c Cluster) PersistID() string { return clusterPersistID }

// Validate returns ErrInvalid unless the ID has the form of one.
func (c Cluster) Validate() error {
	raw, err := hex.DecodeString(c.ID)
	if err != nil || len(raw) != clusterBytes || hex.EncodeToString(raw) != c.ID {
		return invalid("cluster ID %q is not %d hexadecimal digits", c.ID, 2*clusterBytes)
	}
	return nil
}

// CheckUpdate accepts every change; seqd makes none.
func (c Cluster) CheckUpdate(Cluster) error { return nil }

// clusterBytes is how many random bytes an ID has: 128 bits, so that no two stores ever draw the same.
const clusterBytes = 16

// ClusterID returns the ID of the cluster that the store belongs to, and creates it when there is none. Processes that call at once get the
// same one. now is the clock of the timestamp. An error that wraps ErrUnavailable can pass; calling again is always safe.
func ClusterID(ctx context.Context, store Store, now func() time.Time) (string, error) {
	for range 2 {
		known, err := store.Clusters().Read(ctx, clusterPersistID)
		if !errors.Is(err, ErrNotFound) {
			return known.ID, err
		}
		var random [clusterBytes]byte
		_, _ = rand.Read(random[:]) // it never fails
		made := Cluster{ID: hex.EncodeToString(random[:]), Timestamp: now().UnixMilli()}
		err = store.Clusters().Create(ctx, made)
		if !errors.Is(err, ErrExists) {
			return made.ID, err
		}
	}
	// Another process was first, but what it wrote cannot be read yet.
	return "", fmt.Errorf("the cluster's ID: %w: another process is creating it", ErrUnavailable)
}
