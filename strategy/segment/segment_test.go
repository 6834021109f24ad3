package segment

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

// observer collects events.
type observer struct {
	seqd.NopObserver
	mu     sync.Mutex
	events []seqd.Event
	counts map[seqd.EventKind]int
}

func (o *observer) Event(e seqd.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
	if o.counts == nil {
		o.counts = make(map[seqd.EventKind]int)
	}
	o.counts[e.Kind]++
}

func (o *observer) numbers(kind seqd.EventKind) (sum int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		if e.Kind == kind {
			sum += e.Numbers
		}
	}
	return sum
}

// usual returns the default settings, with patience outside a bubble, where a slow machine takes
// time.
func usual() Settings {
	s := DefaultSettings()
	if time.Now().Year() != 2000 { // when bubbles begin
		s.AcquireTimeout = time.Minute
	}
	return s
}

// validate ends the test if the settings are not valid.
func validate(tb testing.TB, s *Settings) {
	tb.Helper()
	if problems := s.Validate(); problems != nil {
		tb.Fatal(problems)
	}
}

func (o *observer) count(kind seqd.EventKind) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[kind]
}

func newStrategy(t testing.TB, store persist.Store, change func(*Settings)) (*Counter, *observer) {
	t.Helper()
	settings := usual()
	if change != nil {
		change(&settings)
	}
	validate(t, &settings)
	o := &observer{}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
	s := must.Get(New(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}))(t)
	return s, o
}

func start(t testing.TB, s *Counter, fresh bool) {
	t.Helper()
	must.Do(t, s.Init(t.Context(), fresh))
}

func generate(t testing.TB, s *Counter, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), n, &seq))
	return slices.Collect(seq.Numbers())
}

func counter(t testing.TB, store persist.Store) persist.Counter {
	t.Helper()
	return must.Get(store.Counters().Read(t.Context(), "order"))(t)
}

func TestCleanStopSkipsNothing(t *testing.T) {
	store := memory.New(time.Now)
	want := int64(100)
	for round, n := range []int{1, 199, 200, 201, 999, 1000, 1001, 1, 5000} {
		s, o := newStrategy(t, store, func(s *Settings) { s.Start = 100 })
		start(t, s, round == 0)
		for _, got := range generate(t, s, n) {
			if got != want {
				t.Fatalf("round %d: got %d, want %d", round, got, want)
			}
			want++
		}
		must.Do(t, s.Close(t.Context()))
		must.Equal(t, o.numbers(seqd.EventAbandoned), 0, "round %d: the numbers skipped", round)
		must.Equal(t, counter(t, store).Max, want-1, "round %d: the store's max", round)
	}
}

// Another node took a range since: the rest cannot be given back and is skipped, once.
func TestGiveBackRefused(t *testing.T) {
	store := memory.New(time.Now)
	s, o := newStrategy(t, store, nil)
	start(t, s, true)
	generate(t, s, 1)
	must.Get(store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 5}))(t)
	must.Do(t, s.Close(t.Context()))
	must.Equal(t, o.numbers(seqd.EventAbandoned), 999, "the numbers skipped")
	must.Equal(t, counter(t, store).Max, 1005, "max")
}

// Two buffers that do not touch (another node's range lies between them) are given back as far as
// possible, the highest first.
func TestGiveBackOfSeparateRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		s, o := newStrategy(t, store, func(s *Settings) { s.Step = 10 })
		start(t, s, true)
		generate(t, s, 1)
		must.Get(store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 5}))(t)
		generate(t, s, 1)
		synctest.Wait() // buffer 2 holds numbers from 16
		must.Do(t, s.Close(t.Context()))
		must.Equal(t, counter(t, store).Max, 15, "max")
		must.Equal(t, o.numbers(seqd.EventAbandoned), 8, "the numbers skipped, 3 to 10,")
	})
}

func TestEndOfAllNumbers(t *testing.T) {
	store := memory.New(time.Now)
	s, o := newStrategy(t, store, func(s *Settings) { s.Start = seqd.MaxNumber - 1234 })
	start(t, s, true)
	want := seqd.MaxNumber - 1234
	for want <= seqd.MaxNumber {
		if got := generate(t, s, 1)[0]; got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
		want++
	}
	for _, n := range []int{1, 10_000} {
		err := s.Generate(t.Context(), n, &seqd.Sequence{})
		must.Code(t, err, seqd.CodeExhausted)
	}
	if err := s.Health(); err != nil {
		t.Errorf("an exhausted biz type is healthy, but: %v", err)
	}
	if o.numbers(seqd.EventNearlyExhausted) == 0 {
		t.Error("nobody was warned")
	}
	warned, few := o.count(seqd.EventNearlyExhausted), seqd.MaxNumber/100
	if s.tellLeft(seqd.MaxNumber - few); o.count(seqd.EventNearlyExhausted) != warned {
		t.Errorf("%d numbers are left, and that is few", few)
	}
	if s.tellLeft(seqd.MaxNumber - few + 1); o.count(seqd.EventNearlyExhausted) != warned+1 {
		t.Errorf("%d numbers are left, and nobody was warned", few-1)
	}
	must.Report(t, s.Close(t.Context()))
}

