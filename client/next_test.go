package client

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	c := dial(t, Config{Addrs: []string{start(t, newService()).URL}})
	ctx := context.Background()
	if id, err := c.Next(ctx, "order"); err != nil || id != "0" {
		t.Errorf("got %q, %v", id, err)
	}
	if ids, err := c.NextN(ctx, "order", 3); err != nil || strings.Join(ids, " ") != "1 2 3" {
		t.Errorf("got %q, %v", ids, err)
	}
	text := make([]byte, 0, 1<<10)
	text = append(text, "before\n"...)
	got, err := c.AppendText(ctx, text, "order", 3)
	if err != nil || string(got) != "before\n4\n5\n6\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if &got[0] != &text[0] {
		t.Error("a slice with room was not used")
	}
	if got, err := c.AppendText(ctx, nil, "order", 2); err != nil || string(got) != "7\n8\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestIdempotencyKey(t *testing.T) {
	s := newService()
	c := dial(t, Config{Addrs: []string{start(t, s).URL}})
	ctx, key := context.Background(), IdempotencyKey(NewIdempotencyKey())
	for range 2 {
		if ids, err := c.NextN(ctx, "order", 2, key); err != nil || strings.Join(ids, " ") != "0 1" {
			t.Errorf("got %q, %v", ids, err)
		}
	}
	if id, err := c.Next(ctx, "order", IdempotencyKey(NewIdempotencyKey())); err != nil || id != "2" {
		t.Errorf("got %q, %v", id, err)
	}
	for _, key := range []string{"", "a b", "é", strings.Repeat("x", 256)} {
		fails(c.Next(ctx, "order", IdempotencyKey(key)))(t, ErrInvalidRequest)
	}
}

// What cannot be right is refused without a request.
func TestArguments(t *testing.T) {
	c := answering(t, func(r *http.Request) *http.Response {
		t.Errorf("asked for %s", r.URL)
		return respond(200, "application/json", "{}")
	})
	ctx := context.Background()
	for _, name := range []string{"", "7", "-a", "a b", "a/b", "../x", "a?b", "a%2Fb", "é", strings.Repeat("x", 65)} {
		for _, err := range []error{
			second(c.Next(ctx, name)), second(c.NextN(ctx, name, 1)), second(c.AppendText(ctx, nil, name, 1)), second(c.Parse(ctx, name, "1")), second(c.Buffer(name, BufferOptions{})),
			second(c.Reserve(ctx, name, ReserveOptions{})),
		} {
			if !errors.Is(err, ErrInvalidBizType) {
				t.Errorf("%q: got %v", name, err)
			}
		}
	}
	for _, n := range []int{0, -1} {
		fails(c.NextN(ctx, "order", n))(t, ErrInvalidCount)
	}
	fails(c.Parse(ctx, "order", ""))(t, ErrInvalidID)
	fails(c.Do(ctx, Request{Path: "tokens"}))(t, ErrInvalidRequest)
}

func second[T any](_ T, err error) error { return err }

// What the service refuses names its limit.
func TestTooMany(t *testing.T) {
	c := dial(t, Config{Addrs: []string{start(t, newService()).URL}})
	_, err := c.NextN(context.Background(), "order", 10_001)
	if !errors.Is(err, ErrInvalidCount) || !strings.Contains(err.Error(), "10000") || !strings.Contains(err.Error(), "400 Bad Request") {
		t.Errorf("got %v", err)
	}
}

// A count that is absurd is refused by the service too, and does not overflow what is computed of
// it.
func TestHugeCounts(t *testing.T) {
	s := start(t, newService())
	for _, n := range []int{math.MaxInt, math.MaxInt>>1 + 1, math.MaxInt>>10 + 1, math.MaxInt>>13 + 1} {
		c := dial(t, Config{Addrs: []string{s.URL}, Wait: -1})
		fails(c.NextN(context.Background(), "order", n))(t, ErrInvalidCount)
		fails(c.AppendText(context.Background(), nil, "order", n))(t, ErrInvalidCount)
	}
}

func TestParse(t *testing.T) {
	var path, query string
	body := `{"bizType":"user","id":"7","number":"9223372036854775807","valid":true,"at":"2026-11-22T00:31:43.516Z","machineId":0,"sequence":4095,"more":[]}`
	c := answering(t, func(r *http.Request) *http.Response {
		path, query = r.URL.EscapedPath(), r.URL.RawQuery
		return respond(200, "application/json", body)
	})
	ctx := context.Background()
	p, err := c.Parse(ctx, "user", "7")
	if err != nil || p.Number != 1<<63-1 || !p.Valid || p.At.UnixMilli() != 1795307503516 || *p.MachineID != 0 || *p.Sequence != 4095 || path != "/seq/user/parse/7" {
		t.Errorf("%s: got %+v, %v", path, p, err)
	}
	body = `{"bizType":"ticket","id":"7","number":"3","valid":true,"key":"t-1"}`
	p, err = c.Parse(ctx, "ticket", "7", Key("t-1"))
	if err != nil || p.Key != "t-1" || query != "key=t-1" {
		t.Errorf("%s: got %+v, %v", query, p, err)
	}
	fails(c.Parse(ctx, "ticket", "7", Key("a/b")))(t, ErrInvalidKey)
	fails(c.Parse(ctx, "ticket", "7", IdempotencyKey("once")))(t, ErrInvalidRequest)
	body = `{"bizType":"user","id":"A/1 ?é","number":"1","valid":false,"period":"2026"}`
	p, err = c.Parse(ctx, "user", "A/1 ?é")
	if err != nil || p.Valid || p.Period != "2026" || !p.At.IsZero() || p.MachineID != nil || path != "/seq/user/parse/A%2F1%20%3F%C3%A9" {
		t.Errorf("%s: got %+v, %v", path, p, err)
	}
	for _, wrong := range []string{`{}`, `{"bizType":"user","id":"8","number":"8","valid":true}`, `{"bizType":"user","id":"7","number":7,"valid":true}`, `{"bizType":"user","id":"7","number":"7","valid":1}`, ``} {
		body = wrong
		if p, err := c.Parse(ctx, "user", "7"); !errors.Is(err, ErrBadAnswer) || p.BizType != "" {
			t.Errorf("%s: got %+v, %v", wrong, p, err)
		}
	}
}

func TestErrors(t *testing.T) {
	c := answering(t, func(*http.Request) *http.Response {
		return respond(400, "application/problem+json; charset=utf-8",
			`{"type":"about:blank","status":400,"code":"invalid_definition","detail":"two things are wrong\u001b[31m\nseqd_hidden","requestId":"r-1","problems":[{"key":"step","text":"must be at least 1"}],"later":1}`)
	})
	_, err := c.Do(context.Background(), Request{Method: "PUT", Path: "/biz-types/x"})
	want := "seqd: invalid_definition: two things are wrong [31m (token); step: must be at least 1 (400 Bad Request, http://a, request r-1)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if !errors.Is(err, ErrInvalidDefinition) || errors.Is(err, ErrInvalidCount) || asError(err).Code != ErrInvalidDefinition || asError(err).Unknown {
		t.Errorf("got %+v", asError(err))
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 23, 1, 2, 3, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-1": 0, "soon": 0, "1.5": 0,
		"99999999999999999999": 0, "9999999999999999999": 24 * time.Hour,
		"Mon, 23 Nov 2026 01:02:13 GMT": 10 * time.Second, "Mon, 23 Nov 2026 01:02:00 GMT": 0, "Mon, 23 Nov 2099 01:02:00 GMT": 24 * time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}
