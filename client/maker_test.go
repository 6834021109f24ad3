package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// noon is the time at which tests begin, in ms.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli()

// leaseOf returns a lease of the times (noon+after, noon+until].
func leaseOf(worker, after, until int64) *WorkerLease {
	return &WorkerLease{
		Pool: "shop", WorkerID: worker, Lease: "x", After: time.UnixMilli(noon + after), Until: time.UnixMilli(noon + until), TTL: 30 * time.Second,
		Epoch: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), BitsMachine: 2, BitsSequence: 1,
	}
}

// want makes an ID with the time noon+ms, and checks its parts.
func (m *maker) want(t *testing.T, ms, sequence, worker int64) {
	t.Helper()
	id, _, err := m.take(noon + ms)
	if err != nil {
		t.Fatalf("%d ms: %v", ms, err)
	}
	if got, want := []int64{id>>3 + m.epoch - noon, id >> 2 & 1, id & 3}, []int64{ms, sequence, worker}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%d ms: the ID has time, sequence and worker ID %d, want %d", ms, got, want)
	}
}

// refuses makes no ID with the time noon+ms, and says how long to wait.
func (m *maker) refuses(t *testing.T, ms int64, code Code, text string, wait time.Duration) {
	t.Helper()
	id, got, err := m.take(noon + ms)
	if err == nil || err.Code != code || !strings.Contains(err.Detail, text) || got != wait || id != 0 {
		t.Errorf("%d ms: ID %d, wait %s, %v; want wait %s, %s: %s", ms, id, got, err, wait, code, text)
	}
	if code != ErrClosed && err != nil && !err.Temporary() {
		t.Errorf("%v does not say that it may be gone soon", err)
	}
}

// IDs have times in (after, until], each with its sequences once, and increase.
func TestMakerTimes(t *testing.T) {
	var m maker
	m.refuses(t, 0, ErrNoMachineID, "no worker ID was leased yet", unknown)
	m.granted(leaseOf(3, 10, 1000), 0)
	m.refuses(t, 0, ErrClockRollback, "worker ID 3 begin at 2026-11-30T12:00:00.011Z, and the clock says 2026-11-30T12:00:00.000Z", 11*time.Millisecond)
	m.refuses(t, 10, ErrClockRollback, "begin at", time.Millisecond)
	m.want(t, 11, 0, 3)
	m.want(t, 11, 1, 3)
	m.refuses(t, 11, ErrTimeout, "all IDs of this millisecond", time.Millisecond)
	m.want(t, 20, 0, 3)
	m.refuses(t, 15, ErrClockRollback, "begin at", 5*time.Millisecond) // a small set-back
	m.refuses(t, 14, ErrClockRollback, "it is 6 ms behind 2026-11-30T12:00:00.020Z", 0)
	m.want(t, 20, 1, 3)
	m.want(t, 1000, 0, 3)
	m.refuses(t, 1001, ErrNoMachineID, "ended at 2026-11-30T12:00:01.000Z, and the clock says 2026-11-30T12:00:01.001Z: the program was paused, or its clock is ahead", 0)
	m.granted(leaseOf(3, 10, 2000), 0) // renewed
	m.want(t, 1000, 1, 3)
	m.granted(leaseOf(1, 10, 3000), 0) // another worker ID continues the millisecond
	m.refuses(t, 1000, ErrTimeout, "", time.Millisecond)
	m.want(t, 1001, 0, 1)
	m.granted(leaseOf(2, 1001, 3000), 0)
	m.refuses(t, 1001, ErrClockRollback, "begin at 2026-11-30T12:00:01.002Z", time.Millisecond)
	if _, last := m.end(); last.UnixMilli() != noon+1001 {
		t.Errorf("the last time is %s", last)
	}
	m.refuses(t, 1002, ErrClosed, "", 0)
}

// The last time that Close names is one of the lease, although no ID was made under it.
func TestMakerEnds(t *testing.T) {
	m := maker{last: noon + 50}
	for _, test := range []struct{ after, until, want int64 }{{60, 100, 60}, {10, 100, 50}, {10, 40, 40}} {
		m := m
		m.granted(leaseOf(3, test.after, test.until), 0)
		if lease, last := m.end(); lease.WorkerID != 3 || last.UnixMilli() != noon+test.want {
			t.Errorf("(%d, %d]: %s", test.after, test.until, last)
		}
	}
	if lease, _ := m.end(); lease != nil {
		t.Error("there was no lease")
	}
}

// A layout has no times beyond its bits, and none before its epoch.
func TestMakerAtTheEndOfTheLayout(t *testing.T) {
	l := leaseOf(3, 0, 1<<50)
	l.BitsSequence = 29 // 32 bits of time
	l.Epoch = time.UnixMilli(noon + 5)
	var m maker
	m.granted(l, 0)
	m.refuses(t, 5, ErrClockRollback, "", time.Millisecond)
	if id, _, err := m.take(noon + 5 + 1<<32 - 1); err != nil || id < 0 {
		t.Errorf("%d, %v", id, err)
	}
	m.refuses(t, 5+1<<32, ErrNoMachineID, "", 0)
}

