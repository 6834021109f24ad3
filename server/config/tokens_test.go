package config_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/config"
)

var digestOfA, digestOfB = access.DigestOf("a").Hex(), access.DigestOf("b").Hex()

func TestTokens(t *testing.T) {
	want := []access.Token{
		{Name: "shop", Secrets: access.SecretOf("a"), Scopes: []string{"issue:order*", "read"}, Enabled: true, Source: access.FromConfig,
			Expires: time.Date(2027, 1, 31, 10, 0, 0, 500e6, time.UTC)},
		{Name: "ops", Secrets: access.SecretOf("b"), Scopes: []string{"admin"}, Source: access.FromConfig},
	}
	year := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	rotating := mustLoad(t, someBizType+fmt.Sprintf("auth: {tokens: [{name: shop, scopes: [read], ownsOpen: true, sha256: %q, secrets: [{sha256: %q, expires: 2030-01-01T00:00:00Z}]}]}", digestOfA, digestOfB), config.Sources{})
	if got, want := rotating.Auth.Tokens[0], []access.Secret{{Sha256: access.DigestOf("a")}, {Sha256: access.DigestOf("b"), Expires: year}}; !got.OwnsOpen || !slices.Equal(got.Secrets, want) {
		t.Errorf("%+v", got)
	}
	json := fmt.Sprintf(`[{"name":"shop","sha256":%q,"scopes":["issue:order*","read"],"expires":"2027-01-31T12:00:00.5004+02:00"},{"name":"ops","sha256":%q,"scopes":["admin"],"enabled":false}]`,
		digestOfA, strings.ToUpper(digestOfB))
	yaml := fmt.Sprintf("auth:\n  tokens:\n    - {name: shop, sha256: %q, scopes: [\"issue:order*\", read], expires: 2027-01-31T10:00:00.5Z}\n    - {NAME: ops, Sha256: %q, scopes: [admin], enabled: false}\n",
		digestOfA, digestOfB)
	for name, c := range map[string]*config.Config{
		"file":                 mustLoad(t, someBizType+yaml, config.Sources{}),
		"JSON file":            mustLoad(t, someBizType+"AUTH: {Tokens: "+json+"}", config.Sources{}),
		"environment":          mustLoad(t, someBizType, config.Sources{Env: []string{"SEQD_AUTH_TOKENS=" + json}}),
		"environment and file": mustLoad(t, someBizType+"auth: {tokens: [{name: old, sha256: \""+digestOfA+"\", scopes: [read]}]}", config.Sources{Env: []string{"SEQD_AUTH_TOKENS=" + json}}),
	} {
		if !reflect.DeepEqual(c.Auth.Tokens, want) {
			t.Errorf("%s: the tokens are %+v, want %+v", name, c.Auth.Tokens, want)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: loaded, yet not valid: %v", name, err)
		}
	}
	if c := mustLoad(t, someBizType+yaml, config.Sources{Env: []string{"SEQD_AUTH_TOKENS=[]"}}); len(c.Auth.Tokens) != 0 {
		t.Errorf("an empty list in the environment leaves %+v", c.Auth.Tokens)
	}
}

