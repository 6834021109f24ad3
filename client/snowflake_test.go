package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pool is a fake of the routes that lease worker IDs of the pool shop.
type pool struct {
	now func() time.Time

	mu    sync.Mutex
	g     grantor
	asked []string
	// fault, if it is set, can answer or lose a request; lost is called after it was carried out.
	fault func(r *http.Request) *http.Response
	lost  func(r *http.Request) bool
}

// newPool returns a pool with one worker ID.
func newPool(now func() time.Time) *pool {
	p := &pool{now: now, g: grantor{ttl: 30_000}}
	p.g.slots = append(p.g.slots, struct {
		lower, until int64
		token        string
	}{})
	return p
}

// client returns a client of the pool, which asks each time once.
func (p *pool) client(t testing.TB) *Client {
	return dial(t, Config{Addrs: []string{"http://a"}, Wait: -1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var body []byte
		if r.Body != nil {
			body = must(io.ReadAll(r.Body))(t)
		}
		p.asked = append(p.asked, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		if p.fault != nil {
			if resp := p.fault(r); resp != nil {
				return resp, nil
			}
		}
		resp := p.answer(r, body)
		if p.lost != nil && p.lost(r) {
			return nil, errors.New("the connection broke")
		}
		return resp, nil
	})})
}

func (p *pool) answer(r *http.Request, body []byte) *http.Response {
	now := p.now().UnixMilli()
	var l *WorkerLease
	var err *Error
	token, held := strings.CutPrefix(r.URL.Path, "/workers/shop/")
	status, of := 200, &WorkerLease{Lease: token}
	switch {
	case !held:
		l, err = p.g.lease(now)
		status = 201
	case r.Method == http.MethodPost:
		l, err = p.g.renew(of, now)
	default:
		var last struct{ Last time.Time }
		if json.Unmarshal(body, &last) != nil || p.g.slots[0].token != token {
			return problem(409, string(ErrLeaseLost))
		}
		p.g.release(of, last.Last.UnixMilli())
		return respond(204, "", "")
	}
	if err != nil {
		return problem(err.Status, string(err.Code), "Retry-After", "1")
	}
	return respond(status, "application/json", leaseJSON(l, status == 201))
}

// leaseJSON is what the service answers to a request for a lease, or for its renewal.
func leaseJSON(l *WorkerLease, whole bool) string {
	text := fmt.Sprintf(`{"workerId":%d,"lease":%q,"until":%q`, l.WorkerID, l.Lease, l.Until.UTC().Format(timeForm))
	if whole {
		text += fmt.Sprintf(`,"pool":%q,"after":%q,"ttl":%q,"epoch":%q,"bitsMachine":%d,"bitsSequence":%d`,
			l.Pool, l.After.UTC().Format(timeForm), l.TTL, l.Epoch.Format(timeForm), l.BitsMachine, l.BitsSequence)
	}
	return text + "}"
}

func (p *pool) set(fault func(*http.Request) *http.Response, lost func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.lost = fault, lost
}

// wantLeases checks how many leases were granted.
func (p *pool) wantLeases(t *testing.T, want int) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.g.granted != want {
		t.Errorf("%d leases were granted, want %d", p.g.granted, want)
	}
}

// hand is a clock that tests set.
type hand struct{ ms atomic.Int64 }

func newHand() *hand {
	h := new(hand)
	h.ms.Store(noon)
	return h
}

func (h *hand) now() time.Time      { return time.UnixMilli(h.ms.Load()) }
func (h *hand) add(d time.Duration) { h.ms.Add(d.Milliseconds()) }

