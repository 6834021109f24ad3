package sheet

import (
	"math"
	"testing"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "=a": "'=a", " =a": " '=a", "a=b": "a=b", "a;=b": "a;'=b", "a, -1": "a, '-1", "a|@b": "a|'@b", `"+1`: `"'+1`, "＝a": "'＝a", "a =b": "a =b", "  =1": "  '=1", "@SUM(A1)": "'@SUM(A1)", "x;=cmd|' /C calc'!A0": "x;'=cmd|' /C calc'!A0", "a = b, see 3-4": "a = b, see 3-4"} {
		if got := Text(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", -7: "-7", 999_999_999_999_999: "999999999999999", -999_999_999_999_999: "-999999999999999",
		1_000_000_000_000_000: "'1000000000000000", 9_007_199_254_740_993: "'9007199254740993", math.MaxInt64: "'9223372036854775807",
	} {
		if got := Number(n); got != want {
			t.Errorf("%d is shown as %s, want %s", n, got, want)
		}
	}
}
