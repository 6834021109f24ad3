package bolt

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// formerID is the cluster of the files that these tests write.
const formerID = "0123456789abcdef0123456789abcdef"

// formerFile is what the previous version wrote: the records of each bucket, as JSON.
type formerFile map[string]map[string]string

func newFormerFile() formerFile {
	return formerFile{
		"counters": {
			"order":         `{"bizTag":"order","max":4200,"step":1000,"timestamp":1790000000000,"epoch":"ffffffffffffffffffffffffffffffff"}`,
			"user@20261120": `{"bizTag":"user@20261120","max":7,"step":5,"timestamp":1790000000001}`,
			"user@":         `{"bizTag":"user@","max":20261001,"step":1,"timestamp":1790000000002}`,
		},
		"shapes": {
			"order":         `{"bizTag":"order","shape":"segment obfuscate(12)","timestamp":1790000000003}`,
			"user":          `{"bizTag":"user","shape":"segment daily UTC","timestamp":1790000000004}`,
			"user@20261120": `{"bizTag":"user@20261120","shape":"segment","timestamp":1790000000005}`,
		},
		"clusters":  {"cluster": `{"id":"` + formerID + `","timestamp":1790000000006}`},
		"slots":     {"user": `{"name":"user","slots":[{"id":3,"key":"k","token":"","until":9,"reserved":9,"renewedAt":8}]}`},
		"documents": {"token/a": `{"kind":"token","key":"a","revision":4,"body":"b","timestamp":1}`},
	}
}

// enveloped is a record as it was written.
func enveloped(model string) string {
	return fmt.Sprintf(`{"v":1,"sum":%d,"m":%s}`, crc32.ChecksumIEEE([]byte(model)), model)
}

// write makes the file and returns its path.
func (f formerFile) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seqd.db")
	db, err := bbolt.Open(path, 0o600, nil)
	must.Do(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		for name, records := range f {
			bucket, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			for key, record := range records {
				if json.Valid([]byte(record)) {
					record = enveloped(record)
				}
				if err := bucket.Put([]byte(key), []byte(record)); err != nil {
					return err
				}
			}
		}
		return meta.Put([]byte("format"), []byte("1"))
	})
	must.Do(t, errors.Join(err, db.Close()))
	return path
}

// A file of the previous version keeps its cluster, counters, shapes, machine IDs, and what it
// knows of periods. It is opened again and again.
func TestUpgrade(t *testing.T) {
	f := newFormerFile()
	f["counters"]["order@"] = `{"bizTag":"order@","max":20261001,"step":1,"timestamp":1790000000002}`
	path := f.write(t)
	for i := range 3 {
		s := open(t, path)
		ctx, documents := t.Context(), s.Documents()
		if id, err := persist.ClusterID(ctx, s, time.Now); id != formerID || err != nil {
			t.Errorf("opening %d: the cluster is %q, %v", i, id, err)
		}
		for bizType, want := range map[string]persist.Shape{
			"order": {BizType: "order", Shape: "segment obfuscate(12)", Timestamp: 1790000000003, Revision: 1},
			"user":  {BizType: "user", Shape: "segment daily UTC", Timestamp: 1790000000004, Revision: 1},
		} {
			if got, err := persist.ShapesIn(documents).Read(ctx, bizType); got != want || err != nil {
				t.Errorf("opening %d: the shape is %+v, %v", i, got, err)
			}
		}
		if d, err := documents.Read(ctx, persist.PeriodKind, "user@20261120"); d.Body != "segment" || err != nil {
			t.Errorf("opening %d: the period is %+v, %v", i, d, err)
		}
		gone, err := documents.Read(ctx, persist.PurgedKind, "user")
		if period, failed := persist.PurgedPeriod(gone); period != 20261001 || err != nil || failed != nil {
			t.Errorf("opening %d: purged up to %d, %v, %v", i, period, err, failed)
		}
		if d, err := documents.Read(ctx, "token", "a"); d.Revision != 4 || err != nil {
			t.Errorf("opening %d: the token is %+v, %v", i, d, err)
		}
		if table, err := s.Slots().Look(ctx, "user"); len(table.Slots) != 1 || err != nil {
			t.Errorf("opening %d: the registry is %+v, %v", i, table, err)
		}
		list, err := s.Counters().List(ctx, "", 10)
		if len(list) != 2 || err != nil || list[0].Epoch == "" || list[1].BizTag != "user@20261120" {
			t.Errorf("opening %d: the counters are %+v, %v", i, list, err)
		}
		if r, err := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, To: persist.Beside}); r.First != int64(4201+10*i) || err != nil {
			t.Errorf("opening %d: allocated %+v, %v", i, r, err)
		}
		must.Do(t, s.Close())
	}
}

// The previous version refuses a file that has been upgraded: it knows format 1.
func TestUpgradedFileIsRefusedByThePreviousVersion(t *testing.T) {
	path := newFormerFile().write(t)
	s := open(t, path)
	previous := content{formerBuckets, 1, ""}
	must.Is(t, s.check(previous), persist.ErrNewer, "the previous version says")
}

