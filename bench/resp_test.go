package main

import "testing"

func TestCommandRate(t *testing.T) {
	const names = `"test","rps","avg_latency_ms"` + "\n"
	if rate, err := commandRate([]byte(names + `"INCR order","1234.50","0.1"` + "\n")); rate != 1234.5 || err != nil {
		t.Error(rate, err)
	}
	for _, bad := range []string{"", names, names + `"INCR order","many","0.1"` + "\n", "Could not connect\n"} {
		if rate, err := commandRate([]byte(bad)); err == nil {
			t.Errorf("%q is a rate of %v", bad, rate)
		}
	}
}
