package snapshot

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// Whatever a file says, it is refused or read to its last byte, and every record is valid. A
// snapshot that was saved is refused if one byte of it is another, or if its end is missing.
func FuzzRead(f *testing.F) {
	store := memory.New(time.Now)
	must.Get(persist.ClusterID(f.Context(), store, time.Now))(f)
	must.Do(f, store.Counters().Create(f.Context(), persist.Counter{BizTag: "order", Max: 7, Step: 1}))
	var good bytes.Buffer
	must.Do(f, Save(f.Context(), store, &good))
	f.Add([]byte{}, 0, byte(0))
	f.Add(good.Bytes(), 0, byte(0))
	for at := range good.Len() {
		f.Add([]byte{}, at, byte(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, at int, flip byte) {
		changed := len(text) == 0 && flip != 0
		if changed {
			text = bytes.Clone(good.Bytes())
			text[(at%len(text)+len(text))%len(text)] ^= flip
		}
		_, err := Read(bytes.NewReader(text), func(Header) error { return nil }, func(r Record) error { return r.validate() })
		if err != nil && !errors.Is(err, ErrSnapshot) || err == nil && changed {
			t.Errorf("%v", err)
		}
		if _, err := Read(bytes.NewReader(good.Bytes()[:max(0, at)%good.Len()]), func(Header) error { return nil }, func(Record) error { return nil }); err == nil {
			t.Error("a part of a snapshot was read")
		}
	})
}
