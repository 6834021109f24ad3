package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answering returns a client whose only node gives this answer.
func answering(t testing.TB, resp func(*http.Request) *http.Response) *Client {
	return dial(t, Config{Addrs: []string{"http://a"}, Wait: -1, Token: "seqd_hidden", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return resp(r), nil
	})})
}

func TestAnswersThatAreUsed(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"as seqd writes it", `{"bizType":"order","id":"100"}`, "100"},
		{"with spaces", " {\n \"bizType\" : \"order\", \"id\" : \"100\" }\n", "100"},
		{"other order", `{"id":"100","bizType":"order"}`, "100"},
		{"new fields", `{"bizType":"order","id":"100","period":"2026","x":{"y":[1]}}`, "100"},
		{"escapes", `{"bizType":"order","id":"a\"b\\\u00e9\/"}`, `a"b\é/`},
		{"beyond ASCII", `{"bizType":"order","id":"票-7"}`, "票-7"},
		{"a space", `{"bizType":"order","id":"A 1"}`, "A 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := answering(t, func(*http.Request) *http.Response { return respond(200, "application/json", test.body) })
			if got, err := c.Next(context.Background(), "order"); err != nil || got != test.want {
				t.Errorf("Next: got %q, %v", got, err)
			}
			body := strings.Replace(test.body, `"id"`, `"ids"`, 1)
			body = strings.Replace(body, `"100"`, `["100"]`, 1)
			if body == strings.Replace(test.body, `"id"`, `"ids"`, 1) {
				return
			}
			c = answering(t, func(*http.Request) *http.Response { return respond(200, "application/json; charset=utf-8", body) })
			if got, err := c.NextN(context.Background(), "order", 1); err != nil || !slices.Equal(got, []string{test.want}) {
				t.Errorf("NextN: got %q, %v", got, err)
			}
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	const media = "application/json"
	good := `{"bizType":"order","id":"100"}`
	goodMany := `{"bizType":"order","ids":["100","101"]}`
	type test struct {
		name, media, body string
		status            int
	}
	one := []test{
		{"a page", "text/html", "<html>Sign in</html>", 200},
		{"a page that says JSON", media, "<html>Sign in</html>", 200},
		{"JSON without a type", "", good, 200},
		{"an odd type", ";;", good, 200},
		{"empty", media, "", 200},
		{"no content", media, "", 204},
		{"created", media, good, 201},
		{"partial", media, good, 206},
		{"cut", media, good[:len(good)-2], 200},
		{"cut in the ID", media, good[:len(good)-4], 200},
		{"null", media, "null", 200},
		{"an array", media, `["100"]`, 200},
		{"more behind", media, good + good, 200},
		{"a number", media, `{"bizType":"order","id":100}`, 200},
		{"an empty ID", media, `{"bizType":"order","id":""}`, 200},
		{"null ID", media, `{"bizType":"order","id":null}`, 200},
		{"no ID", media, `{"bizType":"order"}`, 200},
		{"ids too", media, `{"bizType":"order","id":"1","ids":["1"]}`, 200},
		{"another biz type", media, `{"bizType":"orders","id":"100"}`, 200},
		{"no biz type", media, `{"id":"100"}`, 200},
		{"not UTF-8", media, "{\"bizType\":\"order\",\"id\":\"\xff\"}", 200},
		{"a line break", media, "{\"bizType\":\"order\",\"id\":\"1\n\"}", 200},
	}
	many := []test{
		{"one more", media, `{"bizType":"order","ids":["100","101","102"]}`, 200},
		{"one less", media, `{"bizType":"order","ids":["100"]}`, 200},
		{"none", media, `{"bizType":"order","ids":[]}`, 200},
		{"null", media, `{"bizType":"order","ids":null}`, 200},
		{"an ID", media, good, 200},
		{"id too", media, `{"bizType":"order","ids":["1","2"],"id":"1"}`, 200},
		{"twice", media, `{"bizType":"order","ids":["100","100"]}`, 200},
		{"twice by an escape", media, `{"bizType":"order","ids":["100","10\u0030"]}`, 200},
		{"an empty one", media, `{"bizType":"order","ids":["100",""]}`, 200},
		{"a null", media, `{"bizType":"order","ids":["100",null]}`, 200},
		{"a number", media, `{"bizType":"order","ids":["100",101]}`, 200},
		{"cut", media, goodMany[:len(goodMany)-1], 200},
		{"cut behind a comma", media, `{"bizType":"order","ids":["100",`, 200},
		{"another biz type", media, strings.Replace(goodMany, "order", "Order", 1), 200},
		{"text", "text/plain", "100\n101\n", 200},
	}
	text := []test{
		{"one more", "text/plain", "100\n101\n102\n", 200},
		{"one less", "text/plain", "100\n", 200},
		{"cut", "text/plain", "100\n10", 200},
		{"twice", "text/plain", "100\n100\n", 200},
		{"an empty line", "text/plain", "100\n\n", 200},
		{"carriage returns", "text/plain", "100\r\n101\r\n", 200},
		{"JSON", media, goodMany, 200},
		{"a page", "text/html", "<html>\n</html>\n", 200},
	}
	run := func(kind string, tests []test, ask func(c *Client) (any, error)) {
		for _, test := range tests {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				var asked int
				c := answering(t, func(*http.Request) *http.Response {
					asked++
					return respond(test.status, test.media, test.body, "X-Request-Id", "proxy-1")
				})
				got, err := ask(c)
				if !errors.Is(err, ErrBadAnswer) {
					t.Fatalf("got %v, %v, want %v", got, err, ErrBadAnswer)
				}
				if e := asError(err); !e.Unknown || e.Status != test.status || e.Addr != "http://a" {
					t.Errorf("got %+v", e)
				}
				if asked != 1 {
					t.Errorf("asked %d times", asked)
				}
			})
		}
	}
	run("Next", one, func(c *Client) (any, error) { return c.Next(context.Background(), "order") })
	run("NextN", many, func(c *Client) (any, error) { return c.NextN(context.Background(), "order", 2) })
	run("AppendText", text, func(c *Client) (any, error) {
		got, err := c.AppendText(context.Background(), []byte("x"), "order", 2)
		if string(got) != "x" {
			t.Errorf("got %q besides %v", got, err)
		}
		return got, err
	})
}

