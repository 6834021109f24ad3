package gapless_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// daily is a strategy whose numbers reset every day, with a clock that the test sets.
type daily struct {
	*testing.T
	store persist.Store
	at    atomic.Int64 // ms since the Unix epoch
}

func newDaily(t *testing.T) *daily {
	d := &daily{T: t}
	d.at.Store(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli())
	d.store = memory.New(d.now)
	t.Cleanup(func() { _ = d.store.Close() })
	return d
}

func (d *daily) now() time.Time { return time.UnixMilli(d.at.Load()) }

// clock returns the clock of the store as a new node has it.
func (d *daily) clock() *storeclock.Clock {
	return storeclock.New(d.store, d.now, func() time.Duration { return time.Duration(d.at.Load()) * time.Millisecond })
}

// node returns a new node that keeps answers for a time.
func (d *daily) node(keep time.Duration) *gapless.Strategy {
	d.Helper()
	return d.begun(keep, "UTC", false)
}

// begun returns a new node whose days are those of a zone, if reshaped since a forced change.
func (d *daily) begun(keep time.Duration, zone string, reshaped bool) *gapless.Strategy {
	d.Helper()
	settings := patient()
	settings.Reset, settings.TimeZone = seqd.ResetDaily, zone
	s := newNode(d, strategy.Env{Store: d.store, Now: d.now, AnswerTTL: keep, Clock: d.clock()}, settings)
	if reshaped {
		s.Reopen()
	}
	must.Do(d, s.Init(d.Context(), reshaped))
	d.Cleanup(func() { _ = s.Close(d.Context()) })
	return s
}

// once issues a number to a request that may be repeated.
func (d *daily) once(s *gapless.Strategy, once string) (period seqd.Period, n int64, replayed bool) {
	d.Helper()
	var seq seqd.Sequence
	_, replayed, err := s.HandOut(d.Context(), seqd.Order{Count: 1, Once: once}, &seq)
	must.Do(d, err)
	return seq.Period(), seq.First(), replayed
}

// A request that is repeated some periods later gets its number again, as long as answers are kept.
func TestOnceOverPeriods(t *testing.T) {
	d := newDaily(t)
	s := d.node(72 * time.Hour)
	period, n, _ := d.once(s, "order-1")
	if docs, err := d.store.Documents().List(t.Context(), persist.LedgerKind, "", 9); err != nil || len(docs) != 1 {
		t.Errorf("%d ledgers, %v: it makes none for days that are over", len(docs), err)
	}
	for day := 1; day <= 3; day++ {
		d.at.Add((24 * time.Hour).Milliseconds() - 1)
		if again, m, replayed := d.once(s, "order-1"); again != period || m != n || !replayed {
			t.Errorf("after %d days: %d of %s, replayed %v; it had got %d of %s", day, m, again, replayed, n, period)
		}
	}
}

// Numbers have dates of some years only. A clock that shows another one opens no period, and such a
// period has nothing.
func TestWrongYear(t *testing.T) {
	d := newDaily(t)
	s := d.node(0)
	must.Code(t, must.Err(s.Find(t.Context(), strings.Repeat("0", 20)+".19991231", &seqd.Sequence{})), seqd.CodeUnknownReservation)
	must.Code(t, s.Void(t.Context(), seqd.Voiding{Period: 19991231, Number: 1, Reason: "spoilt"}), seqd.CodeInvalidID)
	d.at.Store(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())
	must.Code(t, s.Generate(t.Context(), 1, &seqd.Sequence{}), seqd.CodeClockRollback)
	s = d.node(0)
	if got, measured := fmt.Sprint(s.Details()), gauges(s); got != "map[maxReserved:1000]" || len(measured) != 6 {
		t.Errorf("details %s, %v", got, measured)
	}
}

// Days that are over and gave no answers are looked at once, not for each request.
func TestBareDaysAreReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaily(t)
		store := &readers{Store: d.store}
		d.store = store
		s := d.node(time.Hour)
		must.Do(t, s.Generate(t.Context(), 1, &seqd.Sequence{}))
		must.Do(t, d.store.Documents().Create(t.Context(), persist.Document{Kind: persist.AnswerKind, Key: "zebra#order-1", Revision: 1})) // of another counter
		d.at.Add((26 * time.Hour).Milliseconds())
		d.once(s, "order-0") // closes the first day
		store.slow.Store(true)
		d.once(s, "order-1")
		first := store.total.Swap(0)
		d.once(s, "order-2")
		if again := store.total.Load(); first < 3 || again > 1 {
			t.Errorf("%d reads, then %d", first, again)
		}
		must.Do(t, s.Close(t.Context()))
	})
}

