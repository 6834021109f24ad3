package counters

import "testing"

// The name of a counter reads as what it was made from, and nothing else does.
func TestParseName(t *testing.T) {
	for counter, want := range map[string]Name{
		"invoice": {}, "invoice/k1": {Key: "k1"}, "invoice@2026": {Period: 20260000}, "invoice@20261120": {Period: 20261120},
		"invoice/k1@202611": {Key: "k1", Period: 20261100},
	} {
		if got, ok := ParseName("invoice", counter); !ok || got != want {
			t.Errorf("%s: %+v, %t", counter, got, ok)
		}
	}
	for _, counter := range []string{"", "invoices", "order", "invoice@", "invoice@1", "invoice@x", "invoice/", "invoice/k1@", "invoice/k1@1", "invoicek1", "invoice@2026@2026"} {
		if got, ok := ParseName("invoice", counter); ok {
			t.Errorf("%s is read as %+v", counter, got)
		}
	}
}
