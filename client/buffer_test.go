package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// Many callers share a buffer. Each gets increasing numbers, nobody gets one twice, and none is
// missing: what was issued was handed out, or is in hand.
func TestBufferSharedByMany(t *testing.T) {
	for _, size := range []int{1, 2, 3, 10, 1000} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			noLeaks(t)
			s := newService()
			node := httptest.NewServer(s)
			defer node.Close()
			c := dial(t, Config{Addrs: []string{node.URL}})
			defer c.CloseIdleConnections()
			b := must(c.Buffer("order", BufferOptions{Size: size}))(t)
			var most atomic.Int64
			all := callers(t, 8, func(_, k int) (string, error) {
				if k%100 == 0 {
					for n := int64(b.Len()); ; {
						if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
							break
						}
					}
				}
				return b.Next(context.Background())
			})
			unique(t, all)
			for _, ids := range all {
				last := -1
				for _, id := range ids {
					n, err := strconv.Atoi(id)
					if err != nil || n <= last {
						t.Fatalf("%s after %d", id, last)
					}
					last = n
				}
			}
			if n := int(most.Load()); n > size+1 {
				t.Errorf("it held %d", n)
			}
			skipped := b.Close()
			if issued := s.issued("order"); 8*perCaller+skipped > int(issued) || int(issued) > 8*perCaller+skipped+(size+1)/2 {
				t.Errorf("%d were issued, and %d skipped", issued, skipped)
			}
		})
	}
}

func TestBufferClose(t *testing.T) {
	noLeaks(t)
	s := newService()
	node := httptest.NewServer(s)
	defer node.Close()
	c := dial(t, Config{Addrs: []string{node.URL}})
	defer c.CloseIdleConnections()
	b := must(c.Buffer("order", BufferOptions{Size: 10}))(t)
	if s.issued("order") != 0 {
		t.Error("numbers were issued before they were asked for")
	}
	must(b.Next(context.Background()))(t)
	for b.Len() < 9 { // the second half is on its way
		runtime.Gosched()
	}
	if skipped := b.Close(); skipped != 9 {
		t.Errorf("%d were skipped", skipped)
	}
	if skipped := b.Close(); skipped != 0 || b.Len() != 0 {
		t.Errorf("%d were skipped again, and %d are in hand", skipped, b.Len())
	}
	fails(b.Next(context.Background()))(t, ErrClosed)
}

// Close ends callers that wait, and the request that they wait for.
func TestCloseWhileCallersWait(t *testing.T) {
	noLeaks(t)
	begun := make(chan struct{}, 1)
	node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
	}))
	defer node.Close()
	c := dial(t, Config{Addrs: []string{node.URL}})
	b := must(c.Buffer("order", BufferOptions{}))(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			fails(b.Next(context.Background()))(t, ErrClosed)
		}()
	}
	<-begun
	if skipped := b.Close(); skipped != 0 {
		t.Errorf("%d were skipped", skipped)
	}
	wg.Wait()
}

// A buffer that asks for more than the service gives at once asks for less.
func TestBufferAboveMaxCount(t *testing.T) {
	s := newService()
	s.maxCount = 7
	c := dial(t, Config{Addrs: []string{start(t, s).URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 100}))(t)
	defer b.Close()
	for i := range 500 {
		if id, err := b.Next(context.Background()); err != nil || id != strconv.Itoa(i) {
			t.Fatalf("got %q, %v, want %d", id, err, i)
		}
	}
	b.mu.Lock()
	request := b.request
	b.mu.Unlock()
	if request != 6 { // 50, 25, 12, 6
		t.Errorf("it asks for %d", request)
	}
}

// What the service refuses for good reaches the caller at once, and the next call asks again.
func TestBufferRefused(t *testing.T) {
	s := newService()
	var disabled atomic.Bool
	disabled.Store(true)
	c := dial(t, Config{Addrs: []string{start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if disabled.Load() {
			refuse(w, 409, "disabled", "the biz type is disabled")
			return
		}
		s.ServeHTTP(w, r)
	})).URL}})
	b := must(c.Buffer("order", BufferOptions{}))(t)
	defer b.Close()
	for range 3 {
		fails(b.Next(context.Background()))(t, ErrDisabled)
	}
	disabled.Store(false)
	if id, err := b.Next(context.Background()); err != nil || id != "0" {
		t.Errorf("got %q, %v", id, err)
	}
}

// One that cannot even give one says why.
func TestBufferRefusedAnyCount(t *testing.T) {
	s := newService()
	s.maxCount = 0
	c := dial(t, Config{Addrs: []string{start(t, s).URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 100}))(t)
	defer b.Close()
	fails(b.Next(context.Background()))(t, ErrInvalidCount)
}

// A caller whose context has ended gets what is in hand, and nothing else.
func TestBufferAndContext(t *testing.T) {
	c := dial(t, Config{Addrs: []string{start(t, newService()).URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 1}))(t)
	defer b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	must(b.Next(ctx))(t)
	for b.Len() > 0 {
		must(b.Next(ctx))(t)
	}
	cancel()
	for i := 0; ; i++ {
		if _, err := b.Next(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			break
		}
		if i > 1000 {
			t.Fatal("it never waited")
		}
	}
}

func TestBufferOptions(t *testing.T) {
	c := dial(t, Config{Addrs: []string{"http://a"}})
	for _, opts := range []BufferOptions{{Size: -1}, {Size: largestSize + 1}, {Request: -1}, {Size: 10, Request: 11}, {MaxAge: -1}} {
		if _, err := c.Buffer("order", opts); err == nil {
			t.Errorf("%+v was accepted", opts)
		}
	}
}

// Buffers do not hand out what an answer with a fault contains.
func TestBufferAndWrongAnswers(t *testing.T) {
	s := newService()
	var n atomic.Int64
	c := dial(t, Config{Addrs: []string{start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
		switch n.Add(1) % 4 {
		case 1: // one less than asked for
			answerJSON(w, map[string]any{"bizType": "order", "ids": s.take("order", "", 4)})
		case 2: // one of them twice
			ids := s.take("order", "", 5)
			ids[4] = ids[0]
			answerJSON(w, map[string]any{"bizType": "order", "ids": ids})
		case 3: // out of a cache
			w.Header().Set("X-Request-Id", fmt.Sprintf("%s1234-1", idMark))
			answerJSON(w, map[string]any{"bizType": "order", "ids": s.take("order", "", 5)})
		default:
			s.ServeHTTP(w, r)
		}
	})).URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 10}))(t)
	defer b.Close()
	var got [][]string
	for len(got) < 20 {
		id, err := b.Next(context.Background())
		if err == nil {
			got = append(got, []string{id})
		} else if !errors.Is(err, ErrBadAnswer) {
			t.Fatal(err)
		}
	}
	unique(t, got)
	if got[0][0] != "14" {
		t.Errorf("the first is %s; 0 to 13 came in wrong answers", got[0][0])
	}
}

// An ID that is in hand costs no allocation.
func TestBufferAllocatesNothing(t *testing.T) {
	s := newService()
	c := dial(t, Config{Addrs: []string{start(t, s).URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 2000, Request: 2000}))(t)
	defer b.Close()
	ctx := context.Background()
	must(b.Next(ctx))(t)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := b.Next(ctx); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
