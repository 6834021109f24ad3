package persist_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

func TestRecordsSurviveEncoding(t *testing.T) {
	want := persist.Counter{BizTag: "order", Max: persist.MaxNumber, Step: 1000, Timestamp: 1_790_000_000_000}
	data := must.Get(persist.Encode(want))(t)
	must.Equal(t, must.Get(persist.Decode[persist.Counter](data))(t), want)
}

func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	good := must.Get(persist.Encode(persist.Counter{BizTag: "order", Max: 1234, Step: 10, Timestamp: 5}))(t)
	tests := map[string]error{
		``:                             persist.ErrInvalid,
		`{}`:                           persist.ErrInvalid,
		`{"v":1,"m":{"bizTag":"a"}}`:   persist.ErrInvalid,
		string(good[:len(good)-1]):     persist.ErrInvalid,
		`{"v":2,"m":{"other":"x"}}`:    persist.ErrNewer,
		`{"v":2,"what":"comes later"}`: persist.ErrNewer,
	}
	for data, want := range tests {
		must.Is(t, must.Err(persist.Decode[persist.Counter]([]byte(data))), want, "decode %s", data)
	}
	// Whatever single bit rots, the record is refused or says the same.
	for i := range good {
		for bit := range 8 {
			rotten := bytes.Clone(good)
			rotten[i] ^= 1 << bit
			if c, err := persist.Decode[persist.Counter](rotten); err == nil && c != (persist.Counter{BizTag: "order", Max: 1234, Step: 10, Timestamp: 5}) {
				t.Errorf("%s was read as %+v", rotten, c)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := must.Get(persist.Encode(persist.Counter{BizTag: "order", Max: 99, Step: 1000, Timestamp: 5}))(f)
	f.Add(good)
	f.Add([]byte(`{"v":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := persist.Decode[persist.Counter](data)
		if err != nil {
			return
		}
		again := must.Get(persist.Encode(c))(t)
		back, err := persist.Decode[persist.Counter](again)
		if err != nil || back != c {
			same, _ := json.Marshal(c)
			t.Fatalf("%s came back as %+v, %v", same, back, err)
		}
	})
}