// A node whose answers are kept for a shorter time finds those that are kept for longer, in the
// document or in the records, also after it has looked there for others.
func TestOnceAfterAShorterTTL(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		d := newDaily(t)
		s := d.node(72 * time.Hour)
		period, n, _ := d.once(s, "order-1")
		must.Do(t, s.Close(t.Context()))
		if flushed {
			flush(d, period.Counter("invoice"))
		}
		d.at.Add((72*time.Hour - 1).Milliseconds())
		s = d.node(time.Hour)
		for _, other := range []string{"order-2", "order-3"} {
			d.once(s, other)
		}
		if again, m, replayed := d.once(s, "order-1"); again != period || m != n || !replayed {
			t.Errorf("%d of %s, replayed %v; it had got %d of %s", m, again, replayed, n, period)
		}
	}
}

// What was issued after a Raise is found in the next period too.
func TestOnceAfterRaiseOverPeriods(t *testing.T) {
	d := newDaily(t)
	s := d.node(24 * time.Hour)
	d.once(s, "order-1")
	raise(d.T, d.store, "invoice@20261120", d.at.Load(), "")
	period, n, _ := d.once(s, "order-2")
	must.Do(t, s.Close(t.Context()))
	flush(d, "invoice@20261120")
	d.at.Add((12 * time.Hour).Milliseconds())
	if again, m, replayed := d.once(d.node(24*time.Hour), "order-2"); again != period || m != n || !replayed {
		t.Errorf("%d of %s, replayed %v; it had got %d of %s", m, again, replayed, n, period)
	}
}

// A write that was under way when the period ended does not give a second number to a request that
// was repeated since, even if it is the first write of the period.
func TestOnceUnderWayAtPeriodEnd(t *testing.T) {
	for _, issued := range []int64{0, 2} {
		synctest.Test(t, func(t *testing.T) { onceUnderWayAtPeriodEnd(t, issued) })
	}
}

func onceUnderWayAtPeriodEnd(t *testing.T, issued int64) {
	d := newDaily(t)
	store := newStuck(d.store)
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	d.at.Store(day.UnixMilli() - 1)
	other := d.node(24 * time.Hour)
	d.store = store
	slow := d.node(24 * time.Hour)
	if issued > 0 {
		d.once(other, "order-1")
		d.once(slow, "order-2")
	}

	store.Lock()
	var seq seqd.Sequence
	if _, _, err := slow.HandOut(t.Context(), seqd.Order{Count: 1, Once: "order-3"}, &seq); err == nil {
		t.Fatal("the store is stuck")
	}
	d.at.Add(1)
	period, n, _ := d.once(other, "order-3")
	store.Unlock()
	must.Do(t, slow.Close(t.Context()))
	if again, m, replayed := d.once(other, "order-3"); again != period || m != n || !replayed {
		t.Errorf("%d of %s, replayed %v; it had got %d of %s", m, again, replayed, n, period)
	}
	a, err := other.Account(t.Context(), seqd.AccountQuery{Period: 20261120, Limit: 10})
	if err != nil || a.Issued != issued {
		t.Errorf("%+v, %v: the write of the first request was carried out too", a, err)
	}
	time.Sleep(time.Minute) // for the last look at the store
}

// A store's clock that was ahead closes the present period. An operator who raises its counter
// opens it again, but not one that has ended.
func TestRaiseOpensPeriod(t *testing.T) {
	d := newDaily(t)
	s := d.node(24 * time.Hour)
	day := (24 * time.Hour).Milliseconds()
	period, n, _ := d.once(s, "order-1")
	d.at.Add(day)
	d.once(s, "order-2")
	raise(d.T, d.store, "invoice@20261120", d.at.Load(), "")
	d.at.Add(-day)
	for range 2 {
		var seq seqd.Sequence
		if _, _, err := s.HandOut(t.Context(), seqd.Order{Count: 1, Once: "order-3"}, &seq); seqd.CodeOf(err) != seqd.CodeStarting {
			t.Fatalf("%v: the period is closed", err)
		}
	}
	raise(d.T, d.store, "invoice@20261120", d.at.Load(), "")
	if again, m, replayed := d.once(s, "order-3"); again != period || m != 11 || replayed {
		t.Errorf("%d of %s, replayed %v; want 11 of %s", m, again, replayed, period)
	}
	if again, m, replayed := d.once(s, "order-1"); again != period || m != n || !replayed {
		t.Errorf("%d of %s, replayed %v; it had got %d of %s", m, again, replayed, n, period)
	}
}

