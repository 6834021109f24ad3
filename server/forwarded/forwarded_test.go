package forwarded

import (
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestAddr(t *testing.T) {
	const proxy, stranger = "192.0.2.1:1234", "198.51.100.1:1234"
	for _, tt := range []struct{ header, peer, lines, want string }{
		{For, stranger, "203.0.113.9", "198.51.100.1"},
		{For, proxy, "", "192.0.2.1"},
		{For, "[::ffff:192.0.2.1]:1234", "203.0.113.9", "203.0.113.9"},
		{For, "[fe80::1%eth0]:1234", "203.0.113.9", "fe80::1"},
		{For, "@", "203.0.113.9", "@"},
		{For, proxy, "203.0.113.9", "203.0.113.9"},
		{For, proxy, "203.0.113.9:4711", "203.0.113.9"},
		{For, proxy, "2001:db8::7", "2001:db8::7"},
		{For, proxy, "2001:DB8:0::7", "2001:db8::7"},
		{For, proxy, "[2001:db8::7]", "2001:db8::7"},
		{For, proxy, "[2001:db8::7]:4711", "2001:db8::7"},
		{For, proxy, "fe80::7%eth0", "fe80::7"},
		{For, proxy, "[fe80::7%25eth0]:4711", "fe80::7"},
		{For, proxy, "::ffff:203.0.113.9", "203.0.113.9"},
		{For, proxy, "[::ffff:203.0.113.9]:80", "203.0.113.9"},
		// What stands before the last stranger was claimed by it.
		{For, proxy, "1.1.1.1, 203.0.113.9", "203.0.113.9"},
		{For, proxy, "1.1.1.1,203.0.113.9:80\t, 192.0.2.7:80", "203.0.113.9"},
		{For, proxy, "1.1.1.1|203.0.113.9", "203.0.113.9"},
		{For, proxy, "1.1.1.1|203.0.113.9, 192.0.2.7|[2001:db8:1::1]:80", "203.0.113.9"},
		{For, proxy, "192.0.2.8, 192.0.2.7", "192.0.2.8"},
		{For, proxy, ", 203.0.113.9,, ,|,", "203.0.113.9"},
		{For, proxy, "::ffff:192.0.2.7", "192.0.2.7"},
		// A proxy that names nobody is the caller.
		{For, proxy, "unknown", "192.0.2.1"},
		{For, proxy, "203.0.113.9, unknown, 192.0.2.7", "192.0.2.7"},
		{For, proxy, "203.0.113.9, _hidden", "192.0.2.1"},
		{For, proxy, "010.0.0.1", "192.0.2.1"},
		{For, proxy, "203.0.113", "192.0.2.1"},
		{For, proxy, "0.0.0.0", "192.0.2.1"},
		{For, proxy, "[::]:80", "192.0.2.1"},
		{For, proxy, "[2001:db8::7", "192.0.2.1"},
		{For, proxy, "[2001:db8::7]80", "192.0.2.1"},
		{For, proxy, "203.0.113.9 1.1.1.1", "192.0.2.1"},
		{For, proxy, "for=203.0.113.9", "192.0.2.1"},
		{RealIP, proxy, "203.0.113.9:80", "203.0.113.9"},
		{RealIP, proxy, "1.1.1.1|203.0.113.9", "203.0.113.9"},
		{Std, proxy, "for=203.0.113.9", "203.0.113.9"},
		{Std, proxy, `For="203.0.113.9:4711";proto=https;by=192.0.2.1`, "203.0.113.9"},
		{Std, proxy, `proto=https; FOR="[2001:db8::7]:4711"`, "2001:db8::7"},
		{Std, proxy, `for="[2001:db8::7]:_port"`, "2001:db8::7"},
		{Std, proxy, `for=1.1.1.1, for=203.0.113.9|for="192.0.2.7"`, "203.0.113.9"},
		{Std, proxy, `for="1.1.1.1, for=203.0.113.9`, "203.0.113.9"}, // an open quote hides nothing
		{Std, proxy, "for=unknown", "192.0.2.1"},
		{Std, proxy, "for=_hidden, for=192.0.2.7", "192.0.2.7"},
		{Std, proxy, "for=1.1.1.1;for=203.0.113.9", "192.0.2.1"},
		{Std, proxy, "proto=https", "192.0.2.1"},
		{Std, proxy, "203.0.113.9", "192.0.2.1"},
	} {
		p := must.Get(New(strings.ToLower(tt.header), []string{"192.0.2.0/24", "::ffff:192.0.2.0/120", "2001:db8:1::1"}))(t)
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{}}
		for _, other := range Headers() { // which a caller made up
			r.Header.Set(other, "for=8.8.8.8")
		}
		r.Header[tt.header] = strings.Split(tt.lines, "|")
		must.Equal(t, p.Text(r.RemoteAddr, r.Header), tt.want, "%s from %s: %s", tt.header, tt.peer, tt.lines)
	}
	nobody := Proxies{}
	for peer, want := range map[string]string{proxy: "192.0.2.1", "[2001:db8::7]:1": "2001:db8::7", "[fe80::1%eth0]:1": "fe80::1", "@": "@", "192.0.2.1": "192.0.2.1"} {
		r := &http.Request{RemoteAddr: peer, Header: http.Header{For: {"8.8.8.8"}}}
		must.Equal(t, nobody.Text(r.RemoteAddr, r.Header), want, "without proxies %s", peer)
		if got := Host(peer); got != want { // as for the Redis protocol
			t.Errorf("the host of %s is %s, want %s", peer, got, want)
		}
	}
}

func TestEncrypted(t *testing.T) {
	for _, tt := range []struct {
		header, peer, name, value string
		want                      bool
	}{
		{For, "192.0.2.1:1", "X-Forwarded-Proto", "https", true},
		{For, "192.0.2.1:1", "X-Forwarded-Proto", "HTTPS, http", true},
		{For, "192.0.2.1:1", "X-Forwarded-Proto", "http", false},
		{For, "198.51.100.1:1", "X-Forwarded-Proto", "https", false},
		{For, "192.0.2.1:1", Std, "for=203.0.113.9;proto=https", false},
		{Std, "192.0.2.1:1", Std, `for=203.0.113.9;proto="https"`, true},
		{Std, "192.0.2.1:1", Std, "for=1.1.1.1;proto=https, for=203.0.113.9;proto=http", false},
		{Std, "198.51.100.1:1", Std, "for=203.0.113.9;proto=https", false},
		{Std, "192.0.2.1:1", "X-Forwarded-Proto", "https", false},
	} {
		p, _ := New(tt.header, []string{"192.0.2.1"})
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{tt.name: {tt.value}}}
		must.Equal(t, p.Encrypted(r.RemoteAddr, r.Header), tt.want, "%s: %s: %s from %s", tt.header, tt.name, tt.value, tt.peer)
	}
}

func TestBadProxies(t *testing.T) {
	for _, text := range []string{"", "proxy", "192.0.2.1:80", "192.0.2.0/33", "fe80::1%eth0", "010.0.0.1"} {
		if _, err := New(For, []string{text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := New("X-Client-Ip", []string{"192.0.2.1"}); err == nil {
		t.Error("an unknown header is taken")
	}
}
