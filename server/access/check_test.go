package access_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
)

const secret = "seqd_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"

// TestAllowHeader checks which Authorization headers are accepted.
func TestAllowHeader(t *testing.T) {
	tokens := newTokens(t, newStore(), token("shop", secret, "issue:*"), token("other", "x", "issue:*"))
	last := secret[:len(secret)-1] + "H"
	good := "Bearer " + secret
	tests := []struct {
		want   string // the name of the token, "" for nobody
		values []string
	}{
		{"shop", []string{good, "bearer " + secret, "BEARER " + secret, "Bearer   " + secret}},
		{"other", []string{"Bearer x"}}, // a short secret of one's own
		{"", []string{"", "Bearer", "Bearer ", "Bearer    ", secret, "Bearer" + secret, "Bearer\t" + secret, "Basic " + secret, "Bearers " + secret}},
		{"", []string{
			good + ", " + good, "Bearer " + last, "Bearer S" + secret[1:], good[:len(good)-1], good + "x", good + " ", good + "\x00", good + "é", "Bearer " + strings.ToUpper(secret),
			"Bearer " + access.DigestOf(secret).Hex(), "Bearer " + strings.Repeat("x", 1<<20),
		}},
	}
	texts := make(map[string]bool)
	check := func(want string, header ...string) {
		who, err := tokens.Allow(header, access.ScopeIssue, "order")
		if who.Name != want || (err == nil) != (want != "") {
			t.Fatalf("%.80q: got %q, %v; want %q", header, who.Name, err, want)
		}
		if err != nil {
			wantCode(t, err, seqd.CodeUnauthorized)
			texts[err.Error()] = true
		}
	}
	check("")
	check("", good, good)
	check("", good, "")
	for _, tt := range tests {
		for _, value := range tt.values {
			check(tt.want, value)
		}
	}
	must.Equal(t, len(texts), 1, "the refusals differ: %v", texts)
}

// TestAllowState checks that an expired or disabled token gets the same answer as an unknown one.
func TestAllowState(t *testing.T) {
	now := begin
	expiring, disabled := token("expiring", "a", "admin"), token("disabled", "b", "admin")
	expiring.Expires, disabled.Enabled = begin.Add(time.Second), false
	tokens := access.New(access.Options{Config: []access.Token{expiring, disabled}, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: newStore()})
	must.Do(t, tokens.Reload(t.Context()))
	_, unknown := tokens.Allow(header("nobody"), access.ScopeAdmin, "")
	wantCode(t, unknown, seqd.CodeUnauthorized)
	if _, err := tokens.Allow(header("b"), access.ScopeAdmin, ""); err != unknown {
		t.Errorf("disabled: %v", err)
	}
	for after, want := range map[time.Duration]error{0: nil, time.Second - time.Millisecond: nil, time.Second: unknown, time.Hour: unknown} {
		now = begin.Add(after)
		if _, err := tokens.Allow(header("a"), access.ScopeAdmin, ""); err != want {
			t.Errorf("%s on: %v, want %v", after, err, want)
		}
	}
}

