package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// Every call sends its key, beside whatever else it sends.
func TestKey(t *testing.T) {
	var got []string
	c := answering(t, func(r *http.Request) *http.Response {
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Idempotency-Key"))
		header := []string{"X-Request-Id", r.Header.Get("X-Request-Id")}
		switch {
		case r.Header.Get("Accept") == "text/plain":
			return respond(200, "text/plain", "3\n4\n", header...)
		case strings.HasSuffix(r.URL.Path, "/reservations"):
			return respond(201, "application/json", `{"bizType":"invoice","reservation":"r..t-1","ids":["7"]}`, header...)
		case r.URL.Query().Has("count"):
			return respond(200, "application/json", `{"bizType":"invoice","ids":["1","2"]}`, header...)
		}
		return respond(200, "application/json", `{"bizType":"invoice","id":"1"}`, header...)
	})
	ctx, key := context.Background(), Key("t-1")
	calls := []func() error{
		func() error { _, err := c.Next(ctx, "invoice", key); return err },
		func() error { _, err := c.Next(ctx, "invoice", IdempotencyKey("once"), key); return err },
		func() error { _, err := c.NextN(ctx, "invoice", 2, key); return err },
		func() error { _, err := c.AppendText(ctx, nil, "invoice", 2, key); return err },
		func() error {
			_, err := c.Reserve(ctx, "invoice", ReserveOptions{Key: "t-1", IdempotencyKey: "once"})
			return err
		},
		func() error {
			b, err := c.Buffer("invoice", BufferOptions{Size: 2, Request: 2, Key: "t-1"})
			if err == nil {
				_, err = b.Next(ctx)
				b.Close()
			}
			return err
		},
	}
	for i, call := range calls {
		if err := call(); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	want := []string{
		"GET /seq/invoice?key=t-1 ", "POST /seq/invoice?key=t-1 once", "GET /seq/invoice?count=2&key=t-1 ", "GET /seq/invoice?count=2&key=t-1 ",
		"POST /seq/invoice/reservations?count=1&key=t-1 once", "GET /seq/invoice?count=2&key=t-1 ",
	}
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); !strings.HasPrefix(g, w) {
		t.Errorf("sent\n%s, want\n%s", g, w)
	}
}

// A key that no biz type can have is refused before anything is sent.
func TestKeyRefused(t *testing.T) {
	c := answering(t, func(r *http.Request) *http.Response {
		t.Errorf("sent %s", r.URL)
		return problem(400, "invalid_key")
	})
	ctx := context.Background()
	for _, key := range []string{".a", "-a", "_a", "a/b", "a b", "a&x=1", "ä", "a\x00", strings.Repeat("a", 65), "%61"} {
		_, next := c.Next(ctx, "invoice", Key(key))
		_, many := c.NextN(ctx, "invoice", 2, Key(key))
		_, reserved := c.Reserve(ctx, "invoice", ReserveOptions{Key: key})
		_, buffer := c.Buffer("invoice", BufferOptions{Key: key})
		for i, err := range []error{next, many, reserved, buffer} {
			if !errors.Is(err, ErrInvalidKey) {
				t.Errorf("key %q, call %d: %v", key, i, err)
			}
		}
	}
	fails(c.Next(ctx, "invoice", Key("")))(t, ErrInvalidKey)
}