// A mistake in a token is reported by its key and never shows the value.
func TestWrongTokens(t *testing.T) {
	const secret = "hunter2hunter2"
	good := fmt.Sprintf("name: shop, sha256: %q, scopes: [read]", digestOfA)
	for name, tt := range map[string]struct{ tokens, want string }{
		"a secret":             {"[{name: shop, sha256: " + secret + ", scopes: [read]}]", "auth.tokens[0].sha256: its value, which is not shown, is not the 64 hexadecimal digits"},
		"a generated secret":   {"[{name: shop, sha256: seqd_" + strings.Repeat("hunter2x", 5) + "abc, scopes: [read]}]", "auth.tokens[0].sha256: "},
		"a number":             {"[{name: shop, sha256: " + strings.Repeat("1", 60) + ", scopes: [read]}]", "auth.tokens[0].sha256: its value, which is not shown, is not the 64 hexadecimal digits"},
		"a list for a digest":  {"[{name: shop, sha256: [" + secret + "], scopes: [read]}]", "auth.tokens[0].sha256: "},
		"no value":             {"[{name: shop, sha256:, scopes: [read]}]", "auth.tokens[0].sha256: "},
		"no digest":            {"[{name: shop, scopes: [read]}]", "auth.tokens[0].sha256: there is none"},
		"no name":              {"[{sha256: \"" + digestOfA + "\", scopes: [read]}]", "auth.tokens[0].name: "},
		"a bad name":           {"[{name: \"" + secret + "!\", sha256: \"" + digestOfA + "\", scopes: [read]}]", "auth.tokens[0].name: "},
		"a number for a name":  {"[{name: 5, sha256: \"" + digestOfA + "\", scopes: [read]}]", "auth.tokens[0].name: its value, which is not shown, is not text"},
		"no scopes":            {"[{name: shop, sha256: \"" + digestOfA + "\"}]", "auth.tokens[0].scopes: there is none"},
		"empty scopes":         {"[{name: shop, sha256: \"" + digestOfA + "\", scopes: []}]", "auth.tokens[0].scopes: there is none"},
		"text for scopes":      {"[{name: shop, sha256: \"" + digestOfA + "\", scopes: " + secret + "}]", "auth.tokens[0].scopes: its value, which is not shown, is not a list of text"},
		"a section in scopes":  {"[{name: shop, sha256: \"" + digestOfA + "\", scopes: [{a: " + secret + "}]}]", "auth.tokens[0].scopes: "},
		"a bad scope":          {"[{name: shop, sha256: \"" + digestOfA + "\", scopes: [read, " + secret + "]}]", "auth.tokens[0].scopes[1]: "},
		"a bad time":           {"[{" + good + ", expires: " + secret + "}]", "auth.tokens[0].expires: it is not a time of RFC 3339"},
		"a number for a time":  {"[{" + good + ", expires: 5}]", "auth.tokens[0].expires: "},
		"an old time":          {"[{" + good + ", expires: \"1066-10-14T00:00:00Z\"}]", "auth.tokens[0].expires: its year"},
		"the zero time":        {"[{" + good + ", expires: \"0001-01-01T00:00:00Z\"}]", "auth.tokens[0].expires: its year"},
		"text for enabled":     {"[{" + good + ", enabled: " + secret + "}]", "auth.tokens[0].enabled: its value, which is not shown, is not true or false"},
		"an unknown key":       {"[{" + good + ", secret: " + secret + "}]", "auth.tokens[0].secret: there is no such key for a token"},
		"a key twice":          {"[{" + good + ", Sha256: " + secret + "}]", "it appears twice"},
		"no section":           {"[" + secret + "]", "auth.tokens[0]: a value is not a section"},
		"no list":              {"{" + good + "}", "auth.tokens: a section is not a list"},
		"a value":              {secret, "auth.tokens: a value is not a list"},
		"nothing":              {"", "auth.tokens: it has no value; a list is needed"},
		"a name twice":         {"[{" + good + "}, {name: shop, sha256: \"" + digestOfB + "\", scopes: [read]}]", "auth.tokens[1].name: it is already the name of auth.tokens[0]"},
		"a secret twice":       {"[{" + good + "}, {name: ops, sha256: \"" + strings.ToUpper(digestOfA) + "\", scopes: [read]}]", "auth.tokens[1].sha256: it is already that of auth.tokens[0]"},
		"a bad one of several": {"[{" + good + ", secrets: [{sha256: " + secret + "}]}]", "auth.tokens[0].secrets[0].sha256: its value, which is not shown, is not the 64 hexadecimal digits"},
		"a text for one":       {"[{" + good + ", secrets: [" + secret + "]}]", "auth.tokens[0].secrets[0]: a value is not a section"},
		"one without digest":   {"[{" + good + ", secrets: [{expires: 2030-01-01T00:00:00Z}]}]", "auth.tokens[0].secrets[0].sha256: there is none"},
		"one with a name":      {"[{" + good + ", secrets: [{name: " + secret + ", sha256: \"" + digestOfB + "\"}]}]", "auth.tokens[0].secrets[0].name: there is no such key for a secret"},
		"the same one twice":   {"[{" + good + ", secrets: [{sha256: \"" + digestOfA + "\"}]}]", "auth.tokens[0].sha256: it is already that of auth.tokens[0]"},
		"a value in an anchor": {"[{name: shop, sha256: *" + secret + "}]", "unknown anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.LoadYAML([]byte(someBizType+"auth:\n  tokens: "+tt.tokens+"\n"), config.Sources{})
			wantError(t, err, tt.want)
			if err != nil && (strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), digestOfA) || strings.Contains(err.Error(), digestOfB)) {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
	for _, text := range []string{
		`{"name":"shop","sha256":"` + secret + `"}`, `[{"name":"shop","sha256":"` + secret + `"]`, `["` + secret + `"]`, secret, "", `[{"name":"shop","sha256":"` + secret + `","scopes":["read"]}]`,
	} {
		_, err := config.LoadYAML([]byte(someBizType), config.Sources{Env: []string{"SEQD_AUTH_TOKENS=" + text}})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Who may call where.
func TestAuthModes(t *testing.T) {
	tokens := fmt.Sprintf("tokens: [{name: shop, sha256: %q, scopes: [read]}]", digestOfA)
	for _, tt := range []struct {
		auth, addr         string
		accepted, enforced bool
	}{
		{"mode: auto", "127.0.0.1:0", true, false},
		{"mode: auto", "localhost:0", true, false},
		{"mode: auto", "0.0.0.0:0", false, false},
		{"mode: auto", ":0", false, false},
		{"mode: auto, tokens: []", "192.0.2.1:0", false, false},
		{tokens, "127.0.0.1:0", true, true},
		{tokens, "0.0.0.0:0", true, true},
		{"mode: token", "127.0.0.1:0", true, true},
		{"mode: token", "0.0.0.0:0", true, true},
		{"mode: token, " + tokens, ":0", true, true},
		{"mode: none", "0.0.0.0:0", true, false},
		{"mode: none, " + tokens, "0.0.0.0:0", true, false},
	} {
		c, err := config.LoadYAML([]byte(fmt.Sprintf("%sauth: {%s}\nserver: {addr: %q}\n", someBizType, tt.auth, tt.addr)), config.Sources{})
		if (err == nil) != tt.accepted {
			t.Errorf("%s on %s: %v", tt.auth, tt.addr, err)
			continue
		}
		if err != nil {
			wantError(t, err, "server.addr: ", "auth.tokens", "auth.mode")
		} else if c.Auth.Enforced() != tt.enforced {
			t.Errorf("%s on %s: enforced is %v", tt.auth, tt.addr, !tt.enforced)
		}
	}
}

func TestTLSNeedsBothFiles(t *testing.T) {
	for key, other := range map[string]string{"server.tls.certFile": "server.tls.keyFile", "server.tls.keyFile": "server.tls.certFile"} {
		_, err := config.LoadYAML([]byte(someBizType+nested(key, "x.pem")), config.Sources{})
		wantError(t, err, other+": it is empty")
	}
}
