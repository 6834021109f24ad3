package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestSignInIsLimited(t *testing.T) {
	w := newWorld(t)
	n, other := w.node(func(s *settings) { s.proxies = []string{"192.0.2.1"} }), w.node()
	from := func(addr, secret string) *httptest.ResponseRecorder {
		return n.page("POST", "/console/session", signInWith(secret), "X-Forwarded-For: "+addr)
	}
	for i := range 5 {
		want(t, from("203.0.113.7", "wrong"), http.StatusUnauthorized, "unauthorized")
		if i < 4 {
			w.pass(10 * time.Second)
		}
	}
	for _, secret := range []string{"wrong", opsSecret} { // nobody learns whether the sixth is right
		answer := from("203.0.113.7", secret)
		want(t, answer, http.StatusTooManyRequests, "rate_limited")
		must.Equal(t, answer.Header().Get("Retry-After"), "20", "Retry-After")
	}
	want(t, from("1.2.3.4, 203.0.113.7", "wrong"), http.StatusTooManyRequests, "rate_limited") // callers can write what they like there
	want(t, from("203.0.113.8", opsSecret), http.StatusOK, "")
	if w := other.page("POST", "/console/session", signInWith(opsSecret), "X-Forwarded-For: 203.0.113.7"); w.Code != http.StatusOK {
		t.Errorf("another node, which trusts no proxy, says %d", w.Code)
	}
	w.pass(20 * time.Second)
	want(t, from("203.0.113.7", opsSecret), http.StatusOK, "") // which does not count
	want(t, from("203.0.113.7", "wrong"), http.StatusUnauthorized, "unauthorized")
	want(t, from("203.0.113.7", "wrong"), http.StatusTooManyRequests, "rate_limited")

	// All addresses of a network of IPv6 are one caller.
	w.pass(time.Minute)
	for i := range 5 {
		want(t, from(fmt.Sprintf("2001:db8::%d", i+1), "wrong"), http.StatusUnauthorized, "unauthorized")
	}
	want(t, from("2001:db8::ffff", opsSecret), http.StatusTooManyRequests, "rate_limited")
	want(t, from("2001:db8:0:1::1", opsSecret), http.StatusOK, "")

	// A node takes one attempt of each caller after 60 of all together, so that nobody is kept out.
	w.pass(time.Minute)
	cookie := n.signIn(opsSecret)
	for i := range 60 {
		want(t, from("203.0.113."+strconv.Itoa(i), "wrong"), http.StatusUnauthorized, "unauthorized")
	}
	want(t, from("203.0.113.59", opsSecret), http.StatusTooManyRequests, "rate_limited")
	want(t, from("198.51.100.1", opsSecret), http.StatusOK, "")
	want(t, from("198.51.100.2", "wrong"), http.StatusUnauthorized, "unauthorized")
	want(t, from("198.51.100.2", opsSecret), http.StatusTooManyRequests, "rate_limited")
	n.wantSignedIn(cookie)
	w.pass(time.Minute)
	want(t, from("198.51.100.1", opsSecret), http.StatusOK, "")

	// A clock that is set back locks nobody out.
	for range 5 {
		want(t, from("198.51.100.1", "wrong"), http.StatusUnauthorized, "unauthorized")
	}
	w.pass(-24 * time.Hour)
	want(t, from("198.51.100.1", opsSecret), http.StatusOK, "")
}

// Attempts at once are no way around the limit.
func TestSignInsAtOnceAreLimited(t *testing.T) {
	n := newWorld(t).node()
	var wg sync.WaitGroup
	codes := make(chan int, 100)
	for range cap(codes) {
		wg.Go(func() {
			r := request(t, "POST", "/console/session", signInWith("wrong"), "Seqd-Console: 1")
			codes <- n.serve(r).Code
		})
	}
	wg.Wait()
	close(codes)
	count := make(map[int]int)
	for code := range codes {
		count[code]++
	}
	if count[http.StatusUnauthorized] != 5 || count[http.StatusTooManyRequests] != 95 {
		t.Errorf("the answers are %v, want 5 × 401 and 95 × 429", count)
	}
}

// One token cannot fill the store with sessions.
func TestSessionsOfATokenAreLimited(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	for range 20 {
		n.signIn(opsSecret)
	}
	want(t, n.page("POST", "/console/session", signInWith(opsSecret)), http.StatusTooManyRequests, "rate_limited")
	n.signIn(readerSecret)
	if list := w.sessions(); len(list) != 21 {
		t.Errorf("there are %d sessions", len(list))
	}
}

// Cookies that nobody was given cannot be used to make nodes ask the store all the time.
func TestUnknownCookiesAreLimited(t *testing.T) {
	w := newWorld(t)
	n, other := w.node(), w.node()
	cookie := n.signIn(opsSecret)
	elsewhere := other.signIn(opsSecret)
	guess := func(i int) *httptest.ResponseRecorder {
		return n.page("GET", "/console/api/seq/order", "", with(fmt.Sprintf("%042dA", i)))
	}
	for i := range 30 {
		want(t, guess(i), http.StatusUnauthorized, "unauthorized")
	}
	looks := w.store.looks()
	for i := range 100 {
		want(t, guess(1000+i), http.StatusTooManyRequests, "rate_limited")
	}
	if got := w.store.looks(); got != looks {
		t.Errorf("the store was asked %d times", got-looks)
	}
	n.wantSignedIn(cookie) // a session that the node knows is not a guess
	r := request(t, "GET", "/console/api/seq/order", "", with(elsewhere), "Seqd-Console: 1")
	r.RemoteAddr = "192.0.2.2:1"
	want(t, n.serve(r), http.StatusOK, "")
	w.pass(time.Minute)
	want(t, guess(5), http.StatusUnauthorized, "unauthorized")

	// A few addresses cannot keep out who has signed in on another node.
	from := func(addr, cookie string) *httptest.ResponseRecorder {
		r := request(t, "GET", "/console/api/seq/order", "", with(cookie), "Seqd-Console: 1")
		r.RemoteAddr = addr + ":1"
		return n.serve(r)
	}
	fresh := other.signIn(opsSecret)
	w.pass(time.Minute)
	for i := range 600 {
		want(t, from("203.0.113."+strconv.Itoa(i%20), fmt.Sprintf("%042dA", 5000+i)), http.StatusUnauthorized, "unauthorized")
	}
	want(t, from("203.0.113.1", fresh), http.StatusTooManyRequests, "rate_limited")
	want(t, from("198.51.100.1", fresh), http.StatusOK, "")
}

// Many people behind one address may be signed in.
func TestKnownCookiesAreNotLimited(t *testing.T) {
	w := newWorld(t)
	var cookies []string
	for _, n := range []*node{w.node(), w.node()} {
		for range 20 {
			cookies = append(cookies, n.signIn(opsSecret))
		}
	}
	n := w.node()
	for _, cookie := range cookies {
		n.wantSignedIn(cookie)
	}
}
