package metrics

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// What Take tells is the increase since the last call, also of biz types that lose their label.
func TestTake(t *testing.T) {
	m := New(Options{MaxBizTypes: 2, Log: slog.New(slog.DiscardHandler)})
	taken := func() string {
		var list []string
		m.Take(func(bizType string, issued, refused int64) {
			list = append(list, fmt.Sprint(bizType, " ", issued, " ", refused))
		})
		return strings.Join(list, ", ")
	}
	refusals := func() string {
		var list []string
		m.Refusals(func(code seqd.Code, total int64) { list = append(list, fmt.Sprint(code, " ", total)) })
		return strings.Join(list, ", ")
	}
	wants := func(got, want string) {
		t.Helper()
		must.Equal(t, got, want)
	}
	wants(taken(), "")
	wants(refusals(), "")
	m.Issued("a", 5)
	m.Issued("b", 1)
	m.Issued("c", 2) // there are no more labels
	m.Issued("d", 3)
	m.Rejected("a", seqd.CodeExhausted)
	m.Rejected("d", seqd.CodeExhausted)
	m.Rejected("d", "foreign")
	wants(taken(), "a 5 1, b 1 0, _other 5 2")
	wants(refusals(), "exhausted 2, internal 1")
	wants(taken(), "")
	m.Issued("b", 1)
	wants(taken(), "b 1 0")
	m.bizTypes.forget(nil)
	m.bizTypes.forget(nil) // a and b are gone
	wants(refusals(), "exhausted 2, internal 1")
	m.Issued("c", 1)
	m.Rejected("c", seqd.CodeExhausted)
	wants(taken(), "c 1 1")
	wants(refusals(), "exhausted 3, internal 1")
}

func TestCalls(t *testing.T) {
	m := New(Options{})
	for strategy, d := range map[string][]time.Duration{
		"segment": {500, time.Microsecond, 3 * time.Microsecond}, "gapless": {3 * time.Microsecond, time.Minute},
	} {
		for _, took := range d {
			m.Took(strategy, int64(took))
		}
	}
	bounds, counts := m.Calls()
	got := fmt.Sprint(counts[:4], counts[len(counts)-1], len(counts)-len(bounds))
	if want := "[2 0 2 0] 1 1"; got != want || bounds[2] != 5e-6 {
		t.Errorf("the calls are %s with bounds %v, want %s", got, bounds, want)
	}
}

// Where nobody scrapes, the labels of biz types that are gone are given up nevertheless.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{MaxBizTypes: 1, Log: slog.New(slog.DiscardHandler)})
		is := must.Get(issuer.New(nil, issuer.Options{}))(t)
		m.watch(Source{Issuer: is})
		m.Issued("gone", 1)
		labelled := func() bool { return m.bizTypes.find("gone") != nil }
		m.Tidy()
		time.Sleep(time.Minute)
		m.Tidy()
		if !labelled() {
			t.Error("the label is gone at once")
		}
		for range 4 {
			time.Sleep(time.Minute)
			m.Tidy()
		}
		if labelled() {
			t.Error("the label was not given up")
		}
	})
}
