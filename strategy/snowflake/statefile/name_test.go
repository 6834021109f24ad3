package statefile

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestName(t *testing.T) {
	for _, c := range []struct{ goos, app, ip, want string }{
		{"linux", "shop", "10.0.0.1", "shop:8080:167772161.properties"},
		{"linux", "shop", "::ffff:10.0.0.1", "shop:8080:167772161.properties"},
		{"linux", "shop", "255.255.255.255", "shop:8080:4294967295.properties"},
		{"linux", "shop", "0.0.0.1", "shop:8080:1.properties"},
		{"linux", "shop", "::1", "shop:8080:00000000000000000000000000000001.properties"},
		{"linux", "shop", "2001:db8::ff%eth0", "shop:8080:20010db80000000000000000000000ff.properties"},
		{"linux", "a/b:c%2F\n\xff", "0.0.0.1", "a%2Fb:c%252F%0A%FF:8080:1.properties"},
		{"linux", "Bücher \u0085", "0.0.0.1", "Bücher %C2%85:8080:1.properties"},
		{"windows", `a\b:c*?"<>|/`, "0.0.0.1", "a%5Cb%3Ac%2A%3F%22%3C%3E%7C%2F%3A8080%3A1.properties"},
	} {
		must.Equal(t, nameOn(c.goos, c.app, 8080, netip.MustParseAddr(c.ip)), c.want, "%s: %q and %s give", c.goos, c.app, c.ip)
	}
	want := nameOn(runtime.GOOS, "", 0, netip.IPv6Unspecified())
	must.Equal(t, Name("", 0, netip.Addr{}), want, "the zero address")
}

func FuzzName(f *testing.F) {
	f.Add("a", "b")
	f.Add("a/", "a%2F")
	f.Add("a:1", "a%3A1")
	f.Add("\xff", "%FF")
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, goos := range []string{"linux", "windows"} {
			ip := netip.AddrFrom4([4]byte{10, 0, 0, 1})
			first, second := nameOn(goos, a, 1, ip), nameOn(goos, b, 1, ip)
			must.Equal(t, a == b, first == second, "%s: %q and %q give %q and %q", goos, a, b, first, second)
			if strings.ContainsAny(first, "/\x00") || goos == "windows" && strings.ContainsAny(first, `\:*?"<>|`) {
				t.Errorf("%s: %q gives %q", goos, a, first)
			}
		}
	})
}