// asks checks what the next request is, and when.
func (m *maker) asks(t *testing.T, now time.Duration, ms int64, renews bool, least, most time.Duration) {
	t.Helper()
	if lease, wait := m.next(now, noon+ms); (lease != nil) != renews || wait < least || wait > most {
		t.Errorf("lease %v in %s, want one: %t, in %s to %s", lease, wait, renews, least, most)
	}
}

// A lease is renewed after a third of its ttl. Failures are repeated with back-off until its end,
// and then another one is asked for.
func TestMakerRenews(t *testing.T) {
	const s = time.Second
	down := &Error{Code: ErrStoreUnavailable, Status: 503}
	var m maker
	m.asks(t, 0, 0, false, 0, 0)
	m.failed(down, s)
	m.refuses(t, 0, ErrNoMachineID, "no worker ID is leased: seqd: store_unavailable", 0)
	m.asks(t, s, 0, false, firstBackoff/2, firstBackoff)
	m.failed(&Error{Code: ErrNoMachineID, Status: 503, RetryAfter: 7 * s}, s)
	m.asks(t, s, 0, false, 7*s, 7*s)
	m.granted(leaseOf(3, 0, 30_000), 10*s)
	m.asks(t, 10*s, 0, true, 10*s, 10*s)
	for range 20 {
		m.failed(down, 20*s)
	}
	m.asks(t, 20*s, 10_000, true, longestBackoff/2, longestBackoff)
	m.want(t, 10_000, 0, 3)
	m.failed(down, 40*s-1)
	m.asks(t, 40*s-1, 30_001, true, longestBackoff/2, longestBackoff)
	m.refuses(t, 30_001, ErrNoMachineID, "ended at 2026-11-30T12:00:30.000Z and could not be renewed: seqd: store_unavailable", 0)
	m.failed(down, 40*s)
	m.asks(t, 40*s, 30_001, false, 0, 0)
	m.refuses(t, 20_000, ErrNoMachineID, "no worker ID is leased: seqd: store_unavailable", 0)
	m.granted(leaseOf(2, 30_000, 60_000), 41*s)
	m.want(t, 30_001, 0, 2)
}

// A lease that the service says is lost is not used any more, and another one is asked for at once.
func TestMakerLoses(t *testing.T) {
	var m maker
	m.granted(leaseOf(3, 0, 30_000), 0)
	m.failed(&Error{Code: ErrLeaseLost, Status: 409, RetryAfter: time.Hour}, time.Second)
	m.refuses(t, 10, ErrNoMachineID, "lease_lost", 0)
	m.asks(t, time.Second, 0, false, 0, 0)
	if _, _, err := m.take(noon + 10); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("%v hides its cause", err)
	}
}

// After a sleep of the machine, in which the other clock stood still, the lease is renewed early. A
// program whose clock is always ahead does not renew without a pause.
func TestMakerWakesUp(t *testing.T) {
	const s = time.Second
	var m maker
	m.granted(leaseOf(3, 0, 30_000), 0)
	m.asks(t, 4*s, 30_000, true, 6*s, 6*s)
	m.asks(t, 4*s, 30_001, true, -s, -s)
	m.granted(leaseOf(3, 0, 34_000), 4*s)
	m.asks(t, 4*s, 90_000, true, 3*s, 3*s)
	m.failed(&Error{Code: ErrUnreachable}, 7*s)
	m.asks(t, 7*s, 90_000, true, firstBackoff/2, firstBackoff)
}

// grantor is the service as the contract of leases has it, with one clock and few worker IDs.
type grantor struct {
	ttl   int64
	slots []struct {
		lower, until int64
		token        string
	}
	granted int
}

func (g *grantor) lease(now int64) (*WorkerLease, *Error) {
	for _, i := range rand.Perm(len(g.slots)) {
		if s := &g.slots[i]; s.token == "" || s.until < now {
			g.granted++
			s.lower, s.token = s.until, fmt.Sprint(g.granted)
			s.until = max(s.lower, now+g.ttl)
			return g.answer(i), nil
		}
	}
	return nil, &Error{Code: ErrNoMachineID, Status: 503}
}

func (g *grantor) answer(i int) *WorkerLease {
	l := leaseOf(int64(i), 0, 0)
	s := g.slots[i]
	l.Lease, l.TTL = s.token, time.Duration(g.ttl)*time.Millisecond
	l.After, l.Until = time.UnixMilli(s.lower), time.UnixMilli(s.until)
	return l
}

func (g *grantor) renew(l *WorkerLease, now int64) (*WorkerLease, *Error) {
	s := &g.slots[l.WorkerID]
	if s.token != l.Lease || s.until < now {
		return nil, &Error{Code: ErrLeaseLost, Status: 409}
	}
	s.until = max(s.until, now+g.ttl)
	return g.answer(int(l.WorkerID)), nil
}

func (g *grantor) release(l *WorkerLease, last int64) {
	if s := &g.slots[l.WorkerID]; s.token == l.Lease {
		s.token, s.until = "", max(last, s.lower)
	}
}

