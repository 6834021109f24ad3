package httpapi_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
)

// fits reports whether a query asks for something that can be had, by the parser of net/url. With
// guarded, a keyed biz type has the key t1 only.
func fits(query string, keyed, guarded bool) bool {
	values, err := url.ParseQuery(query)
	if err != nil || values.Has("key") != keyed || keyed && (seqd.CheckKey(values.Get("key")) != nil || guarded && values.Get("key") != "t1") {
		return false
	}
	for name, given := range values {
		if len(given) != 1 {
			return false
		}
		switch name {
		case "key":
		case "count":
			if n, ok := literal.Int(given[0]); !ok || n < 1 || n > 100 {
				return false
			}
		case "ttl":
			if d, ok := literal.Duration(given[0]); !ok || d < time.Second || d > 24*time.Hour {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// FuzzOrder sends any query to a route that reads it pair by pair. It must accept what the parser
// of net/url accepts, and a token for one key must not get numbers of another.
func FuzzOrder(f *testing.F) {
	for _, query := range []string{
		"", "&", "key=t1", "key=t1&count=3", "count=3&key=t1&ttl=1m0s", "ttl=90s", "count=100", "count=101", "key=%741", "k%65y=t1", "key=t1&key=t1",
		"key=t1&key=t2", "key=t2&key=t1", "key=t1;key=t2", "key=t1&%zz", "key", "key=", "=t1", "&&key=t1&&", "key=t1&x", "key=t1=", "count=+1", "count=010", "count=%2B5", "count=5.0", "count=1e1", "ttl=1m1h", "ttl=1e9h", "key=t1%00",
		"key=t1&count=1+", "ttl=%31%6d&key=t%31", "key=t1#", "key=t1?key=t2",
	} {
		f.Add(query)
	}
	tokens := newTokensOf(f, map[string][]string{"t1": {"issue:tenant/t1", "issue:invoice"}})
	f.Fuzz(func(t *testing.T, query string) {
		for _, guarded := range []bool{false, true} {
			tenant := newBook(true)
			issuer := newIssuer(t, defineBook("invoice", newBook(false)), defineBook("tenant", tenant))
			api := newStarting(t, func(o *options) {
				if guarded {
					o.Guard, o.Tokens = tokens, tokens
				}
			})
			ready(api, issuer)
			for _, bizType := range []string{"invoice", "tenant"} {
				r := must.Get(newRequest("POST", "/seq/"+bizType+"/reservations", auth("t1")))(t)
				r.URL.RawQuery = query
				w := serveOne(t, api, r)
				checkAnswer(t, w)
				if want := fits(query, bizType == "tenant", guarded); (w.Code == 201) != want {
					t.Errorf("%s?%q, guarded %t: %d %s, want good %t", bizType, query, guarded, w.Code, w.Body, want)
				}
			}
			for key := range tenant.counters {
				if guarded && key != "t1" {
					t.Errorf("%q made numbers of the key %q", query, key)
				}
			}
		}
	})
}

// keyedCounter is a counter that is keyed, and counts all keys together.
type keyedCounter struct{ *counter }

func (keyedCounter) Traits() seqd.Traits { return seqd.Traits{Keyed: true} }

// TestKeyAllocations checks that a key and a count cost no allocation.
func TestKeyAllocations(t *testing.T) {
	d := define("order", newCounter(1_000_000))
	plain, _ := allocations(t, newAPI(t, d), "/seq/order")
	d.BizType.Settings = keyedCounter{}
	keyed, _ := allocations(t, newAPI(t, d), "/seq/order?key=tenant-42&count=1")
	if !racing.On && keyed > plain {
		t.Errorf("with a key and a count it allocates %v times, without %v", keyed, plain)
	}
}
