package sheet

import (
	"math"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "=a": "'=a", " =a": " '=a", "a=b": "a=b", "a;=b": "a;'=b", "a, -1": "a, '-1", "a|@b": "a|'@b", `"+1`: `"'+1`, "＝a": "'＝a", "a =b": "a =b", "  =1": "  '=1", "@SUM(A1)": "'@SUM(A1)", "x;=cmd|' /C calc'!A0": "x;'=cmd|' /C calc'!A0", "a = b, see 3-4": "a = b, see 3-4"} {
		must.Equal(t, Text(text), want, "%s is shown as", text)
	}
}

func TestID(t *testing.T) {
	for id, want := range map[string]string{
		"": "", "7": "7", "INV-2026-7": "INV-2026-7", "007": "'007", "1234567890123456": "'1234567890123456", "99999999999999999999": "'99999999999999999999",
		"1E5": "'1E5", "2026-11-01": "'2026-11-01", "mar-01": "'mar-01", "TRUE": "'TRUE", "TRUE-1": "TRUE-1", "-1": "-1", "-01": "'-01", "=1": "'=1", "(5)": "'(5)", "a;=1": "a;'=1",
	} {
		must.Equal(t, ID(id), want, "%s is shown as", id)
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", -7: "-7", 999_999_999_999_999: "999999999999999", -999_999_999_999_999: "-999999999999999",
		1_000_000_000_000_000: "'1000000000000000", 9_007_199_254_740_993: "'9007199254740993", math.MaxInt64: "'9223372036854775807",
	} {
		must.Equal(t, Number(n), want, "%d is shown as", n)
	}
}
