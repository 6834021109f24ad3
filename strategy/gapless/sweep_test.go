package gapless_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// background runs what a process does in the background, with the biz types of issuer, until the
// test ends or the function that it returns is called.
func (s *scene) background(is *issuer.Issuer) (attendance *storeclock.Attendance, stop func()) {
	s.t.Helper()
	if is == nil {
		var err error
		if is, err = issuer.New(nil, issuer.Options{Log: s.log}); err != nil {
			s.t.Fatal(err)
		}
	}
	factory, env := s.factory(), s.env()
	env.Attendance = storeclock.NewAttendance(env.Store.Documents(), env.Clock)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		factory.Background(ctx, env, is)
	}()
	stop = func() { cancel(); <-ended }
	s.t.Cleanup(stop)
	return env.Attendance, stop
}

// reserve reserves a number for a time, on a node that ends.
func (s *scene) reserve(key string, ttl time.Duration) {
	s.t.Helper()
	if _, err := s.on(func(n *gapless.Strategy) (string, error) {
		text, _, err := order(n, key, seqd.Order{Count: 1, Reserve: true, TTL: ttl})
		return text, err
	}); err != nil {
		s.t.Fatal(err)
	}
}

// reserved returns how many numbers of a counter are reserved.
func (s *scene) reserved(counter string) int64 {
	s.t.Helper()
	doc := must.Get(s.Store.Documents().Read(s.t.Context(), persist.LedgerKind, counter))(s.t)
	state := must.Get(ledger.Decode(&doc))(s.t)
	return state.NumReserved()
}

func (s *scene) has(kind, key string) bool {
	s.t.Helper()
	_, err := s.Store.Documents().Read(s.t.Context(), kind, key)
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		s.t.Fatal(err)
	}
	return err == nil
}

// A process without biz types ends what is due in the store, when it is due. Nobody was there
// before: so reservations get their whole time again.
func TestSweepAlone(t *testing.T) {
	for name, test := range map[string]struct {
		settings     func(*gapless.Settings)
		key, counter string
	}{
		"plain": {nil, "", "invoice"}, "keyed": {keyed, "k1", "invoice/k1"}, "daily": {everyDay, "", "invoice@20000101"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, log := newScene(t, false, test.settings), new(testlog.Text)
				s.log = slog.New(slog.NewTextHandler(log, nil))
				s.reserve(test.key, 10*time.Second)
				time.Sleep(time.Minute)
				s.background(nil)
				time.Sleep(9500 * time.Millisecond)
				must.Equal(t, s.reserved(test.counter), 1, "reserved after less than its time")
				time.Sleep(2 * time.Second)
				must.Equal(t, s.reserved(test.counter), 0, "reserved after its time")
				must.Equal(t, log.Count("a reservation expired"), 1, "the times that the log says so")
			})
		})
	}
}

// As long as there is no gapless counter, a process writes nothing. It notices the first one.
func TestSweepBeginsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		_, stop := s.background(nil)
		time.Sleep(time.Minute)
		stop()
		attendance, _ := s.background(nil)
		time.Sleep(10 * time.Minute)
		if s.has(persist.BeatKind, "nodes") {
			t.Error("it says that it is there, and nobody needs that")
		}
		s.reserve("", 10*time.Second)
		time.Sleep(61 * time.Second)
		select {
		case <-attendance.Needed():
		default:
			t.Fatal("it has not noticed the counter")
		}
		time.Sleep(12 * time.Second)
		if !s.has(persist.BeatKind, "nodes") || s.reserved("invoice") != 0 {
			t.Error("nothing is reclaimed")
		}
	})
}

// A process with a gapless biz type says so at once: it need not look for counters.
func TestBizTypeNeedsSweeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		env := s.env()
		env.Attendance = storeclock.NewAttendance(env.Store.Documents(), env.Clock)
		newNode(t, env, s.settings)
		select {
		case <-env.Attendance.Needed():
		default:
			t.Error("nobody reclaims its reservations")
		}
		env.Attendance = nil // of a process that does nothing in the background
		s.factory().Background(t.Context(), env, nil)
	})
}

// hears keeps the kinds of events. It is safe for concurrent use.
type hears struct {
	seqd.NopObserver
	back  func() // calls the strategy back
	mu    sync.Mutex
	kinds []seqd.EventKind
}

func (h *hears) Event(e seqd.Event) {
	if h.back != nil {
		h.back()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kinds = append(h.kinds, e.Kind)
}

func (h *hears) heard() []seqd.EventKind {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.kinds)
}