// snowflake returns a maker of the pool whose clock is now.
func (p *pool) snowflake(t testing.TB, now func() time.Time) *Snowflake {
	s := p.client(t).newSnowflake("shop", SnowflakeOptions{Instance: "shop.1"}, now)
	go s.keep()
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// leased waits until s has a lease.
func (s *Snowflake) leased(t *testing.T) *Snowflake {
	t.Helper()
	eventually(t, "a lease", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.maker.lease != nil
	})
	return s
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// Goroutines that share a Snowflake get different IDs, each of them increasing ones. Close names
// the last time, so that the worker ID is free at once.
func TestSnowflakeShared(t *testing.T) {
	noLeaks(t)
	p := newPool(time.Now)
	c := p.client(t)
	s := must(c.Snowflake("shop", SnowflakeOptions{Instance: "shop.8080"}))(t)
	var last atomic.Int64
	unique(t, callers(t, 4, func(_, _ int) (string, error) {
		id, err := s.Next(context.Background())
		for old := last.Load(); id > old && !last.CompareAndSwap(old, id); {
			old = last.Load()
		}
		return strconv.FormatInt(id, 10), err
	}))
	for range 2 {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	fails(s.Next(context.Background()))(t, ErrClosed)
	used := atMilli(last.Load()>>3 + s.maker.epoch)
	want := []string{`POST /workers/shop?wait=20s {"instance":"shop.8080"}`, `DELETE /workers/shop/1 {"last":"` + used + `"}`}
	if fmt.Sprint(p.asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", p.asked, want)
	}
	next := must(c.LeaseWorker(context.Background(), "shop", LeaseOptions{}))(t)
	if got := next.After.Format(timeForm); got != used || next.WorkerID != 0 || !strings.Contains(p.asked[2], "client.test.") {
		t.Errorf("the next lease begins after %s, asked by %s", got, p.asked[2])
	}
}

// A program that was paused beyond the end of its lease makes no ID before it has another one.
func TestSnowflakePaused(t *testing.T) {
	clock := newHand()
	p := newPool(clock.now)
	s := p.snowflake(t, clock.now).leased(t)
	ctx := context.Background()
	clock.add(time.Millisecond)
	first := must(s.Next(ctx))(t)
	p.set(func(*http.Request) *http.Response { return problem(503, "starting") }, nil)
	clock.add(31 * time.Second)
	fails(s.Next(ctx))(t, ErrNoMachineID)
	p.set(nil, nil)
	eventually(t, "another lease", func() bool {
		clock.add(20 * time.Millisecond)
		id, err := s.Next(ctx)
		return err == nil && id > first
	})
	p.wantLeases(t, 2)
}

// While the service refuses, IDs are made until the lease ends. The error names the last refusal,
// and once the service is back there are IDs again.
func TestSnowflakeWithoutTheService(t *testing.T) {
	clock := newHand()
	p := newPool(clock.now)
	s := p.snowflake(t, clock.now).leased(t)
	ctx := context.Background()
	clock.add(time.Millisecond)
	must(s.Next(ctx))(t)
	var refused atomic.Int32
	p.set(func(*http.Request) *http.Response { refused.Add(1); return problem(503, "store_unavailable") }, nil)
	clock.add(29_999 * time.Millisecond)
	must(s.Next(ctx))(t)
	eventually(t, "a renewal that fails", func() bool { return refused.Load() > 0 })
	clock.add(time.Millisecond)
	eventually(t, "the reason", func() bool { _, err := s.Next(ctx); return errors.Is(err, ErrStoreUnavailable) })
	p.set(nil, nil)
	eventually(t, "another lease", func() bool {
		clock.add(20 * time.Millisecond)
		_, err := s.Next(ctx)
		return err == nil
	})
}

// An answer to a renewal that gets lost changes nothing: the next renewal succeeds.
func TestSnowflakeLosesAnAnswer(t *testing.T) {
	clock := newHand()
	p := newPool(clock.now)
	s := p.snowflake(t, clock.now).leased(t)
	ctx := context.Background()
	clock.add(time.Millisecond)
	must(s.Next(ctx))(t)
	var lost atomic.Int32
	p.set(nil, func(*http.Request) bool { return lost.Add(1) == 1 })
	clock.add(11 * time.Second)
	eventually(t, "a renewal", func() bool {
		clock.add(time.Millisecond)
		must(s.Next(ctx))(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.maker.until > noon+30_000
	})
	clock.add(20 * time.Second)
	must(s.Next(ctx))(t)
	p.wantLeases(t, 1)
}

// A caller waits for the begin of a lease, for the next millisecond and for a clock that was set
// back a little, if that is within its context. Otherwise it learns why.
func TestSnowflakeWaits(t *testing.T) {
	clock := newHand()
	p := newPool(clock.now)
	p.g.slots[0].until = noon + 40
	s := p.snowflake(t, clock.now).leased(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	hasty, hurry := context.WithTimeout(context.Background(), time.Millisecond)
	defer hurry()
	fails(s.Next(hasty))(t, ErrClockRollback)
	next := func(add time.Duration) {
		t.Helper()
		done := make(chan error)
		go func() { _, err := s.Next(ctx); done <- err }()
		select {
		case err := <-done:
			t.Errorf("it did not wait: %v", err)
		case <-time.After(5 * time.Millisecond):
			clock.add(add)
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	next(41 * time.Millisecond)
	must(s.Next(ctx))(t)
	next(time.Millisecond) // both sequences of the one before are used up
	clock.add(-5 * time.Millisecond)
	next(5 * time.Millisecond)
	clock.add(-6 * time.Millisecond)
	fails(s.Next(ctx))(t, ErrClockRollback)
	clock.add(time.Hour) // ahead: no lease reaches there
	fails(s.Next(ctx))(t, ErrNoMachineID)
}

// While others hold all worker IDs, the first callers wait as long as their contexts allow, and
// then learn that.
func TestSnowflakeStandsBy(t *testing.T) {
	clock := newHand()
	p := newPool(clock.now)
	held := make(chan struct{})
	c := dial(t, Config{Addrs: []string{"http://a"}, Timeout: patience, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if deadline, _ := r.Context().Deadline(); r.Method == http.MethodPost && time.Until(deadline) < patience {
			t.Error("the request has less time than it waits")
		}
		select {
		case <-held:
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.answer(r, nil), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	})})
	s := c.newSnowflake("shop", SnowflakeOptions{}, clock.now)
	go s.keep()
	defer s.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := s.Next(ctx)
	if !errors.Is(err, ErrNoMachineID) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	close(held)
	s.leased(t)
	clock.add(time.Millisecond)
	must(s.Next(context.Background()))(t)
}

// What the service refuses is an error at once, and is asked for again.
func TestSnowflakeRefused(t *testing.T) {
	p := newPool(time.Now)
	p.set(func(*http.Request) *http.Response { return problem(404, "unknown_pool") }, nil)
	s := p.snowflake(t, time.Now)
	fails(s.Next(context.Background()))(t, Code("unknown_pool"))
	p.set(nil, nil)
	eventually(t, "a lease", func() bool { _, err := s.Next(context.Background()); return err == nil })
}

// A release of a lease that has ended is done; any other failure is an error.
func TestWorkerRelease(t *testing.T) {
	p := newPool(time.Now)
	c := p.client(t)
	ctx := context.Background()
	l := must(c.LeaseWorker(ctx, "shop", LeaseOptions{Wait: time.Minute}))(t)
	renewed := must(l.Renew(ctx))(t)
	if renewed.Until.Before(l.Until) || renewed.WorkerID != l.WorkerID || renewed.TTL != 30*time.Second || !renewed.Epoch.Equal(l.Epoch) {
		t.Errorf("%+v, renewed from %+v", renewed, l)
	}
	p.set(func(*http.Request) *http.Response { return problem(503, "starting") }, nil)
	fails(0, l.Release(ctx, time.Time{}))(t, ErrStarting)
	p.set(func(*http.Request) *http.Response { return respond(200, "text/html", "It works!") }, nil)
	fails(0, l.Release(ctx, time.Time{}))(t, ErrBadAnswer)
	p.set(func(*http.Request) *http.Response { return problem(409, "lease_lost") }, nil)
	fails(0, l.Release(ctx, time.Time{}))(t, nil)
	if got := p.asked[len(p.asked)-1]; got != "DELETE /workers/shop/1" {
		t.Errorf("asked %q", got)
	}
	p.set(nil, nil)
	fails(0, renewed.Release(ctx, time.UnixMilli(noon)))(t, nil)
	fails(c.LeaseWorker(ctx, "a/b", LeaseOptions{}))(t, ErrInvalidRequest)
	fails(c.Snowflake("", SnowflakeOptions{}))(t, ErrInvalidRequest)
	fails(c.LeaseWorker(ctx, "shop", LeaseOptions{Wait: 2 * time.Minute}))(t, ErrInvalidRequest)
}

// No ID is made under an answer that is not the lease that was asked for.
func TestWrongLeases(t *testing.T) {
	good := leaseOf(3, 0, 1000)
	var body string
	status := 201
	c := dial(t, Config{Addrs: []string{"http://a"}, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return respond(status, "application/json", body), nil
	})})
	ctx := context.Background()
	for from, to := range map[string]string{
		`"shop"`: `"other"`, `"lease":"x"`: `"lease":""`, `"30s"`: `"never"`, `"after":`: `"before":`, "2026-11-30T12:00:01": "2026-11-30T11:00:01",
		`"bitsMachine":2`: `"bitsMachine":0`, `"bitsSequence":1`: `"bitsSequence":61`, `"workerId":3`: `"workerId":4`, `:3`: `:-1`, `"2025-`: `"last year`,
	} {
		if body = strings.Replace(leaseJSON(good, true), from, to, 1); body == leaseJSON(good, true) {
			t.Fatalf("%s has no %s", body, from)
		}
		fails(c.LeaseWorker(ctx, "shop", LeaseOptions{}))(t, ErrBadAnswer)
	}
	body = leaseJSON(good, true)
	l := must(c.LeaseWorker(ctx, "shop", LeaseOptions{}))(t)
	fails(l.Renew(ctx))(t, ErrBadAnswer) // 201
	status = 200
	must(l.Renew(ctx))(t)
	for _, wrong := range []*WorkerLease{leaseOf(2, 0, 2000), leaseOf(3, 0, 999)} {
		body = leaseJSON(wrong, false)
		fails(l.Renew(ctx))(t, ErrBadAnswer)
	}
	if l.path() != "/workers/shop/"+url.PathEscape("x") {
		t.Error(l.path())
	}
}

// An ID costs no allocation.
func TestSnowflakeAllocatesNothing(t *testing.T) {
	s := wide(t)
	ctx := context.Background()
	must(s.Next(ctx))(t)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := s.Next(ctx); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// wide returns a Snowflake that never waits for the next millisecond, nor for a request.
func wide(t testing.TB) *Snowflake {
	c := dial(t, Config{Addrs: []string{"http://a"}})
	s := c.newSnowflake("shop", SnowflakeOptions{}, time.Now)
	l := leaseOf(3, -1e12, 1e12)
	l.BitsSequence = 20
	s.maker.granted(l, 0)
	return s
}

func BenchmarkSnowflake(b *testing.B) {
	s := wide(b)
	ctx := context.Background()
	for range b.N {
		if _, err := s.Next(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
