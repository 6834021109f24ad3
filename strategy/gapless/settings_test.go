package gapless

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Every setting is checked, and the defaults are good.
func TestValidate(t *testing.T) {
	if s, err := New(strategy.Env{}, seqd.BizType{Name: "invoice", Settings: 5}); err == nil {
		t.Errorf("settings that are a number make %v", s)
	}
	for keys, least := range map[int]int{counters.Remembered - 1: counters.Remembered, counters.Remembered + 1: counters.Remembered + 1} {
		settings := DefaultSettings()
		settings.LiveKeys, settings.Keyed = keys, true
		must.Equal(t, must.Get(New(strategy.Env{Store: memory.New(time.Now)}, seqd.BizType{Name: "invoice", Settings: &settings}))(t).Memory.Least, least, "the least that it remembers of %d keys", keys)
	}
	good := DefaultSettings()
	if problems := good.Validate(); len(problems) > 0 {
		t.Errorf("the defaults: %v", problems)
	}
	for key, c := range map[string]struct {
		least, most int64
		set         func(s *Settings, n int64)
	}{
		"start":                {1, seqd.MaxNumber, func(s *Settings, n int64) { s.Start = n }},
		"reservationTTL":       {int64(time.Second), int64(24 * time.Hour), func(s *Settings, n int64) { s.ReservationTTL = time.Duration(n) }},
		"maxReserved":          {1, 5000, func(s *Settings, n int64) { s.MaxReserved = int(n) }},
		"maxReservedPerCaller": {0, 5000, func(s *Settings, n int64) { s.MaxReservedPerCaller = int(n) }},
		"maxKeys":              {1, 1e9, func(s *Settings, n int64) { s.MaxKeys = n }},
	} {
		for n, want := range map[int64][]string{c.least - 1: {key}, c.least: nil, c.most: nil, c.most + 1: {key}} {
			s := good
			if c.set(&s, n); !slices.Equal(problems(&s), want) {
				t.Errorf("%s %d: problems of %q, want %q", key, n, problems(&s), want)
			}
		}
	}
	s := good
	if s.OnRelease = "x"; !slices.Equal(problems(&s), []string{"onRelease"}) {
		t.Errorf("problems of %q", problems(&s))
	}
}

// problems returns the settings that are out of their ranges.
func problems(s *Settings) (keys []string) {
	for _, p := range s.Validate() {
		keys = append(keys, p.Key)
	}
	return keys
}

// What an error of the store means: whether the store is away, and what callers get.
func TestStoreErrors(t *testing.T) {
	refused := seqd.Errorf(seqd.CodeTooManyKeys, "a test")
	for err, want := range map[error]struct {
		away bool
		code seqd.Code
	}{
		nil: {false, ""}, refused: {false, seqd.CodeTooManyKeys}, context.Canceled: {false, seqd.CodeCanceled},
		context.DeadlineExceeded: {true, seqd.CodeStoreUnavailable}, persist.ErrClosed: {true, seqd.CodeStoreUnavailable},
		persist.ErrInvalid: {false, seqd.CodeInternal}, persist.ErrNewer: {false, seqd.CodeInternal},
		persist.ErrNotFound: {false, seqd.CodeStoreUnavailable}, persist.ErrFailedOver: {false, seqd.CodeStoreUnavailable},
	} {
		if err != nil && err != error(refused) {
			err = fmt.Errorf("invoice: %w", err)
		}
		if away, code := new(Strategy).IsAway(err), seqd.CodeOf(unavailable(err)); away != want.away || code != want.code {
			t.Errorf("%v: away %v, code %q, want %+v", err, away, code, want)
		}
	}
}

// The shape says what each key and each period have of their own.
func TestShape(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"gapless":                           func(*Settings) {},
		"gapless keyed":                     func(s *Settings) { s.Keyed = true },
		"gapless daily in UTC":              func(s *Settings) { s.Reset = seqd.ResetDaily },
		"gapless keyed yearly in Asia/Aden": func(s *Settings) { s.Keyed, s.Reset, s.TimeZone = true, seqd.ResetYearly, "Asia/Aden" },
	} {
		s := DefaultSettings()
		change(&s)
		must.Equal(t, shape(seqd.BizType{Settings: &s}), want, "shape")
	}
	must.Equal(t, shape(seqd.BizType{Settings: 1}), "gapless", "the shape of other settings")
}