// A process that has the biz type ends reservations through it, so that whoever listens hears of
// them.
func TestSweepThroughBizType(t *testing.T) {
	for name, settings := range map[string]func(*gapless.Settings){"plain": nil, "keyed": keyed} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h, log := newScene(t, true, settings), new(hears), new(testlog.Text)
				s.observer, s.log = h, slog.New(slog.NewTextHandler(log, nil))
				key := map[bool]string{true: "k1"}[name == "keyed"]
				s.reserve(key, 10*time.Second)
				node := s.node()
				h.back = func() { _ = node.Health() }
				issuer := must.Get(issuer.New([]issuer.Definition{{BizType: seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &s.settings}, Strategy: node}}, issuer.Options{Log: s.log}))(t)
				issuer.Init(t.Context())
				synctest.Wait()
				_, stop := s.background(issuer)
				s.away("update")
				time.Sleep(20 * time.Second)
				s.away("")
				time.Sleep(10 * time.Second)
				for _, text := range []string{"reservations cannot be reclaimed; it is tried again", "no longer: reservations cannot be reclaimed"} {
					if log.Count(text) == 0 {
						t.Errorf("the log does not say %q", text)
					}
				}
				expired := slices.DeleteFunc(h.heard(), func(k seqd.EventKind) bool { return k != seqd.EventReservationExpired })
				must.Equal(t, len(expired), 1, "the reservations expired")
				var seq seqd.Sequence
				seq.For(key)
				must.Do(t, node.Generate(t.Context(), 1, &seq))
				_, _, err := order(node, key, seqd.Order{Count: 1, Reserve: true, TTL: 10 * time.Second})
				must.Do(t, err)
				s.failOver("f2")
				troubles := log.Count("reservations cannot be reclaimed; it is tried again")
				node.Return(&seq, nil)
				time.Sleep(time.Minute)
				if log.Count("reservations cannot be reclaimed; it is tried again") != troubles || log.Count("numbers that nobody got") != 1 {
					t.Errorf("after a failover, of which the biz type tells, the log says\n%s", log)
				}
				stop()
				must.Report(t, issuer.Close(t.Context()))
				time.Sleep(time.Minute)
			})
		})
	}
}

// More counters are due than are reclaimed at a time or read at a time, and many of them cannot be
// reclaimed, whatever the reason.
func TestSweepMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newScene(t, false, keyed), new(testlog.Text)
		s.log = slog.New(slog.NewTextHandler(log, nil))
		for i := range 40 {
			s.reserve(fmt.Sprint("k", i), 10*time.Second)
		}
		time.Sleep(time.Minute)
		damaged := func(i int) persist.Document {
			return persist.Document{Kind: persist.LedgerKind, Key: fmt.Sprintf("invoice/broken%d", i), Revision: 1, Body: "{}", Expires: 1}
		}
		for i := range 150 {
			must.Do(t, s.Store.Documents().Create(t.Context(), damaged(i)))
		}
		nameless := damaged(0)
		nameless.Key = "invoice@1"
		must.Do(t, s.Store.Documents().Create(t.Context(), nameless))
		s.background(nil)
		time.Sleep(10*time.Second + 4*time.Second)
		for i := range 40 {
			must.Equal(t, s.reserved(fmt.Sprint("invoice/k", i)), 0, "still reserved of counter %d", i)
		}
		for _, why := range []string{"invoice/broken7: damaged", "not the name of a counter of invoice"} {
			if log.Count(why) == 0 {
				t.Errorf("the log does not say %q", why)
			}
		}
	})
}

// A counter that cannot be reclaimed until an operator comes is asked for every few seconds only,
// and as soon as its document changes.
func TestSweepFruitless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, log := newScene(t, true, nil), new(testlog.Text)
		s.log = slog.New(slog.NewTextHandler(log, nil))
		s.reserve("", 10*time.Second)
		s.failOver("f2")
		s.background(nil)
		time.Sleep(12500 * time.Millisecond)
		s.begin(0, false)
		time.Sleep(time.Minute)
		reads := func() (n int) {
			for _, call := range s.seen() {
				if call == "read ledger/invoice" {
					n++
				}
			}
			return n
		}
		if n := reads(); n != 24 { // twelve times: when the counter is looked for, and for the change
			t.Errorf("it was read %d times in a minute", n)
		}
		must.Equal(t, log.Count("cannot be reclaimed"), 0, "the complaints in the log, although the biz type says so already,")
		raise(t, s.Store, "invoice", time.Now().UnixMilli(), "f2")
		time.Sleep(2100 * time.Millisecond)
		must.Equal(t, s.reserved("invoice"), 0, "reserved after the raise")

		// after a failover that it does not notice itself, it does not believe in the old server
		// for ever
		s.reserve("", 10*time.Second)
		s.failOver("f3")
		raise(t, s.Store, "invoice", time.Now().UnixMilli(), "f3")
		time.Sleep(18 * time.Second)
		must.Equal(t, s.reserved("invoice"), 0, "reserved after another failover")
	})
}

