package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// gapless is a fake of the routes for reservations. It loses some of its answers on purpose.
type gapless struct {
	mu   sync.Mutex
	next int
	now  time.Time
	list map[string]*Reservation
	keys map[string]string // reservation by Idempotency-Key
	lose bool              // lose the answer to every other request
	n    int
}

func newGapless() *gapless {
	return &gapless{next: 1, now: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), list: map[string]*Reservation{}, keys: map[string]string{}}
}

func (g *gapless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	rec := httptest.NewRecorder()
	g.serve(rec, r)
	if g.n++; g.lose && g.n%2 == 1 {
		panic(http.ErrAbortHandler)
	}
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func (g *gapless) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/seq/invoice/reservations"), "/")
	if len(parts) == 1 && r.Method == "POST" {
		g.reserve(w, r)
		return
	}
	res := g.list[parts[1]]
	if res == nil {
		refuse(w, 404, "unknown_reservation", "there is no such reservation")
		return
	}
	if res.State == "reserved" && g.now.After(res.ExpiresAt) {
		res.State = "expired"
	}
	switch {
	case r.Method == "GET" && len(parts) == 2:
		answerJSON(w, res)
	case r.Method == "POST" && len(parts) == 3 && parts[2] == "confirm":
		if res.State == "expired" || res.State == "released" {
			refuse(w, 409, "reservation_"+res.State, "too late")
			return
		}
		res.State = "confirmed"
		answerJSON(w, res)
	case r.Method == "DELETE" && len(parts) == 2:
		if res.State == "confirmed" {
			refuse(w, 409, "reservation_confirmed", "too late")
			return
		}
		res.State = "released"
		w.WriteHeader(204)
	default:
		refuse(w, 405, "method_not_allowed", "no")
	}
}

func (g *gapless) reserve(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		refuse(w, 400, "invalid_request", "the test wants a key")
		return
	}
	if id := g.keys[key]; id != "" {
		w.Header().Set("Idempotent-Replayed", "true")
		answerJSON(w, g.list[id])
		return
	}
	ttl := 10 * time.Minute
	if text := r.URL.Query().Get("ttl"); text != "" {
		var err error
		if ttl, err = time.ParseDuration(text); err != nil || ttl < time.Second || ttl > 24*time.Hour {
			refuse(w, 400, "invalid_ttl", "ttl must be 1s to 24h")
			return
		}
	}
	count, _ := strconv.Atoi(r.URL.Query().Get("count"))
	res := &Reservation{BizType: "invoice", ID: fmt.Sprintf("invoice.%d", len(g.list)), ExpiresAt: g.now.Add(ttl), State: "reserved"}
	for range count {
		res.IDs = append(res.IDs, strconv.Itoa(g.next))
		g.next++
	}
	g.list[res.ID], g.keys[key] = res, res.ID
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(201)
	answerJSON(w, res)
}

func TestReserve(t *testing.T) {
	for _, lose := range []bool{false, true} {
		t.Run(fmt.Sprintf("lose=%v", lose), func(t *testing.T) {
			g := newGapless()
			g.lose = lose
			c := dial(t, Config{Addrs: []string{start(t, g).URL}})
			ctx := context.Background()
			a, err := c.Reserve(ctx, "invoice", ReserveOptions{TTL: time.Minute})
			if err != nil || strings.Join(a.IDs, " ") != "1" || !a.ExpiresAt.Equal(g.now.Add(time.Minute)) {
				t.Fatalf("got %+v, %v", a, err)
			}
			b, err := c.Reserve(ctx, "invoice", ReserveOptions{Count: 3})
			if err != nil || strings.Join(b.IDs, " ") != "2 3 4" || !b.ExpiresAt.Equal(g.now.Add(10*time.Minute)) {
				t.Fatalf("got %+v, %v", b, err)
			}
			for range 2 {
				if err := a.Confirm(ctx); err != nil {
					t.Error(err)
				}
				if err := b.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			if err := a.Release(ctx); !errors.Is(err, ErrReservationConfirmed) {
				t.Errorf("got %v", err)
			}
			if err := b.Confirm(ctx); !errors.Is(err, ErrReservationReleased) {
				t.Errorf("got %v", err)
			}
			late := must(c.Reserve(ctx, "invoice", ReserveOptions{TTL: time.Second}))(t)
			g.mu.Lock()
			g.now = g.now.Add(time.Hour)
			g.mu.Unlock()
			if err := late.Confirm(ctx); !errors.Is(err, ErrReservationExpired) {
				t.Errorf("got %v", err)
			}
			if again, err := c.Reservation(ctx, "invoice", a.ID); err != nil || again.State != "confirmed" || again.Confirm(ctx) != nil {
				t.Errorf("got %+v, %v", again, err)
			}
			fails(c.Reservation(ctx, "invoice", "none"))(t, ErrUnknownReservation)
			if len(g.list) != 3 {
				t.Errorf("%d reservations", len(g.list))
			}
		})
	}
}

// The same key after a restart is the same reservation.
func TestReserveAgain(t *testing.T) {
	c := dial(t, Config{Addrs: []string{start(t, newGapless()).URL}})
	opts := ReserveOptions{IdempotencyKey: "order-4711"}
	a := must(c.Reserve(context.Background(), "invoice", opts))(t)
	b, err := c.Reserve(context.Background(), "invoice", opts)
	if err != nil || a.ID != b.ID || b.IDs[0] != "1" {
		t.Errorf("got %+v and %+v, %v", a, b, err)
	}
}

func TestReserveRefuses(t *testing.T) {
	body := ""
	c := answering(t, func(*http.Request) *http.Response { return respond(201, "application/json", body) })
	ctx := context.Background()
	for _, opts := range []ReserveOptions{{Count: -1}, {TTL: -1}, {IdempotencyKey: "a b"}} {
		if _, err := c.Reserve(ctx, "invoice", opts); err == nil || errors.Is(err, ErrBadAnswer) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
	fails(c.Reservation(ctx, "invoice", ""))(t, ErrUnknownReservation)
	for _, body = range []string{
		`{}`, `null`, `{"bizType":"invoice","reservation":"r","ids":[]}`, `{"bizType":"invoice","reservation":"r","ids":["1"]}`, `{"bizType":"invoice","reservation":"r","ids":["1","1"]}`,
		`{"bizType":"invoice","reservation":"","ids":["1","2"]}`, `{"bizType":"other","reservation":"r","ids":["1","2"]}`, `{"bizType":"invoice","reservation":"r","ids":["1","2"]`,
	} {
		if r, err := c.Reserve(ctx, "invoice", ReserveOptions{Count: 2}); !errors.Is(err, ErrBadAnswer) {
			t.Errorf("%s: got %+v, %v", body, r, err)
		}
	}
}
