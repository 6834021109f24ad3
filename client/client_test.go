package client

import (
	"strings"
	"testing"
	"time"
)

func TestNewChecks(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  Config
		want string // in the error
	}{
		{"no address", Config{}, "Config.Addrs is empty"},
		{"no scheme", Config{Addrs: []string{"localhost:8080"}}, "write http://localhost:8080"},
		{"only a port", Config{Addrs: []string{":8080"}}, "has no scheme"},
		{"empty", Config{Addrs: []string{""}}, "has no scheme"},
		{"other scheme", Config{Addrs: []string{"redis://a:6380"}}, "seqd speaks http and https"},
		{"no host", Config{Addrs: []string{"http://"}}, "names no host"},
		{"no host but a port", Config{Addrs: []string{"http://:8080"}}, "names no host"},
		{"not a URL", Config{Addrs: []string{"http://a b"}}, "not a URL"},
		{"user", Config{Addrs: []string{"http://me:hidden@a"}}, "use Config.Token"},
		{"query", Config{Addrs: []string{"http://a?token=hidden"}}, "a query"},
		{"fragment", Config{Addrs: []string{"http://a#b"}}, "a fragment"},
		{"second", Config{Addrs: []string{"http://a", "b"}}, "Addrs[1]"},
		{"twice", Config{Addrs: []string{"http://a", "http://a/"}}, "[0] and [1] are both http://a"},
		{"token with a line break", Config{Addrs: []string{"http://a"}, Token: "hidden\n"}, "Config.Token contains"},
		{"token with a space", Config{Addrs: []string{"http://a"}, Token: "Bearer hidden"}, "Config.Token contains"},
		{"negative timeout", Config{Addrs: []string{"http://a"}, Timeout: -time.Second}, "Config.Timeout is -1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.cfg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
}

func TestNewAccepts(t *testing.T) {
	c := must(New(Config{Addrs: []string{"http://a:8080/", "https://[::1]:8080", "https://gateway/ids/"}}))(t)
	if got, want := strings.Join(c.Addrs(), " "), "http://a:8080 https://[::1]:8080 https://gateway/ids"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOnly(t *testing.T) {
	c := dial(t, Config{Addrs: []string{"http://a", "http://b"}})
	only, err := c.Only("http://b/")
	if err != nil || strings.Join(only.Addrs(), " ") != "http://b" {
		t.Errorf("got %v, %v", only, err)
	}
	if _, err := c.Only("http://c"); err == nil {
		t.Error("c is not an address of the client")
	}
}

// Clients spread over the nodes.
func TestFirstNodeIsRandom(t *testing.T) {
	seen := map[int32]bool{}
	for range 1000 {
		c := must(New(Config{Addrs: []string{"http://a", "http://b", "http://c"}}))(t)
		seen[c.preferred.Load()] = true
	}
	if len(seen) != 3 {
		t.Errorf("a thousand clients began with %d of 3 nodes", len(seen))
	}
}