func TestStart(t *testing.T) {
	tests := []struct {
		name       string
		max, start int64
		want       int64
	}{
		{"new", -1, 500, 500},
		{"below what was handed out", 999, 500, 1000},
		{"above what was handed out", 999, 5000, 5000},
		{"just above", 999, 1000, 1000},
		{"the last number", -1, seqd.MaxNumber, seqd.MaxNumber},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := memory.New(time.Now)
			if test.max >= 0 {
				must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: test.max, Step: 10}))
			}
			s, _ := newStrategy(t, store, func(s *Settings) { s.Start = test.start })
			start(t, s, true)
			must.Equal(t, generate(t, s, 1)[0], test.want, "the first number")
		})
	}
}

// A counter that the store lost must not be created again at start.
func TestVanishedCounter(t *testing.T) {
	store := memory.New(time.Now)
	s, _ := newStrategy(t, store, nil)
	must.Code(t, s.Init(t.Context(), false), seqd.CodeConflict)
	must.Is(t, must.Err(store.Counters().Read(t.Context(), "order")), persist.ErrNotFound, "the counter was created")
	start(t, s, true)
	generate(t, s, 1000)
	must.Do(t, store.Counters().Delete(t.Context(), "order"))
	var err error
	for range 3000 { // what is in hand may still go out
		if err = s.Generate(t.Context(), 1, &seqd.Sequence{}); err != nil {
			break
		}
	}
	must.Code(t, err, seqd.CodeConflict)
}

func TestStepRule(t *testing.T) {
	const minute = 60_000
	s := DefaultSettings()
	s.MaxStep = 5000
	tests := []struct {
		name                     string
		recorded, timestamp, now int64
		want                     int64
	}{
		{"on target", 2000, 1, 1 + 30*minute, 2000},
		{"just not short", 2000, 1, 1 + 15*minute, 2000},
		{"short", 2000, 1, 15 * minute, 4000},
		{"short at the limit", 4000, 1, 2, 5000},
		{"just not long", 2000, 1, 1 + 60*minute, 2000},
		{"long", 4000, 1, 2 + 60*minute, 2000},
		{"long at the limit", 1500, 1, math.MaxInt64, 1000},
		{"clock went back", 2000, 1000, 999, 2000},
		{"nothing recorded", 2000, 0, 1, 2000},
		{"recorded below a raised minimum", 1, 1, 1 + 30*minute, 1000},
		{"recorded above a lowered maximum", 9000, 1, 1 + 30*minute, 5000},
	}
	for _, test := range tests {
		must.Equal(t, s.step(test.recorded, test.timestamp, test.now), test.want, "%s", test.name)
	}
}

// The step grows with the volume and shrinks with it, and first fills do not count.
func TestStepFollowsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		settings := func(s *Settings) { s.Step, s.TargetDuration = 100, time.Minute }
		s, _ := newStrategy(t, store, settings)
		start(t, s, true)
		for range 5000 {
			generate(t, s, 1)
			time.Sleep(10 * time.Millisecond) // 100 a second: a minute's segment is 6000
		}
		grown := counter(t, store).Step
		if grown < 3000 || grown > 12000 {
			t.Errorf("the step is %d at 100 numbers a second and a target of a minute", grown)
		}
		for range 20 { // restarts fill the first buffer again and again
			synctest.Wait()
			must.Do(t, s.Close(t.Context()))
			s, _ = newStrategy(t, store, settings)
			start(t, s, false)
			generate(t, s, 1)
		}
		must.Equal(t, counter(t, store).Step, grown, "the step after restarts")
		for range 20_000 {
			generate(t, s, 1)
			time.Sleep(time.Second)
		}
		if got := counter(t, store).Step; got > 200 {
			t.Errorf("the step is %d at one number a second", got)
		}
	})
}

// Attempts whose answers get lost take ranges that nobody consumed: the step does not grow by them,
// and little is burnt.
func TestLostAnswersDoNotRaiseTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStrategy(t, store, nil)
		start(t, s, true)
		generate(t, s, 10)
		synctest.Wait()
		store.change(func(h *hookedStore) {
			h.after = func(op string) error { return map[string]error{"allocate": persist.ErrUnavailable}[op] }
		})
		generate(t, s, 300) // beyond the mark; then nobody asks
		time.Sleep(5 * time.Minute)
		if c := counter(t, store); c.Step > 2000 || c.Max > 400*1000 {
			t.Errorf("310 numbers were issued, but max is %d and step %d", c.Max, c.Step)
		}
		must.Report(t, s.Close(t.Context()))
	})
}

