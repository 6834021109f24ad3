package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// benchAddr returns the address of a service with the biz type order: a real one, if the environment
// names it, or a fake that issues as fast.
func benchAddr(b *testing.B) string {
	if addr := os.Getenv("SEQD_TEST_ADDR"); addr != "" {
		return addr
	}
	var last atomic.Int64
	last.Store(1_000_000_000)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Request-Id"] = r.Header["X-Request-Id"]
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.RawQuery
		if query == "" {
			_, _ = io.WriteString(w, `{"bizType":"order","id":"`+strconv.FormatInt(last.Add(1), 10)+`"}`)
			return
		}
		count, err := strconv.Atoi(query[len("count="):])
		if err != nil {
			panic(err)
		}
		end := last.Add(int64(count))
		body := append(make([]byte, 0, count*16), `{"bizType":"order","ids":[`...)
		for n := end - int64(count); n < end; n++ {
			body = append(strconv.AppendInt(append(body, '"'), n, 10), `",`...)
		}
		body = append(body[:len(body)-1], "]}"...)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}))
	b.Cleanup(node.Close)
	return node.URL
}

func benchClient(b *testing.B) *Client {
	c := dial(b, Config{Addrs: []string{benchAddr(b)}})
	if _, err := c.Next(context.Background(), "order"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return c
}

// One ID by the client, and by net/http and encoding/json alone.
func BenchmarkNext(b *testing.B) {
	c := benchClient(b)
	ctx := context.Background()
	for range b.N {
		if _, err := c.Next(ctx, "order"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareNext(b *testing.B) {
	addr := benchAddr(b)
	client := &http.Client{Transport: newTransport()}
	ctx := context.Background()
	next := func() {
		req, err := http.NewRequestWithContext(ctx, "GET", addr+"/seq/order", nil)
		if err != nil {
			b.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		var got struct {
			ID string `json:"id"`
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if err := json.Unmarshal(body, &got); err != nil || resp.StatusCode != 200 || got.ID == "" {
			b.Fatal(err)
		}
	}
	next()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		next()
	}
}

func BenchmarkNextN(b *testing.B) {
	c := benchClient(b)
	for range b.N {
		if _, err := c.NextN(context.Background(), "order", 10_000); err != nil {
			b.Fatal(err)
		}
	}
}

// IDs out of a buffer: as fast as they come, and what a call costs if there is one in hand.
func BenchmarkBuffer(b *testing.B) {
	for _, goroutines := range []int{1, 8} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			c := benchClient(b)
			buffer, err := c.Buffer("order", BufferOptions{Size: 20_000})
			if err != nil {
				b.Fatal(err)
			}
			defer buffer.Close()
			benchBuffer(b, buffer, goroutines)
		})
	}
}

func BenchmarkBufferInHand(b *testing.B) {
	const stride = len(`1000000000","`)
	chunk := strings.Repeat(`1000000000","`, chunkIDs)
	for _, goroutines := range []int{1, 8} {
		b.Run(strconv.Itoa(goroutines), func(b *testing.B) {
			c := dial(b, Config{Addrs: []string{"http://a"}})
			buffer, err := c.Buffer("order", BufferOptions{Size: 20_000})
			if err != nil {
				b.Fatal(err)
			}
			defer buffer.Close()
			many := &batch{ids: idList{n: b.N, width: 10, stride: stride}}
			for range b.N/chunkIDs + 1 {
				many.ids.chunks = append(many.ids.chunks, chunk)
			}
			buffer.current.Store(many)
			b.ReportAllocs()
			b.ResetTimer()
			benchBuffer(b, buffer, goroutines)
		})
	}
}

func benchBuffer(b *testing.B, buffer *Buffer, goroutines int) {
	ctx := context.Background()
	done := make(chan error, goroutines)
	for i := range goroutines {
		n := b.N / goroutines
		if i == 0 {
			n = b.N - n*(goroutines-1)
		}
		go func() {
			for range n {
				if _, err := buffer.Next(ctx); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