// An answer to another request contains somebody else's numbers.
func TestAnswersOfOtherRequests(t *testing.T) {
	const good = `{"bizType":"order","id":"100"}`
	for _, test := range []struct {
		name   string
		header func(id string) []string
		used   bool
	}{
		{"no ID", func(string) []string { return nil }, true},
		{"its own", func(id string) []string { return []string{"X-Request-Id", id} }, true},
		{"a proxy's", func(string) []string { return []string{"X-Request-Id", "d2c9-7"} }, true},
		{"another one's", func(id string) []string { return []string{"X-Request-Id", id + "0"} }, false},
		{"another client's", func(string) []string { return []string{"X-Request-Id", newRequestIDs().next()} }, false},
		{"from a cache", func(id string) []string { return []string{"X-Request-Id", id, "Age", "0"} }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := answering(t, func(r *http.Request) *http.Response {
				return respond(200, "application/json", good, test.header(r.Header.Get("X-Request-Id"))...)
			})
			_, err := c.Next(context.Background(), "order")
			if test.used && err != nil || !test.used && !errors.Is(err, ErrBadAnswer) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestAnswersThatAreTooLarge(t *testing.T) {
	for _, length := range []int64{-1, 1 << 40} {
		c := answering(t, func(*http.Request) *http.Response {
			resp := respond(200, "application/json", strings.Repeat(" ", 1<<20))
			resp.ContentLength = length
			return resp
		})
		fails(c.Next(context.Background(), "order"))(t, ErrBadAnswer)
	}
}

// IDs in no order, so that the table is used: one twice is found wherever it is.
func TestTwiceInNoOrder(t *testing.T) {
	for _, n := range []int{2, 3, 10, 1000, 4096} {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint(i * 7919)
		}
		rand.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		s := new(scratch)
		if err := s.check(s.join(ids), n); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			i, j := rand.IntN(n), rand.IntN(n)
			if i == j {
				continue
			}
			wrong := slices.Clone(ids)
			wrong[i] = wrong[j]
			s.spans, s.text = s.spans[:0], s.text[:0]
			if err := s.check(s.join(wrong), n); err == nil {
				t.Fatalf("%d of %d is %d", i, n, j)
			}
		}
	}
}

// An ID that is kept holds little memory besides itself.
func TestChunks(t *testing.T) {
	var ids []string
	for i := range 5000 {
		ids = append(ids, strconv.Itoa(i*i))
	}
	long := strings.Repeat("x", 5000)
	ids = append(ids, long, "y", long+"z")
	s := new(scratch)
	if got := s.strings(s.join(ids)); !slices.Equal(got, ids) {
		t.Fatal("the IDs changed")
	}
}

// The reader by hand agrees with encoding/json, and never invents an ID.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"bizType":"order","id":"100"}`))
	f.Add([]byte(`{"bizType":"order","ids":["100","101"]}`))
	f.Add([]byte(`{"bizType":"order","ids":["100","10\u0031"],"x":1}`))
	f.Add([]byte(`{"bizType":"order","ids":["100",`))
	f.Add([]byte(`{"bizType":"order","ids":["`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a := &answer{status: 200, header: http.Header{"Content-Type": {"application/json"}}, body: body}
		slow, slowErr := decodeSlowly(body, "order")
		if id, err := decodeID(a, "order"); err == nil && (slowErr != nil || slow.ID == nil || id != *slow.ID) {
			t.Errorf("%q: id %q", body, id)
		}
		for n := 1; n < 4; n++ {
			list, err := decodeIDs(a, "order", n)
			if ids := list.all(); err == nil && (slowErr != nil || !slices.Equal(ids, slow.IDs) || len(ids) != n) {
				t.Errorf("%q: ids %q", body, ids)
			}
		}
	})
}

// Text has nothing but the header that tells it from any other page of as many lines.
func TestTextOfSomethingElse(t *testing.T) {
	for id, want := range map[string]error{"": ErrBadAnswer, "proxy-1": nil} {
		c := answering(t, func(*http.Request) *http.Response {
			a := respond(200, "text/plain", "100\n101\n")
			if id != "" {
				a.Header.Set("X-Request-Id", id)
			}
			return a
		})
		if got, err := c.AppendText(context.Background(), nil, "order", 2); !errors.Is(err, want) {
			t.Errorf("with the ID %q: got %q, %v", id, got, err)
		}
	}
}
