package persist

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ClusterKind is the kind of the one document that says which cluster a store belongs to: its key
// is [ClusterKey] and its body the ID.
const (
	ClusterKind = "cluster"
	ClusterKey  = "id"
)

// OfAnotherCluster ends the sentence about something in Redis that carries the ID of another
// cluster.
const OfAnotherCluster = " belongs to a cluster with another store: either Redis, or redis.keyPrefix, is shared by mistake, or this store is not the one that numbers came from, such as a restored backup of another cluster: find out which before you change anything"

// Cluster identifies the nodes that share a store. What they keep in Redis and in files carries its
// ID, so that a Redis that two clusters share by mistake is noticed.
type Cluster struct {
	// ID is 32 hexadecimal digits, drawn at random once in the life of the store.
	ID string `json:"id"`
	// Timestamp is when the ID was drawn, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
}

// Validate returns ErrInvalid unless the ID has the form of one.
func (c Cluster) Validate() error {
	if !isRandom(c.ID) {
		return invalid("cluster ID %q is not %d hexadecimal digits", c.ID, 2*randomBytes)
	}
	return nil
}

// Document returns the document of the cluster.
func (c Cluster) Document() Document {
	return Document{Kind: ClusterKind, Key: ClusterKey, Revision: 1, Body: c.ID, Timestamp: c.Timestamp}
}

// ReadCluster returns the cluster that a store belongs to, or ErrNotFound, ErrRestoring or ErrMoved.
func ReadCluster(ctx context.Context, documents Documents) (Cluster, error) {
	doc, err := documents.Read(ctx, ClusterKind, ClusterKey)
	if err != nil {
		return Cluster{}, err
	}
	c := Cluster{ID: doc.Body, Timestamp: doc.Timestamp}
	if strings.HasPrefix(doc.Body, restoring) {
		return c, ErrRestoring
	}
	if m, ok := MovedIn(doc); ok {
		return Cluster{ID: m.Cluster, Timestamp: m.Created}, m
	}
	return c, c.Validate()
}

// randomBytes is how many random bytes the ID of a cluster and an epoch have: 128 bits, so that no
// two are ever the same.
const randomBytes = 16

// drawn returns 32 hexadecimal digits that nobody has drawn before.
func drawn() string {
	var random [randomBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// isRandom reports whether a text has the form of what drawn returns.
func isRandom(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == randomBytes && hex.EncodeToString(raw) == text
}

// NewEpoch draws a sequencer epoch: 32 hexadecimal digits. It is safe for concurrent use.
func NewEpoch() string { return drawn() }

// ClusterID returns the ID of the cluster that the store belongs to. If there is none, it draws
// one. Concurrent calls return the same ID. now is the clock of the timestamp. If the error wraps
// ErrUnavailable, call again; that is always safe.
func ClusterID(ctx context.Context, store Store, now func() time.Time) (string, error) {
	for range 2 {
		known, err := ReadCluster(ctx, store.Documents())
		if !errors.Is(err, ErrNotFound) {
			return known.ID, err
		}
		made := Cluster{ID: drawn(), Timestamp: now().UnixMilli()}
		err = store.Documents().Create(ctx, made.Document())
		if !errors.Is(err, ErrExists) {
			return made.ID, err
		}
	}
	// Another process was first, but what it wrote cannot be read yet.
	return "", fmt.Errorf("the cluster's ID: %w: another process is creating it", ErrUnavailable)
}