// A forced change of the zone opens what the zone before closed, if it has not ended. It opens
// nothing if a clock was so far ahead that nobody would find what was given then; nor does a
// restart.
func TestReshapeOpensPeriods(t *testing.T) {
	const keep = 96 * time.Hour
	for name, test := range map[string]struct {
		ahead    time.Duration
		reshaped bool
		zone     string
		opens    bool
	}{
		"back":              {0, true, "Pacific/Niue", true},
		"to the middle":     {0, true, "UTC", true},
		"restart":           {0, false, "Pacific/Niue", false},
		"a clock was ahead": {24 * time.Hour, true, "Pacific/Niue", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaily(t)
			d.once(d.begun(keep, "Pacific/Niue", true), "order-1")
			d.at.Add(test.ahead.Milliseconds())
			east := d.begun(keep, "Pacific/Kiritimati", true)
			d.once(east, "order-2")
			must.Do(t, east.Close(t.Context()))
			d.at.Add(-test.ahead.Milliseconds())
			s := d.begun(keep, test.zone, test.reshaped)
			_, _, err := s.HandOut(t.Context(), seqd.Order{Count: 1, Once: "order-3"}, &seqd.Sequence{})
			if opens := err == nil; opens != test.opens {
				t.Errorf("%v, want it open: %v", err, test.opens)
			} else if !opens && !strings.Contains(err.Error(), "seqd raise --by 0") {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}

// A clock that was ahead before a forced change has closed nothing if nobody repeats a request.
func TestReshapeAfterAClockWasAhead(t *testing.T) {
	d := newDaily(t)
	d.at.Add((72 * time.Hour).Milliseconds())
	d.once(d.begun(time.Hour, "UTC", false), "order-1")
	d.at.Add(-(72 * time.Hour).Milliseconds())
	d.once(d.begun(time.Hour, "UTC", true), "order-2")
}

// purge removes the records whose time is over, as a process does when it starts.
func (d *daily) purge() {
	d.Helper()
	ended := persist.Document{Kind: persist.AnswerKind, Key: "ended", Revision: 1, Expires: 1}
	must.Do(d, d.store.Documents().Create(d.Context(), ended))
	env := strategy.Env{Store: d.store, Now: d.now, Log: slog.New(slog.DiscardHandler), Clock: d.clock()}
	env.Attendance = storeclock.NewAttendance(d.store.Documents(), env.Clock)
	env.Attendance.Need()
	factory := must.Get(strategy.Lookup(gapless.Name))(d)
	ctx, cancel := context.WithCancel(d.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		factory.Background(ctx, env, nil)
	}()
	await.True(d, "what has ended is purged", func() bool {
		_, err := d.store.Documents().Read(d.Context(), ended.Kind, ended.Key)
		return errors.Is(err, persist.ErrNotFound)
	})
	cancel()
	<-stopped
}

// A store's clock that was behind ends no answer early, and forgets no reservation early. Nor does
// the clock of a node.
func TestKeptWhileClocksWereWrong(t *testing.T) {
	for name, wrong := range map[string]struct{ store, node time.Duration }{
		"no clock was wrong":           {},
		"the store's clock was behind": {-25 * time.Hour, 0},
		"the node's clock was behind":  {0, -25 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaily(t)
			truth := d.at.Load()
			var off atomic.Int64 // of the store's clock
			off.Store((wrong.store - wrong.node).Milliseconds())
			d.store = memory.New(func() time.Time { return time.UnixMilli(d.at.Load() + off.Load()) })
			d.at.Add(wrong.node.Milliseconds())
			s := d.node(0) // which is a day
			period, n, _ := d.once(s, "order-1")
			var seq seqd.Sequence
			r, _, err := s.HandOut(t.Context(), seqd.Order{Count: 1, Reserve: true}, &seq)
			if err == nil {
				_, err = s.Confirm(t.Context(), seqd.Settlement{ID: r.ID}, &seqd.Sequence{})
			}
			if err = errors.Join(err, s.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			flush(d, period.Counter("invoice"))

			off.Store(0)
			d.at.Store(truth + (2 * time.Minute).Milliseconds())
			d.purge()
			s = d.node(24 * time.Hour)
			if again, m, replayed := d.once(s, "order-1"); again != period || m != n || !replayed {
				t.Errorf("%d of %s, replayed %v; it had got %d of %s", m, again, replayed, n, period)
			}
			if found, err := s.Find(t.Context(), r.ID, &seqd.Sequence{}); err != nil || found.State != seqd.Confirmed {
				t.Errorf("%+v, %v: the reservation was confirmed", found, err)
			}
		})
	}
}

// rewrite changes a ledger in a store.
func rewrite(t *testing.T, store persist.Store, counter string, now int64, change func(*ledger.State) error) {
	t.Helper()
	docs := store.Documents()
	doc := must.Get(docs.Read(t.Context(), persist.LedgerKind, counter))(t)
	state, err := ledger.Decode(&doc)
	if err == nil {
		err = change(state)
	}
	if err == nil {
		doc, err = state.Document(counter, now)
	}
	if err == nil {
		err = docs.Update(t.Context(), doc)
	}
	must.Do(t, err)
}

// raise does what an operator does with seqd raise.
func raise(t *testing.T, store persist.Store, counter string, now int64, fence string) {
	t.Helper()
	rewrite(t, store, counter, now, func(s *ledger.State) error {
		policy := s.Policy()
		_, err := s.Apply(now, &policy, &ledger.Op{Kind: ledger.Raise, To: 10, Reason: "a test", Fence: fence}, nil)
		return err
	})
}

// flush copies what is in the outbox, and drops it.
func flush(d *daily, counter string) {
	d.Helper()
	rewrite(d.T, d.store, counter, d.at.Load(), func(s *ledger.State) (err error) {
		for _, e := range s.Outbox {
			err = errors.Join(err, d.store.Documents().Keep(d.Context(), e.Records(counter)))
		}
		s.Drop(func(int64) bool { return true })
		return err
	})
}

// What was given to a request is found whatever the settings of the biz type were then, and are
// now.
func TestRecallInAnyShape(t *testing.T) {
	factory := must.Get(strategy.Lookup(gapless.Name))(t)
	for _, reset := range []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
		for _, zone := range []string{"UTC", "Pacific/Kiritimati", "Pacific/Niue"} {
			d := newDaily(t)
			env := strategy.Env{
				Store: d.store, Now: d.now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, AnswerTTL: 72 * time.Hour, Clock: d.clock(),
			}
			settings := patient()
			settings.Reset, settings.TimeZone, settings.Keyed = reset, zone, true
			s := newNode(t, env, settings)
			var seq seqd.Sequence
			seq.For("a")
			order := seqd.Order{Count: 2, Reserve: true, TTL: 24 * time.Hour, Once: "order-1"}
			first, _, err := s.HandOut(t.Context(), order, &seq)
			if err = errors.Join(err, s.Close(t.Context())); err != nil {
				t.Fatal(err)
			}
			made := d.now()
			recall := func(key, once string, count int) (seqd.Reservation, bool, error) {
				var again seqd.Sequence
				again.For(key)
				r, found, err := factory.Recall(t.Context(), env, "invoice", seqd.Order{Count: count, Reserve: true, TTL: 24 * time.Hour, Once: once}, &again)
				if found && (again.First() != seq.First() || !again.Made().Equal(made)) {
					t.Errorf("%s in %s: %d instead of %d", reset, zone, again.First(), seq.First())
				}
				return r, found, err
			}
			r, found, err := recall("a", "order-1", 2)
			_, reused, other := recall("a", "order-1", 1)
			_, another, err2 := recall("b", "order-1", 2)
			_, unknown, err3 := recall("a", "order-2", 2)
			env.AnswerTTL = time.Second // since then
			d.at.Add((23 * time.Hour).Milliseconds())
			_, later, _ := recall("a", "order-1", 2)
			found = found && later
			if !found || r.ID != first.ID || reused || another || unknown || seqd.CodeOf(other) != seqd.CodeIdempotencyKeyReused {
				t.Errorf("%s in %s: found %v %v, reused %v %v, of others %v %v", reset, zone, found, r, reused, other, another, unknown)
			}
			must.Report(t, errors.Join(err, err2, err3))
		}
	}
}
