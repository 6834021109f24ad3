package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
)

const upgradeYAML = `
bizTypesFrom: config
store: {bolt: {path: %s}}
bizTypes:
  - {name: order, strategy: %s}
  - {name: day, reset: daily, plugins: [{name: format, template: "{date:20060102}{seq:06}"}]}
`

// formerRecords returns the shapes, the cluster and the counters of a store as records of the
// previous version.
func formerRecords(t *testing.T, path string) map[string]map[string]any {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	shapes, counters := make(map[string]any), make(map[string]any)
	for s, err := range persist.ShapesIn(store.Documents()).Every(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		shapes[s.BizType] = map[string]any{"bizTag": s.BizType, "shape": s.Shape, "timestamp": s.Timestamp}
	}
	for d, err := range persist.EveryDocument(t.Context(), store.Documents(), persist.PeriodKind) {
		if err != nil {
			t.Fatal(err)
		}
		shapes[d.Key] = map[string]any{"bizTag": d.Key, "shape": d.Body, "timestamp": d.Timestamp}
	}
	for c, err := range persist.EveryCounter(t.Context(), store.Counters()) {
		if err != nil {
			t.Fatal(err)
		}
		counters[c.BizTag] = c
	}
	cluster, err := persist.ReadCluster(t.Context(), store.Documents())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]map[string]any{
		"shapes": shapes, "counters": counters, "slots": nil, "documents": nil,
		"clusters": {"cluster": map[string]any{"id": cluster.ID, "timestamp": cluster.Timestamp}},
	}
}

// writeFormer writes a file of format 1.
func writeFormer(t *testing.T, path string, buckets map[string]map[string]any) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		for name, records := range buckets {
			bucket, failed := tx.CreateBucket([]byte(name))
			err = errors.Join(err, failed)
			for key, record := range records {
				text, failed := json.Marshal(record)
				enveloped := fmt.Sprintf(`{"v":1,"sum":%d,"m":%s}`, crc32.ChecksumIEEE(text), text)
				err = errors.Join(err, failed, bucket.Put([]byte(key), []byte(enveloped)))
			}
		}
		return errors.Join(err, meta.Put([]byte("format"), []byte("1")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestUpgradedStoreStillProtects checks that numbers continue in a file of the previous version,
// that a change that could repeat IDs (U6) is rejected, and that a removed period does not start
// again.
func TestUpgradedStoreStillProtects(t *testing.T) {
	dir := t.TempDir()
	serve := func(path, strategy string, check func(s *service)) {
		t.Helper()
		s := start(t, load(t, fmt.Sprintf(upgradeYAML, path, strategy)))
		check(s)
		if err := s.stop(); err != nil {
			t.Fatal(err)
		}
	}
	made := filepath.Join(dir, "made.db")
	serve(made, "segment", func(s *service) {
		s.await("/seq/order?count=5", http.StatusOK)
		s.await("/seq/day", http.StatusOK)
	})
	former := formerRecords(t, made)

	path := filepath.Join(dir, "former.db")
	writeFormer(t, path, former)
	serve(path, "other", func(s *service) {
		wantCode(t, s.await("/seq/order", http.StatusConflict), seqd.CodeConflict)
	})
	serve(path, "segment", func(s *service) {
		if body := s.await("/seq/order", http.StatusOK); !strings.Contains(body, `"6"`) {
			t.Errorf("after 5 came %s", body)
		}
		if body := s.await("/seq/day", http.StatusOK); !strings.Contains(body, "2") {
			t.Errorf("after 1 came %s", body)
		}
	})

	former["counters"]["day@"] = persist.Counter{BizTag: "day@", Max: 29991231, Step: 1, Timestamp: 1}
	path = filepath.Join(dir, "purged.db")
	writeFormer(t, path, former)
	serve(path, "segment", func(s *service) {
		s.await("/seq/order", http.StatusOK) // it has started
		wantCode(t, s.await("/seq/day", http.StatusServiceUnavailable), seqd.CodeClockRollback)
	})
}
