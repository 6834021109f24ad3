package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seqd/seqd/client"
)

// node stands in for a node of seqd that has the biz type order.
func node() *httptest.Server {
	var last atomic.Int64
	last.Store(99)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/seq/order" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"unknown_biz_type","detail":"there is no such biz type"}`)
			return
		}
		count, err := strconv.Atoi(r.URL.Query().Get("count"))
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"bizType":"order","id":"%d"}`, last.Add(1))
			return
		}
		var ids []string
		for range count {
			ids = append(ids, strconv.FormatInt(last.Add(1), 10))
		}
		if r.Header.Get("Accept") == "text/plain" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
			fmt.Fprintln(w, strings.Join(ids, "\n"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"bizType":"order","ids":["%s"]}`, strings.Join(ids, `","`))
	}))
}

func Example() {
	a, b := node(), node()
	defer a.Close()
	defer b.Close()

	c, err := client.New(client.Config{Addrs: []string{a.URL, b.URL}})
	if err != nil {
		log.Fatal(err)
	}
	id, err := c.Next(context.Background(), "order")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
	// Output: 100
}

func ExampleClient_NextN() {
	n := node()
	defer n.Close()
	c, err := client.New(client.Config{Addrs: []string{n.URL}})
	if err != nil {
		log.Fatal(err)
	}

	ids, err := c.NextN(context.Background(), "order", 3)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	// Output: [100 101 102]
}

// With a key a lost answer leaves no gap.
func ExampleIdempotencyKey() {
	n := node()
	defer n.Close()
	c, err := client.New(client.Config{Addrs: []string{n.URL}})
	if err != nil {
		log.Fatal(err)
	}

	key := client.NewIdempotencyKey() // keep it with the thing that needs the number
	id, err := c.Next(context.Background(), "order", client.IdempotencyKey(key))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id)
	// Output: 100
}

func ExampleClient_Buffer() {
	n := node()
	defer n.Close()
	c, err := client.New(client.Config{Addrs: []string{n.URL}})
	if err != nil {
		log.Fatal(err)
	}

	b, err := c.Buffer("order", client.BufferOptions{Size: 1000})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	for range 3 {
		id, err := b.Next(context.Background()) // one request for all three
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id)
	}
	// Output:
	// 100
	// 101
	// 102
}

// Large numbers of IDs go to a file without becoming strings.
func ExampleClient_AppendText() {
	n := node()
	defer n.Close()
	c, err := client.New(client.Config{Addrs: []string{n.URL}})
	if err != nil {
		log.Fatal(err)
	}

	var text []byte
	for range 2 {
		text, err = c.AppendText(context.Background(), text[:0], "order", 2)
		if err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(text)
	}
	// Output:
	// 100
	// 101
	// 102
	// 103
}

func ExampleError() {
	n := node()
	defer n.Close()
	c, err := client.New(client.Config{Addrs: []string{n.URL}})
	if err != nil {
		log.Fatal(err)
	}

	_, err = c.Next(context.Background(), "ordre")
	switch {
	case errors.Is(err, client.ErrUnknownBizType):
		fmt.Println("a typing error?")
	case errors.Is(err, client.ErrUnreachable):
		fmt.Println("no node answers")
	}
	// Output: a typing error?
}

// Metrics are made from events.
func ExampleConfig_observe() {
	n := node()
	defer n.Close()
	var requests, failures atomic.Int64
	c, err := client.New(client.Config{
		Addrs: []string{n.URL},
		Observe: func(e client.Event) {
			requests.Add(1)
			if e.Err != nil {
				failures.Add(1)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, bizType := range []string{"order", "ordre"} {
		_, _ = c.Next(context.Background(), bizType)
	}
	fmt.Println(requests.Load(), failures.Load())
	// Output: 2 1
}

// IDs are made in this process, with a worker ID that no other program has.
func ExampleClient_Snowflake() {
	c, err := client.New(client.Config{Addrs: []string{"http://localhost:8080"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	s, err := c.Snowflake("shop", client.SnowflakeOptions{Instance: "shop.8080.10.0.0.7"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close(ctx)
	id, err := s.Next(ctx)
	if errors.Is(err, client.ErrNoMachineID) {
		log.Print("try again in a moment: ", err)
		return
	}
	fmt.Println(id)
}

// A reservation is confirmed together with what uses its number, or released.
func ExampleClient_Reserve() {
	c, err := client.New(client.Config{Addrs: []string{"http://localhost:8080"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	r, err := c.Reserve(ctx, "invoice", client.ReserveOptions{})
	if err != nil {
		log.Fatal(err)
	}
	if err := writeInvoice(r.IDs[0]); err != nil {
		log.Print(r.Release(ctx))
		return
	}
	if err := r.Confirm(ctx); err != nil {
		log.Print(err)
	}
}

func writeInvoice(string) error { return nil }