func TestAllowScopes(t *testing.T) {
	for _, test := range []struct {
		scopes, allowed, refused string // counters for the scope issue, otherwise scopes
	}{
		{"issue:order", "issue:order", "issue:orders issue:Order issue: read admin"},
		{"issue:order*", "issue:order issue:order-eu", "issue:reorder"},
		{"issue:*", "issue:anything issue: issue:invoice/t1", "read"},
		{"issue:*-eu", "issue:order-eu issue:order-eu-x-eu", "issue:order-us"},
		{"issue:a*b*c", "issue:abc issue:aXbXbYc", "issue:acb"},
		{"issue:a**c", "issue:abc", ""},
		{"issue:a.c", "", "issue:abc"},
		{"issue:order issue:user", "issue:user", ""},
		{"read", "read", "admin issue:order"},
		{"admin", "admin read", "issue:order"},
		{"admin issue:o*", "issue:order", ""},
		{"admin read issue:*", "", "everything"},

		// A scope without a key covers all keys, one with a key no other key, and no biz type
		// without one.
		{"issue:invoice", "issue:invoice/t1", "issue:invoices/t1"},
		{"issue:inv*", "issue:invoice/t1", ""},
		{"issue:invoice/t1", "issue:invoice/t1", "issue:invoice/t10 issue:invoice/T1 issue:invoice issue:invoice/ issue:order/t1 read admin"},
		{"issue:invoice/t*", "issue:invoice/t42", "issue:invoice/u42"},
		{"issue:invoice/*", "issue:invoice/t42", "issue:invoice issue:invoice2/t1"},
		{"issue:*/t1", "issue:invoice/t1", "issue:invoice/t2 issue:t1"},
		{"issue:inv*/t*", "issue:invoice/t2", "issue:order/t2"},
		{"issue:invoice/t1 issue:invoice/t2", "issue:invoice/t2", ""},
		// A star never crosses the slash, and a key has none.
		{"issue:*1", "", "issue:invoice/t1"},
		{"issue:i*1", "", "issue:invoice/t1"},
		{"issue:invoice*", "", "issue:invoic/e"},
		{"issue:a/b", "", "issue:a/b/c"},
		{"issue:a/b*", "", "issue:a/b/c"},

		{"lease:shop", "lease:shop", "lease:shop2 lease:Shop lease: lease issue:shop read admin"},
		{"lease:eu.*", "lease:eu.shop lease:eu.", "lease:euXshop lease:shop"},
		{"lease:*", "lease:shop", "issue:shop read"},
		{"admin read issue:*", "", "lease:shop"},
	} {
		tokens := newTokens(t, newStore(), token("shop", secret, strings.Fields(test.scopes)...))
		for _, need := range strings.Fields(test.allowed + " " + test.refused) {
			scope, counter, _ := strings.Cut(need, ":")
			want := slices.Contains(strings.Fields(test.allowed), need)
			who, err := tokens.Allow(header(secret), scope, counter)
			if (err == nil) != want || who.Name != "shop" {
				t.Errorf("%s for %s: %q, %v", test.scopes, need, who.Name, err)
			}
			if err != nil {
				wantCode(t, err, seqd.CodeForbidden)
			}
		}
		if _, err := tokens.Allow(header(secret), "", ""); err != nil {
			t.Errorf("%s where any token will do: %v", test.scopes, err)
		}
	}
}

func TestCheckScope(t *testing.T) {
	for _, good := range []string{"admin", "read", "issue:*", "issue:order", "issue:order*", "issue:*-eu", "issue:a*.b_*-9", "issue:**",
		"issue:a/b", "issue:*/*", "issue:invoice/tenant-42", "issue:inv*/9*", "issue:a/" + strings.Repeat("9", 64), "issue:" + strings.Repeat("a", 64),
		"lease:*", "lease:shop", "lease:eu.*-7", "lease:" + strings.Repeat("a", 64)} {
		if err := access.CheckScope(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "*", "Admin", "READ", "issue", "issue:", "issue: order", "issue:9", "issue:a/", "issue:/b", "issue:a/b/c", "issue:a/-b", "issue:a//", "issue:*/b c", "issue:a/" + strings.Repeat("9", 65), "issue:a?", "issue:[a-z]", "issue:order,user", "Issue:order", "write", "admin ",
		"issue:заказ", "issue:" + strings.Repeat("a", 65), "read:order", "admin:*", secret,
		"lease", "lease:", "lease:9", "lease:a/b", "lease:a b", "lease:" + strings.Repeat("a", 65), "Lease:a",
	} {
		if err := access.CheckScope(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		} else if bad != "" && len(bad) > 8 && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats %q: %v", bad, err)
		}
	}
}

// TestSamePrefix checks that tokens are told apart if their digests begin alike. (Nobody can find
// two secrets whose digests share 8 bytes, but a test can write such digests.)
func TestSamePrefix(t *testing.T) {
	good, near := token("good", secret, "read"), token("a-near", secret, "admin")
	near.Secrets[0].Sha256[31] ^= 1
	for _, list := range [][]access.Token{{good, near}, {near, good}} {
		tokens := newTokens(t, newStore(), list...)
		must.Equal(t, must.Get(tokens.Allow(header(secret), access.ScopeRead, ""))(t).Name, "good")
	}
	tokens := newTokens(t, newStore(), near)
	wantCode(t, must.Err(tokens.Allow(header(secret), "", "")), seqd.CodeUnauthorized)
}

func TestNewSecret(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		secret, digest := access.NewSecret()
		if !strings.HasPrefix(secret, "seqd_") || len(secret) != 48 || digest != access.DigestOf(secret) || seen[secret] {
			t.Fatalf("the secret %q is not new, or not the prefix and 43 characters", secret)
		}
		seen[secret] = true
	}
	if got := access.DigestOf("abc").Hex(); got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("the digest of abc is %s", got)
	}
}

