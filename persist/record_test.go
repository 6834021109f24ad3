package persist_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/seqd/seqd/persist"
)

func TestRecordsSurviveEncoding(t *testing.T) {
	want := persist.Counter{BizTag: "order", Max: persist.MaxNumber, Step: 1000, Timestamp: 1_790_000_000_000}
	data, err := persist.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := persist.Decode[persist.Counter](data)
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestDecodeRefusesWhatItCannotRead(t *testing.T) {
	tests := map[string]error{
		``:   persist.ErrInvalid,
		`{}`: persist.ErrInvalid,
		`{"v":1,"m":{"bizTag":"a","max":1,"step":1}`:           persist.ErrInvalid,
		`{"v":1,"m":{"bizTag":"a","max":-1,"step":1}}`:         persist.ErrInvalid,
		`{"v":1,"m":{"bizTag":"a","max":1.5,"step":1}}`:        persist.ErrInvalid,
		`{"v":1,"m":{"bizTag":"a","max":1}}`:                   persist.ErrInvalid,
		`{"v":2,"m":{"bizTag":"a","max":1,"step":1}}`:          persist.ErrNewer,
		`{"v":2,"m":{"bizTag":"a","max":1,"shape":"unknown"}}`: persist.ErrNewer,
	}
	for data, want := range tests {
		if _, err := persist.Decode[persist.Counter]([]byte(data)); !errors.Is(err, want) {
			t.Errorf("decode %s: %v, want %v", data, err, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"m":{"bizTag":"order","max":99,"step":1000,"timestamp":5}}`))
	f.Add([]byte(`{"v":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := persist.Decode[persist.Counter](data)
		if err != nil {
			return
		}
		again, err := persist.Encode(c)
		if err != nil {
			t.Fatalf("decoded %+v but cannot encode it: %v", c, err)
		}
		back, err := persist.Decode[persist.Counter](again)
		if err != nil || back != c {
			same, _ := json.Marshal(c)
			t.Fatalf("%s came back as %+v, %v", same, back, err)
		}
	})
}