// What cannot be read is not taken for something that is not there.
func TestUpgradeOfDamagedRecords(t *testing.T) {
	f := newFormerFile()
	f["shapes"]["order"] = "rotten"
	f["shapes"]["user@20261120"] = `{"bizTag":"user@20261121","shape":"segment","timestamp":5}`
	long := strings.Repeat("x", 2000) // no document has this key
	f["shapes"][long] = `{"bizTag":"` + long + `","shape":"segment","timestamp":5}`
	f["counters"]["user@"] = "rotten"
	f["counters"]["order"] = "rotten"
	s := open(t, f.write(t))
	_, shape := persist.ShapesIn(s.Documents()).Read(t.Context(), "order")
	_, period := s.Documents().Read(t.Context(), persist.PeriodKind, "user@20261120")
	_, gone := s.Documents().Read(t.Context(), persist.PurgedKind, "user")
	_, counter := s.Counters().Read(t.Context(), "order")
	for name, err := range map[string]error{"shape": shape, "period": period, "purged": gone, "counter": counter} {
		must.Is(t, err, persist.ErrInvalid, "%s", name)
	}
	f = newFormerFile()
	f["clusters"]["cluster"] = "rotten"
	must.Is(t, must.Err(persist.ClusterID(t.Context(), open(t, f.write(t)), time.Now)), persist.ErrInvalid, "cluster")
}

// Files of the first versions have no buckets for the cluster, the machine IDs and documents; they
// get them and keep their numbers.
func TestUpgradeOfTheFirstVersions(t *testing.T) {
	for name, missing := range map[string][]string{
		"all": {"clusters", "slots", "documents"}, "clusters and slots": {"clusters", "slots"}, "slots": {"slots"}, "clusters": {"clusters"},
		"documents": {"documents"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFormerFile()
			for _, bucket := range missing {
				delete(f, bucket)
			}
			path := f.write(t)
			ids := make(map[string]bool)
			for i := range 2 {
				s := open(t, path)
				id := must.Get(persist.ClusterID(t.Context(), s, time.Now))(t)
				ids[id] = true
				if _, err := s.Counters().Read(t.Context(), "order"); err != nil {
					t.Error(err)
				}
				if list, err := s.Documents().List(t.Context(), "thing", "", 9); err != nil || len(list) != i {
					t.Errorf("documents %+v, %v", list, err)
				}
				if n, err := s.Documents().Purge(t.Context(), "thing", 1, 9); n != 0 || err != nil {
					t.Errorf("purged %d, %v", n, err)
				}
				must.Report(t, s.Documents().Create(t.Context(), persist.Document{Kind: "thing", Key: fmt.Sprint(i), Revision: 1, Expires: 5}))
				if made, err := s.Slots().Swap(t.Context(), "order", persist.SlotSwap{NewSlot: &persist.Slot{ID: int64(i), Key: "k"}}); !made || err != nil {
					t.Errorf("swap: %v, %v", made, err)
				}
				must.Do(t, s.Close())
			}
			if len(ids) != 1 {
				t.Errorf("the IDs are %v", ids)
			}
		})
	}
}

// The upgrade is one transaction: where it is cut off, the file is as it was.
func TestUpgradeThatIsCutOff(t *testing.T) {
	path := newFormerFile().write(t)
	db, err := bbolt.Open(path, 0o600, nil)
	must.Do(t, err)
	errCut := errors.New("cut off")
	err = db.Update(func(tx *bbolt.Tx) error { return errors.Join(upgrade(tx), errCut) })
	if !errors.Is(err, errCut) || errors.Is(err, persist.ErrInvalid) {
		t.Fatal(err)
	}
	must.Do(t, db.Close())
	must.Is(t, must.Err(OpenReadOnly(Options{Path: path, LockTimeout: time.Second, Now: time.Now})), ErrOlder, "to look at")
	s := open(t, path)
	if id, err := persist.ClusterID(t.Context(), s, time.Now); id != formerID || err != nil {
		t.Errorf("the cluster is %q, %v", id, err)
	}
}

// An upgrade that cannot be completed changes nothing: the file stays one of the previous version.
func TestUpgradeThatFails(t *testing.T) {
	former := newFormerFile()
	former["counters"]["@"] = `{"bizTag":"@","max":1,"step":1,"timestamp":1}` // no biz type has this name
	path := former.write(t)
	for range 2 {
		s, err := Open(Options{Path: path, LockTimeout: time.Second, Now: time.Now, noSync: true})
		if err == nil {
			t.Fatal("it was opened", s.Close())
		}
		if !strings.Contains(err.Error(), "key") {
			t.Errorf("got %v", err)
		}
	}
	db, err := bbolt.Open(path, 0o600, nil)
	must.Do(t, err)
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for name, records := range former {
			if b := tx.Bucket([]byte(name)); b == nil || b.Stats().KeyN != len(records) {
				t.Errorf("the bucket %s is not as it was", name)
			}
		}
		return nil
	})
	must.Report(t, err)
}
