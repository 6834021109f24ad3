package ratelimit

import "testing"

// TestReadReply checks that a malformed reply is an error and not a limit.
func TestReadReply(t *testing.T) {
	if left, ok, err := readReply([]any{"1", "2.5"}); left != 2.5 || !ok || err != nil {
		t.Errorf("%v, %v, %v", left, ok, err)
	}
	for _, raw := range []any{nil, "1", []any{}, []any{"1"}, []any{"1", "2", "3"}, []any{int64(1), "2"}, []any{"1", int64(2)}, []any{"2", "2"}} {
		if _, _, err := readReply(raw); err == nil {
			t.Errorf("%v was taken", raw)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	f.Add("1", "2.5")
	f.Add("0", "nan")
	f.Add("1", "-1e309")
	f.Fuzz(func(t *testing.T, verdict, text string) {
		left, ok, err := readReply([]any{verdict, text})
		if err == nil && (!(left >= 0 && left <= most) || ok != (verdict == "1")) || err != nil && ok {
			t.Errorf("%v, %v, %v", left, ok, err)
		}
	})
}
