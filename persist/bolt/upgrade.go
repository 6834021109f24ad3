package bolt

import (
	"bytes"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// A file of format 1 keeps the cluster, the shapes and what is known of periods outside the
// documents; see [persist.FormerShape]. Files of the first versions lack clusters, slots and
// documents. The bucket of the shapes stays, empty: without it the previous version would say that
// the file is no store, and not that it is of a newer format.
var (
	shapesBucket   = []byte("shapes")
	clustersBucket = []byte("clusters")
	formerBuckets  = [][]byte{countersBucket, shapesBucket}
)

// The records of format 1.
type (
	formerShape struct {
		BizTag    string `json:"bizTag"`
		Shape     string `json:"shape"`
		Timestamp int64  `json:"timestamp"`
	}
	formerCluster struct {
		ID        string `json:"id"`
		Timestamp int64  `json:"timestamp"`
	}
)

func (s formerShape) PersistID() string { return s.BizTag }

func (s formerShape) Validate() error {
	_, err := persist.FormerShape(s.BizTag, s.Shape, s.Timestamp)
	return err
}

func (formerCluster) PersistID() string { return "cluster" }

func (c formerCluster) Validate() error { return persist.Cluster(c).Validate() }

// upgrade turns a file of format 1 into one of format 2. It is one transaction: a crash leaves the
// one or the other.
func upgrade(tx *bbolt.Tx) error {
	for _, name := range [][]byte{slotsBucket, documentsBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	for _, step := range []func(*bbolt.Tx) error{upgradeClusters, upgradeShapes, upgradePurged} {
		if err := step(tx); err != nil {
			return err
		}
	}
	if _, err := tx.CreateBucket(shapesBucket); err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(formatKey, formatValue(Format))
}

func upgradeClusters(tx *bbolt.Tx) error {
	return replace(tx, clustersBucket, func(_ string, data []byte) (persist.Document, error) {
		c, err := persist.Decode[formerCluster](data)
		return persist.Cluster(c).Document(), err
	})
}

func upgradeShapes(tx *bbolt.Tx) error {
	return replace(tx, shapesBucket, func(key string, data []byte) (persist.Document, error) {
		s, err := persist.Decode[formerShape](data)
		if err == nil && s.BizTag != key {
			err = persist.ErrInvalid
		}
		d, _ := persist.FormerShape(key, s.Shape, s.Timestamp) // Decode has validated it
		return d, err
	})
}

// replace puts a document in the place of each record of a bucket, and removes the bucket.
func replace(tx *bbolt.Tx, name []byte, document func(key string, data []byte) (persist.Document, error)) error {
	former := tx.Bucket(name)
	if former == nil {
		return nil
	}
	documents := tx.Bucket(documentsBucket)
	documents.FillPercent = fillPercent
	err := former.ForEach(func(key, data []byte) error {
		d, err := document(string(key), data)
		return putUpgraded(documents, d, data, err)
	})
	if err != nil {
		return err
	}
	return tx.DeleteBucket(name)
}

// putUpgraded writes a document. A record that cannot be read stays as it is under the document's
// key, where it cannot be read either: it still stands for something that must not begin again.
func putUpgraded(b *bbolt.Bucket, d persist.Document, former []byte, unreadable error) error {
	if unreadable != nil {
		return b.Put([]byte(d.PersistID()), bytes.Clone(former))
	}
	return put(b, d)
}

// upgradePurged moves the counters that say which periods were removed.
func upgradePurged(tx *bbolt.Tx) error {
	counters, documents := tx.Bucket(countersBucket), tx.Bucket(documentsBucket)
	var moved []string
	err := counters.ForEach(func(key, data []byte) error {
		if !strings.HasSuffix(string(key), "@") {
			return nil
		}
		c, err := persist.Decode[persist.Counter](data)
		if err == nil && c.BizTag != string(key) {
			err = persist.ErrInvalid
		}
		c.BizTag = string(key)
		d, _ := persist.FormerPurged(c)
		moved = append(moved, c.BizTag)
		return putUpgraded(documents, d, data, err)
	})
	if err != nil {
		return err
	}
	for _, name := range moved {
		if err := counters.Delete([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}
