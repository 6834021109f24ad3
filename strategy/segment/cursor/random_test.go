package cursor

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Whatever fails, and in whatever order things happen, a machine issues ascending numbers, offers
// no range twice (world checks both), and is well again when all is.
func TestRandomOrders(t *testing.T) {
	changes := map[[2]Mode]int{}
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, func(c *Config) {
				c.Degrade = random.IntN(4) > 0
				c.Start = 1 + random.Int64N(2)*50
				c.Step = 1 + random.Int64N(20)
				c.MaxStep = c.Step
			})
			w.changes = changes
			for range 400 {
				w.happens(random)
			}
			if seed%3 > 0 { // otherwise it is stopped as it is
				w.recovers(random)
			}
			w.callerComes(1 + random.Int64N(30))
			for range 1 + random.IntN(100) {
				w.happens(random)
			}
			w.m.Stop(w.now)
			w.fetch()
			for range random.IntN(20) {
				w.happens(random)
			}
			for _, r := range w.m.Finish() {
				w.offer(r, "the store")
			}
			highest := w.highest
			for range 3 {
				w.goesOn(random)
			}
			if w.settle(); w.slow != nil {
				t.Error("a take is held back for ever")
			}
			if rest := w.m.Finish(); rest != nil || w.highest != highest {
				t.Errorf("after the end: in hand %v, issued %d after %d", rest, w.highest, highest)
			}
		})
	}
	for from, all := range allowed {
		for _, to := range all {
			if n := changes[[2]Mode{from, to}]; n < 5 && from != Closing {
				t.Errorf("the mode changed from %s to %s %d times", from, to, n)
			}
		}
	}
}

// recovers checks that the machine is well again when all is.
func (w *world) recovers(random *rand.Rand) {
	w.redis.down, w.redis.takesDown, w.redis.low, w.store.down = false, false, 0, false
	for w.slow != nil {
		w.goesOn(random)
		w.pass(100 * time.Millisecond)
	}
	w.pass(5 * time.Minute)
	for range 3 {
		if w.issue(7, time.Minute) == 0 {
			w.t.Fatalf("%s, refusal %v, late %v", w.m.Mode(), w.m.Refusal(), w.m.Late())
		}
		w.pass(10 * time.Second)
	}
	w.is(Online)
}

// happens lets something happen.
func (w *world) happens(random *rand.Rand) {
	switch random.IntN(24) {
	case 0:
		w.redis.down = random.IntN(2) == 0
	case 1:
		w.store.down = random.IntN(2) == 0
		if w.store.down {
			w.m.Store(w.now, errDown)
		}
	case 2:
		w.lose()
	case 3:
		w.redis.takesDown = random.IntN(2) == 0
	case 4:
		w.redis.low = rediscursor.Low(random.IntN(3))
	case 5: // another node
		w.redis.cur = min(w.redis.last, w.redis.cur+1+random.Int64N(20))
	case 6: // another node begins a cursor of its own
		w.store.max += 5
		w.redis.replaced, w.store.epoch = w.store.epoch, persist.NewEpoch()
		w.redis.epoch, w.redis.gen = w.store.epoch, w.redis.gen+1
		w.redis.ceil, w.redis.cur, w.redis.last = w.store.max, w.store.max-5, w.store.max
	case 7, 8:
		w.now = w.now.Add(time.Duration(random.IntN(3000)) * time.Millisecond)
		w.m.Tick(w.now)
	case 9:
		w.m.Tick(w.now)
	case 10:
		w.m.Health(w.now, RedisAway{w.now.Add(-time.Duration(random.IntN(3)) * time.Second), errDown})
	case 11:
		if w.slow == nil {
			w.m.Prepare(w.now)
		}
	case 14, 15, 16, 17:
		w.goesOn(random)
	case 12, 13:
		w.callerComes(1 + random.Int64N(30))
	default:
		if len(w.waiting) > 0 {
			w.do(random.IntN(len(w.waiting)), []outcome{well, well, well, well, never, lost}[random.IntN(6)])
		}
	}
	w.fetch()
}

// slowTake is a take for callers that is under way.
type slowTake struct {
	want int64
	sent time.Time
	done bool // Redis has run it
	// resumes is how many there were when the take was held back, -1 if it was sent.
	resumes int
	take    rediscursor.Take
	taken   rediscursor.Taken
	err     error
}