// program is a process with a maker.
type program struct {
	maker
	offset int64 // of its clock
	paused int64 // until when it does nothing
	last   int64 // the ID before
	// later is what happens when the request under way has arrived, and when its answer has.
	arrives, answered int64
	sent, answer      func()
}

// world is programs and the service, which share no clock.
type world struct {
	t        *testing.T
	r        *rand.Rand
	now      int64
	g        grantor
	programs []*program
	releases []func()
	made     map[int64]bool
}

// Programs with wrong clocks, which are paused, killed and closed, and whose requests and answers
// get lost or come late, never make the same ID, and always times that were granted.
func TestMakersNeverMakeTheSame(t *testing.T) {
	rounds, made := 100, 0
	if testing.Short() {
		rounds = 20
	}
	for seed := range rounds {
		w := &world{t: t, r: rand.New(rand.NewPCG(uint64(seed), 0)), now: noon, made: map[int64]bool{}}
		w.g = grantor{ttl: 1000, slots: make([]struct {
			lower, until int64
			token        string
		}, 2+w.r.IntN(3))}
		for range 5 {
			w.programs = append(w.programs, new(program))
		}
		for range 5000 {
			w.now += w.r.Int64N(20)
			w.step(w.programs[w.r.IntN(len(w.programs))])
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		made += len(w.made)
	}
	if t.Logf("%d IDs", made); made < rounds*1000 {
		t.Errorf("only %d IDs were made", made)
	}
}

func (w *world) step(p *program) {
	w.clock(p)
	switch n := w.r.IntN(1000); {
	case n < 3: // killed
		*p = program{}
	case n < 6: // paused
		p.paused = w.now + w.r.Int64N(3*w.g.ttl)
	case n < 10: // closed, which may arrive late or never
		if lease, last := p.end(); lease != nil && n < 9 {
			w.releases = append(w.releases, func() { w.g.release(lease, last.UnixMilli()) })
		}
		*p = program{offset: p.offset}
	case n < 15 && len(w.releases) > 0:
		w.releases[0]()
		w.releases = w.releases[1:]
	}
	if w.now < p.paused {
		return
	}
	w.request(p)
	w.make(p)
}

// clock sets the clock of a program to another time, or right.
func (w *world) clock(p *program) {
	switch w.r.IntN(300) {
	case 0:
		p.offset = 0
	case 1:
		p.offset += w.r.Int64N(4*w.g.ttl) - 2*w.g.ttl
	case 2:
		p.offset -= w.r.Int64N(8)
	}
}

// request sends the next request of a program, and brings the one under way further.
func (w *world) request(p *program) {
	since := func() time.Duration { return time.Duration(w.now-noon) * time.Millisecond }
	if p.answer != nil || p.sent != nil {
		if p.sent != nil && w.now >= p.arrives {
			sent := p.sent
			p.sent = nil
			sent()
		}
		if w.now >= p.answered {
			if p.answer == nil { // no answer in time
				p.answer = func() { p.failed(&Error{Code: ErrUnreachable}, since()) }
			}
			p.answer()
			p.answer, p.sent = nil, nil
		}
		return
	}
	lease, wait := p.next(since(), w.now+p.offset)
	if wait > 0 {
		return
	}
	p.arrives = w.now + w.r.Int64N(20)
	p.answered = p.arrives + w.r.Int64N(20)
	if w.r.IntN(20) == 0 { // late
		p.arrives += w.r.Int64N(2 * w.g.ttl)
	}
	if w.r.IntN(20) == 0 {
		p.answered += w.r.Int64N(2 * w.g.ttl)
	}
	lost := w.r.IntN(10)
	p.sent = func() {
		if lost == 0 {
			return
		}
		var got *WorkerLease
		var err *Error
		switch {
		case lost == 1:
			err = &Error{Code: ErrStoreUnavailable, Status: 503}
		case lease == nil:
			got, err = w.g.lease(w.now)
		default:
			got, err = w.g.renew(lease, w.now)
		}
		if lost == 2 {
			return // the answer
		}
		p.answer = func() {
			if err != nil {
				p.failed(err, since())
			} else {
				p.granted(got, since())
			}
		}
	}
}

// make makes some IDs.
func (w *world) make(p *program) {
	for range w.r.IntN(4) {
		id, _, err := p.take(w.now + p.offset)
		if err != nil {
			return
		}
		ms, worker := id>>3+p.epoch, id&3
		switch s := w.g.slots[worker]; {
		case w.made[id]:
			w.t.Errorf("%d was made twice: time %d, worker ID %d", id, ms-noon, worker)
		case id <= p.last:
			w.t.Errorf("%d was made after %d", id, p.last)
		case ms <= p.lease.After.UnixMilli() || ms > p.lease.Until.UnixMilli():
			w.t.Errorf("the time %d is outside the lease", ms-noon)
		case s.token == p.lease.Lease && ms > s.until:
			w.t.Errorf("the time %d was not granted", ms-noon)
		}
		w.made[id], p.last = true, id
	}
}
