package outbound

import (
	"net/http"
	"testing"
	"time"
)

func FuzzParseURL(f *testing.F) {
	for _, text := range []string{"http://a", "https://u:p@a:1/b?c#d", "http://[::1%25eth0]:80", "", "http://%41:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseURL(text)
		if err != nil {
			return
		}
		if _, err := http.NewRequest(http.MethodPost, u.String(), nil); err != nil {
			t.Errorf("%q passes, and no request can be made of it: %v", text, err)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, text := range []string{"", "5", "-1", "99999999999999999999", "Sat, 21 Nov 2026 12:00:00 GMT", "1.5"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 21, 11, 59, 50, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if d := RetryAfter(text, now, time.Minute); d < 0 || d > time.Minute {
			t.Errorf("%q: %s", text, d)
		}
	})
}