// Records whose time is over are removed, however many, but not for a while after: clocks differ.
func TestPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		s.filled()
		docs := s.Store.Documents()
		record := func(kind, key string, expires time.Duration) {
			t.Helper()
			d := persist.Document{Kind: kind, Key: key, Revision: 1, Body: "{}", Expires: time.Now().Add(expires).UnixMilli()}
			must.Do(t, docs.Create(t.Context(), d))
		}
		time.Sleep(24*time.Hour + 2*time.Minute)
		for i := range 1100 {
			record(persist.AnswerKind, fmt.Sprint("over", i), -2*time.Minute)
		}
		record(persist.EndedKind, "over", -2*time.Minute)
		record(persist.EndedKind, "soon", -time.Second)
		attendance, _ := s.background(nil)
		attendance.Need()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		left, err := docs.List(t.Context(), persist.AnswerKind, "", 2000)
		if err != nil || len(left) != 1 || left[0].Key != ledger.AnswerKey("invoice", "order-1") {
			t.Errorf("%d answers are left, %v: want that of order-1", len(left), err)
		}
		if s.has(persist.EndedKind, "over") || !s.has(persist.EndedKind, "soon") {
			t.Errorf("the record that is over is there: %v, the other: %v", s.has(persist.EndedKind, "over"), s.has(persist.EndedKind, "soon"))
		}
		time.Sleep(61 * time.Second)
		if s.has(persist.EndedKind, "soon") {
			t.Error("a record is there a minute after its end")
		}
		if voids, err := docs.List(t.Context(), persist.VoidKind, "", 10); err != nil || len(voids) != 1 {
			t.Errorf("void numbers: %v, %v", voids, err)
		}
	})
}

// While the store is away, the log says so once, and once that it is there again. Nothing is lost.
func TestSweepWithoutStore(t *testing.T) {
	for down, fails := range map[string][2]int{"*": {1, 1}, "update": {1, 0}, "now": {1, 1}, "purge": {0, 1}} {
		synctest.Test(t, func(t *testing.T) { sweepWithout(t, down, fails[0], fails[1]) })
	}
}

// sweepWithout lets operations of a kind fail for a while, and expects that others fail as well, or
// that only they do.
func sweepWithout(t *testing.T, down string, reclaims, purges int) {
	s, log := newScene(t, false, nil), new(testlog.Text)
	s.log = slog.New(slog.NewTextHandler(log, nil))
	s.reserve("", 20*time.Second)
	if down == "now" { // that is asked once
		s.away(down)
	}
	_, stop := s.background(nil)
	time.Sleep(10 * time.Second)
	s.away(down)
	time.Sleep(2 * time.Minute)
	s.away("")
	time.Sleep(2 * time.Minute)
	must.Equal(t, s.reserved("invoice"), 0, "reserved")
	for text, want := range map[string]int{
		"reservations cannot be reclaimed; it is tried again": reclaims, "no longer: reservations cannot be reclaimed": reclaims,
		"that this node is there cannot be written; it is": reclaims, "no longer: that this node is there": reclaims,
		"records of gapless counters cannot be removed; it is": purges, "no longer: records of gapless": purges, "whether there are gapless": 0,
	} {
		must.Equal(t, log.Count(text), want, "the times that the log says %q", text)
	}
	stop()
	s.begin(0, false)
	time.Sleep(5 * time.Minute)
	if calls := s.seen(); len(calls) > 0 {
		t.Errorf("after its end it asks %q", calls)
	}
}

// Whichever operation of the store fails once, what is due ends all the same.
func TestSweepGoesOn(t *testing.T) {
	sweep := func(t *testing.T, lossy bool, n int) (calls []string) {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, lossy, nil)
			s.reserve("", 10*time.Second)
			s.begin(n, false)
			_, stop := s.background(nil)
			time.Sleep(75 * time.Second)
			stop()
			calls = s.seen()
			must.Equal(t, s.reserved("invoice"), 0, "reserved although only operation %d failed, %q,", n, calls[max(n, 1)-1])
		})
		return calls
	}
	for _, lossy := range []bool{false, true} {
		for n := range min(60, len(sweep(t, lossy, 0))) {
			sweep(t, lossy, n+1)
		}
	}
}