func TestDigestText(t *testing.T) {
	want := access.DigestOf(secret)
	for _, text := range []string{want.Hex(), strings.ToUpper(want.Hex())} {
		var got access.Digest
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%v", err)
		}
	}
	for _, text := range []string{"", secret, want.Hex()[1:], want.Hex() + "0", " " + want.Hex()[1:], "g" + want.Hex()[1:]} {
		got := want
		err := got.UnmarshalText([]byte(text))
		if err == nil || got != want || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if shown := fmt.Sprintf(verb, access.Token{Secrets: []access.Secret{{Sha256: want}}}); strings.Contains(shown, want.Hex()[:8]) {
			t.Errorf("%s shows %s", verb, shown)
		}
	}
}

// many returns n tokens.
func many(n int) (list []access.Token) {
	for i := range n {
		list = append(list, token(fmt.Sprintf("t%d", i), fmt.Sprint("secret ", i), "issue:order*", "issue:user"))
	}
	return list
}

func TestAllowAllocations(t *testing.T) {
	mine := token("shop", secret, "issue:invoice", "issue:order*", "read")
	mine.Expires = begin.Add(time.Hour)
	tokens := newTokens(t, newStore(), append(many(1000), mine)...)
	value := header(secret)
	for _, need := range []string{access.ScopeIssue, access.ScopeRead} {
		if got := must.Allocs(1000, func() {
			must.Get(tokens.Allow(value, need, "order-eu"))(t)
		}); got != 0 {
			t.Errorf("a check for %s allocates %v times, want none", need, got)
		}
	}
	wrong := header("nobody")
	if got := must.Allocs(1000, func() { _, _ = tokens.Allow(wrong, access.ScopeRead, "") }); got != 0 {
		t.Errorf("refusing allocates %v times, want none", got)
	}
}

func BenchmarkAllow(b *testing.B) {
	mine := token("shop", secret, "issue:invoice", "issue:order*", "read")
	mine.Expires = time.Now().Add(time.Hour)
	tokens := access.New(access.Options{Config: append(many(1000), mine), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	value := header(secret)
	b.ReportAllocs()
	for b.Loop() {
		must.Get(tokens.Allow(value, access.ScopeIssue, "order-eu"))(b)
	}
}

// FuzzAllow sends arbitrary headers to Allow. Only the right secret is accepted.
func FuzzAllow(f *testing.F) {
	f.Add("Bearer "+secret, "order")
	f.Add("bearer  x", "")
	f.Add("Bearer\x00", "*")
	f.Add("Bearer "+secret, "order/t1")
	f.Add("Bearer "+secret, "invoice/t1")
	f.Add("Bearer "+secret, "invoice/t1/r")
	tokens := newTokens(f, newStore(), token("shop", secret, "issue:o*r", "issue:invoice/t*"))
	f.Fuzz(func(t *testing.T, value, counter string) {
		who, err := tokens.Allow([]string{value}, access.ScopeIssue, counter)
		bizType, key, _ := strings.Cut(counter, "/")
		covered := strings.HasPrefix(bizType, "o") && strings.HasSuffix(bizType, "r") || bizType == "invoice" && strings.HasPrefix(key, "t") && !strings.Contains(key, "/")
		if err == nil && (who.Name != "shop" || !strings.HasSuffix(value, " "+secret) || !covered) {
			t.Errorf("%q got in for %q as %q", value, counter, who.Name)
		}
		if err != nil && seqd.CodeOf(err) == seqd.CodeInternal {
			t.Error(err)
		}
	})
}

// Tokens expire by the time that nodes have in common, once it is there, and not by that of the
// node.
func TestExpiresByTheCommonClock(t *testing.T) {
	for name, offset := range map[string]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
		common := begin
		expiring := token("shop", "shop-secret", "read")
		expiring.Expires = begin.Add(time.Minute)
		tokens := access.New(access.Options{Config: []access.Token{expiring}, Now: func() time.Time { return common.Add(offset) }, Log: slog.New(slog.DiscardHandler)})
		tokens.Use(access.Backing{Documents: memory.New(time.Now).Documents(), Now: func() time.Time { return common }})
		must.Do(t, tokens.Reload(t.Context()))
		digest, _ := access.DigestOfSecret("shop-secret")
		for after, want := range map[time.Duration]seqd.Code{0: "", time.Hour: seqd.CodeUnauthorized} {
			common = begin.Add(after)
			must.Code(t, must.Err(tokens.AllowDigest(&digest, access.ScopeRead, "")), want, name)
			must.Code(t, tokens.AllowNamed("shop", access.ScopeRead, ""), want, name)
		}
	}
}
