package bolt

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

func someHistory(n int64) []persist.HistoryRecord {
	return []persist.HistoryRecord{{ID: persist.HistoryID(n, 1, 1), BizType: "order", Time: n, First: n, Last: n, Count: 1}}
}

// History is in a file of its own, which is made when it is first used and is there after
// reopening.
func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	must.Is(t, must.Err(os.Stat(path+historySuffix)), os.ErrNotExist, "the file is there before anything was kept")
	must.Do(t, s.History().Append(t.Context(), someHistory(5)))
	must.Do(t, s.Close())
	list, err := open(t, path).History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 5})
	if err != nil || len(list) != 1 || list[0].First != 5 {
		t.Errorf("after reopening %+v, %v", list, err)
	}
}

// A history that cannot be opened, written or read is an error of its own; ranges go on.
func TestDamagedHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	must.Do(t, os.WriteFile(path+historySuffix, []byte("no bbolt file"), 0o600))
	s := open(t, path)
	addCounter(t, s, "order")
	if err := s.History().Append(t.Context(), someHistory(5)); err == nil {
		t.Error("a damaged file was written to")
	}
	must.Report(t, must.Err(s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10})))
	// Once it is out of the way, a new one is made, without a restart.
	must.Do(t, os.Remove(path+historySuffix))
	must.Report(t, s.History().Append(t.Context(), someHistory(5)))
	must.Do(t, os.Remove(path+historySuffix))
	must.Is(t, s.History().Append(t.Context(), someHistory(6)), persist.ErrUnavailable, "written to a file without a name")
	must.Report(t, must.Err(s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10})))
}

// A record under the key of another is not shown.
func TestHistoryRecordOfAnother(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	err := s.history.update(t.Context(), func(b *bbolt.Bucket) error {
		record, err := persist.Encode(someHistory(5)[0])
		return errors.Join(err, b.Put([]byte(someHistory(6)[0].PersistID()), record))
	})
	list, listErr := s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 5})
	if err != nil || len(list) != 0 || !errors.Is(listErr, persist.ErrInvalid) {
		t.Errorf("%v; %v, %v", err, list, listErr)
	}
}