// callerComes lets a caller take what it can get now.
func (w *world) callerComes(n int64) {
	switch mode := w.m.Mode(); {
	case w.slow != nil: // it joins the next batch
	case mode == Online:
		w.slow = &slowTake{want: n}
		w.send()
	case mode == Alone:
		w.takeLocal(n)
	case mode == Mending:
		w.m.Waiting(n)
		w.m.Gone(n)
	}
}

func (w *world) send() {
	s, wait := w.slow, false
	s.sent, s.resumes = w.now, w.resumes
	if s.take, wait = w.m.Send(w.now, s.want); !wait {
		s.resumes = -1
	}
	w.fetch()
}

// goesOn lets the take go on that is under way.
func (w *world) goesOn(random *rand.Rand) {
	switch s := w.slow; {
	case s == nil:
	case s.resumes >= 0:
		if w.resumes > s.resumes {
			w.send()
		}
	case !s.done:
		s.taken, s.err = w.take(s.take, []outcome{well, well, well, never, lost}[random.IntN(5)])
		s.done = true
	default:
		w.slow = nil
		for _, r := range w.m.Took(w.now, s.sent, s.want, s.taken, s.err).Runs {
			w.issued(r)
		}
		w.fetch()
	}
}

// FuzzEvents calls a machine in every order, with results that nobody waits for and values that no
// cursor or store returns. It does not panic, and issues ascending numbers.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("some events in some order"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		seed := make([]byte, 1000)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, script []byte) { runEvents(t, script) })
}

func runEvents(t *testing.T, script []byte) {
	next := func(n int) int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b) % n
	}
	oneOf := func(errs ...error) error { return errs[next(len(errs))] }
	storeErr := func() error {
		return oneOf(nil, nil, errDown, persist.ErrEpoch, persist.ErrExhausted, persist.ErrNotFound)
	}
	number := func() int64 { return int64(next(200)) }
	someRange := func() persist.Range { first := number(); return persist.Range{First: first, Last: first + number()} }
	taken := func() rediscursor.Taken {
		t := rediscursor.Taken{Stub: next(4) == 0, Other: next(4) == 0, Epoch: fmt.Sprint(next(3)), Gen: fmt.Sprint(next(3)), Replaced: fmt.Sprint(next(3))}
		t.Ceil, t.Low, t.Free, t.Next, t.Hand = number(), rediscursor.Low(next(3)), next(3), number(), number()
		for range next(3) {
			t.Runs = append(t.Runs, someRange())
		}
		return t
	}
	now := began
	m := New(Config{Start: 1 + number(), Degrade: next(2) == 0, Step: 10, MaxStep: 100, NewEpoch: func() string { return fmt.Sprint(next(3)) }})
	var highest int64
	for len(script) > 0 {
		task := Task(next(int(tasks)))
		switch next(16) {
		case 0:
			m.Send(now, number())
		case 1:
			for _, r := range m.Took(now, now.Add(-time.Duration(next(9))*time.Second), number(), taken(), oneOf(nil, nil, errDown)).Runs {
				if r.First <= highest {
					t.Fatalf("%v after %d", r, highest)
				}
				highest = r.Last
			}
		case 2, 3, 4:
			m.Looked(now, task, taken(), oneOf(nil, nil, errDown, rediscursor.ErrForeign))
		case 5:
			verdict := []rediscursor.Verdict{rediscursor.Installed, rediscursor.Moved, rediscursor.Stale, rediscursor.Full}[next(4)]
			m.Installed(now, task, rediscursor.Answer{Verdict: verdict, Free: next(3), Ceil: number()}, oneOf(nil, nil, errDown))
		case 6:
			m.Allocated(now, task, someRange(), storeErr())
		case 7:
			m.Asked(now, task, fmt.Sprint(next(3)), storeErr())
		case 8:
			m.Read(now, task, storeErr())
		case 9:
			m.Store(now, storeErr())
		case 10:
			m.Closed(now, number(), number())
		case 11:
			m.Local(number(), number())
		case 12:
			now = now.Add(time.Duration(next(256)) * 50 * time.Millisecond)
			m.Tick(now)
		case 13:
			m.Health(now, RedisAway{now, errDown})
			m.Degraded(now, RedisAway{now, errDown})
			m.Late()
			m.Measure()
			m.Known(number())
		case 14:
			m.Prepare(now)
		case 15:
			if next(10) == 0 {
				m.Stop(now)
			}
			if next(20) == 0 {
				m.Finish()
			}
		}
		m.Commands()
		m.Deadline()
	}
}