func TestInit(t *testing.T) {
	store := memory.New(time.Now)
	s, _ := newStrategy(t, store, func(s *Settings) { s.Start = 100 })
	start(t, s, true)
	if got := counter(t, store); got.Max != 99 || got.Step != 1000 || got.Timestamp == 0 {
		t.Errorf("the counter is %+v", got)
	}
	blind := newHooked() // as if another node created the counter just after this one had looked
	blind.Store = store
	blind.fails("read", persist.ErrNotFound)
	other, _ := newStrategy(t, blind, nil)
	start(t, other, true)
	must.Equal(t, counter(t, store).Max, 99, "max")
}

func TestSettingsAreChecked(t *testing.T) {
	outside := func(get func(*Settings) *int64, values ...int64) (list []func(*Settings)) {
		for _, v := range values {
			list = append(list, func(s *Settings) { *get(s) = v })
		}
		return list
	}
	for key, changes := range map[string][]func(*Settings){
		"start":           outside(func(s *Settings) *int64 { return &s.Start }, 0, seqd.MaxNumber+1),
		"ordering":        {func(s *Settings) { s.Ordering = "loose" }},
		"sequencer":       {func(s *Settings) { s.Sequencer = "me" }},
		"step":            outside(func(s *Settings) *int64 { return &s.Step }, 0, DefaultSettings().MaxStep+1),
		"maxStep":         append(outside(func(s *Settings) *int64 { return &s.MaxStep }, mostStep+1), func(s *Settings) { s.Step, s.MaxStep = 1, 0 }),
		"threshold":       {func(s *Settings) { s.Threshold = 0 }, func(s *Settings) { s.Threshold = 1.1 }},
		"targetDuration":  {func(s *Settings) { s.TargetDuration = 999 * time.Millisecond }},
		"onRedisDown":     {func(s *Settings) { s.OnRedisDown = "wait" }},
		"reserveSegments": {func(s *Settings) { s.ReserveSegments = -1 }, func(s *Settings) { s.ReserveSegments = mostReserve + 1 }},
		"restoreGap":      {func(s *Settings) { s.RestoreGap = -2 }, func(s *Settings) { s.RestoreGap = mostStep + 1 }},
		"periodRetention": {func(s *Settings) { s.PeriodRetention = leastRetention - 1 }, func(s *Settings) { s.PeriodRetention = mostRetention + 1 }},
		"maxKeys":         outside(func(s *Settings) *int64 { return &s.MaxKeys }, 0),
	} {
		for i, change := range changes {
			s := DefaultSettings()
			change(&s)
			if problems := s.Validate(); len(problems) != 1 || problems[0].Key != key || problems[0].Text == "" {
				t.Errorf("%s %d: problems %v", key, i, problems)
			}
		}
	}
	least, most := DefaultSettings(), DefaultSettings()
	least.Step, least.MaxStep, least.TargetDuration, least.ReserveSegments, least.RestoreGap = 1, 1, time.Second, 0, AutoGap
	least.PeriodRetention = leastRetention
	most.Start, most.MaxStep, most.Step, most.Threshold = seqd.MaxNumber, mostStep, mostStep, 1
	most.ReserveSegments, most.RestoreGap, most.PeriodRetention = mostReserve, mostStep, mostRetention
	none := DefaultSettings()
	none.RestoreGap, none.PeriodRetention = 0, 0
	for _, good := range []Settings{DefaultSettings(), least, most, none} {
		if problems := good.Validate(); problems != nil {
			t.Errorf("%+v is refused: %v", good, problems)
		}
	}
}

// The settings say what the rest of the service needs to know, and what no node can have is
// refused.
func TestSettingsTell(t *testing.T) {
	s := DefaultSettings()
	s.Keyed, s.Reset, s.TimeZone, s.Increment, s.Offset, s.Sequencer = true, seqd.ResetDaily, "UTC", 3, 2, SequencerRedis
	got := fmt.Sprintln(shape(seqd.BizType{Settings: &s}), shape(seqd.BizType{Settings: 5}), s.Traits().Keyed, s.Traits().MaxWait, s.Traits().Sequencer)
	must.Equal(t, got, "segment per key daily in UTC 2 mod 3 segment true 2s redis\n", "the shape")
	one := DefaultSettings()
	one.Sequencer = SequencerRedis
	_, err := build(strategy.Env{Store: perNode{memory.New(time.Now)}}, seqd.BizType{Name: "order", Settings: &one})
	if err == nil || !strings.Contains(err.Error(), "redis.addrs") {
		t.Errorf("a cursor without Redis: %v", err)
	}
	must.Equal(t, shape(seqd.BizType{Settings: &one}), Name, "shape")
	if made, err := build(strategy.Env{}, seqd.BizType{Name: "order", Settings: 5}); err == nil {
		t.Errorf("settings that are a number make %T", made)
	}
	if one.Ordering = PerNode; one.Traits().Sequencer != seqd.NoSequencer || one.Traits().Keyed {
		t.Errorf("per-node it is sequenced by %q", one.Traits().Sequencer)
	}
}

func TestForeignSettings(t *testing.T) {
	if _, err := New(strategy.Env{}, seqd.BizType{Name: "order", Settings: 5}); err == nil || !strings.Contains(err.Error(), "order") {
		t.Errorf("with settings of another strategy: %v", err)
	}
}
