package client

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// slowlyEven decides without cleverness whether an answer is even.
func slowlyEven(body []byte, n int) (ids []string, ok bool) {
	rest, begins := strings.CutPrefix(string(body), `{"bizType":"order","ids":["`)
	rest, ends := strings.CutSuffix(rest, `"]}`)
	ids = strings.Split(rest, `","`)
	for i, id := range ids {
		if id == "" || plainEnd([]byte(id), 0) < len(id) || len(id) != len(ids[0]) || i > 0 && id <= ids[i-1] {
			return nil, false
		}
	}
	return ids, begins && ends && len(ids) == n
}

// checkEven compares decodeEven with slowlyEven.
func checkEven(t *testing.T, body []byte, n int) {
	t.Helper()
	want, wanted := slowlyEven(body, n)
	got, ok := decodeEven(body, "order", n)
	if ok != wanted || ok && (got.n != n || !slices.Equal(got.all(), want)) {
		t.Errorf("%q as %d: got %q, %v", body, n, got.all(), ok)
	}
}

func TestEven(t *testing.T) {
	for _, ids := range [][]string{
		{"100"}, {"100", "101", "102"}, {"12345678", "12345679"}, {"INV-2026-000001", "INV-2026-000002"},
		{"100", "100"}, {"101", "100"}, {"100", "1000"}, {"1,\"", "2,\""}, {`1"]}`, `2"]}`}, {"é", "ê"}, {"", ""}, {},
	} {
		body := must(json.Marshal(map[string]any{"bizType": "order", "ids": ids}))(t)
		for n := range len(ids) + 2 {
			for cut := range len(body) + 1 {
				checkEven(t, body[:cut], n)
			}
			checkEven(t, append(slices.Clone(body), ' '), n)
		}
	}
}

// Every character in every place of the second of three IDs.
func TestEvenCharacters(t *testing.T) {
	for length := 1; length <= 26; length++ {
		for _, fill := range []string{" ", "7"} {
			ids := []string{strings.Repeat(fill, length), strings.Repeat(fill, length), strings.Repeat("~", length)}
			body := []byte(`{"bizType":"order","ids":["` + strings.Join(ids, `","`) + `"]}`)
			second := len(body) - len(`"]}`) - length - len(`","`) - length
			for place := range length {
				for c := range 256 {
					if c == 0x7f {
						continue // it may stand for itself, but nobody writes it so
					}
					body[second+place] = byte(c)
					checkEven(t, body, 3)
					body[second+place] = fill[0]
				}
			}
		}
	}
}

// Even answers of all widths, with one byte changed or not.
func TestEvenAtRandom(t *testing.T) {
	for range 3000 {
		n, width, step := 1+rand.IntN(3*chunkIDs), 3+rand.IntN(20), 1+rand.IntN(20)
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("%0*d", width, i*step)[:width]
		}
		body := []byte(`{"bizType":"order","ids":["` + strings.Join(ids, `","`) + `"]}`)
		checkEven(t, body, n)
		body[rand.IntN(len(body))] = " 059\"\\,]}\n\x00\x80"[rand.IntN(12)]
		checkEven(t, body, n)
	}
}

func FuzzEven(f *testing.F) {
	f.Add([]byte(`100","101","102`), 3)
	f.Add([]byte(`1234567890123456789","1234567890123456790`), 2)
	f.Fuzz(func(t *testing.T, ids []byte, n int) {
		if strings.Contains(string(ids), "\x7f") {
			return // see TestEvenCharacters
		}
		checkEven(t, []byte(`{"bizType":"order","ids":["`+string(ids)+`"]}`), n)
	})
}