// IDs name their counter, and only what seqd made is one.
func TestIDs(t *testing.T) {
	const own = "0123456789abcdef0123"
	for _, test := range []struct {
		keyed bool
		id    string
		want  counters.Name
		ok    bool
	}{
		{false, own, counters.Name{}, true},
		{false, own + ".2026", counters.Name{Period: 20260000}, true},
		{false, own + ".202611", counters.Name{Period: 20261100}, true},
		{false, own + ".20261120", counters.Name{Period: 20261120}, true},
		{true, own + "..tenant-42", counters.Name{Key: "tenant-42"}, true},
		{true, own + ".2026.a.b", counters.Name{Key: "a.b", Period: 20260000}, true},
		{false, own + ".", counters.Name{}, false},
		{false, own + "..", counters.Name{}, false},
		{false, own + ".2026.", counters.Name{}, false},
		{false, own + ".20", counters.Name{}, false},
		{false, own + ".20261320", counters.Name{}, false},
		{false, own + "..tenant-42", counters.Name{}, false},
		{true, own, counters.Name{}, false},
		{true, own + "..", counters.Name{}, false},
		{true, own + "..a b", counters.Name{}, false},
		{true, own + ".x.a", counters.Name{}, false},
		{false, "0123456789ABCDEF0123", counters.Name{}, false},
		{false, own[1:], counters.Name{}, false},
		{false, own + "0", counters.Name{}, false},
		{false, own + "00", counters.Name{}, false},
		{false, own[2:], counters.Name{}, false},
		{false, "0123456789abcdef012x", counters.Name{}, false},
		{false, "", counters.Name{}, false},
	} {
		s := DefaultSettings()
		s.Keyed = test.keyed
		counter, got, err := s.counterOf(test.id)
		if (err == nil) != test.ok || counter != test.want || test.ok != (got == own) {
			t.Errorf("%q, keyed %t: %v %s %v", test.id, test.keyed, counter, got, err)
		}
		if test.ok && fullID(own, test.want) != test.id {
			t.Errorf("the ID of %v is %s", test.want, fullID(own, test.want))
		}
	}
}

// An ID of a reservation reads as what it was made from, and nothing else does.
func FuzzID(f *testing.F) {
	f.Add("tenant-42", int32(20260000), true, "")
	f.Add("", int32(0), false, "0123456789abcdef0123.2026")
	f.Add("a.b", int32(20261120), true, "0123456789abcdef0123..a.b")
	f.Fuzz(func(t *testing.T, key string, period int32, keyed bool, text string) {
		s := DefaultSettings()
		s.Keyed = keyed
		name := counters.Name{Period: seqd.Period(period)}
		if keyed {
			name.Key = key
		}
		p, known := counters.ParsePeriod(strings.ReplaceAll(name.Period.String(), "-", ""))
		if ok := period == 0 || known && p == name.Period; ok && (!keyed || seqd.CheckKey(key) == nil) {
			own := newID()
			if got, gotOwn, err := s.counterOf(fullID(own, name)); err != nil || got != name || gotOwn != own {
				t.Errorf("%q reads as %v %s %v", fullID(own, name), got, gotOwn, err)
			}
		}
		got, own, err := s.counterOf(text)
		if err == nil && fullID(own, got) != text {
			t.Errorf("%q reads as %v %s", text, got, own)
		}
	})
}

// A policy knows how far the clocks differ, and by how much the store's was set forward.
func TestTimed(t *testing.T) {
	var p ledger.Policy
	timed(&p, storeclock.Times{Store: 100, Bound: 101, Latest: 103, Forward: 7}, nil)
	if p.Ahead != 3 || p.Doubt != 1 || p.Forward != 7 {
		t.Errorf("%+v", p)
	}
}
