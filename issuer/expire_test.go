package issuer_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
)

// lender is a ledger whose reservations expire when a test says so.
type lender struct {
	book
	tell      func(seqd.Expiry)
	reclaimed []string
	fails     error
}

func (l *lender) OnExpired(tell func(seqd.Expiry)) { l.tell = tell }

func (l *lender) Reclaim(_ context.Context, key string, period seqd.Period) error {
	l.reclaimed = append(l.reclaimed, key+"@"+period.String())
	return l.fails
}

// hearing is a plugin that is told of refusals, and has something to finish.
type hearing struct {
	seqd.NopPlugin
	name  string
	heard *[]string
	fails bool
}

func (h *hearing) Close(context.Context) error { return nil }

func (h *hearing) Rejected(_ context.Context, call *seqd.Call, err *seqd.Error) {
	*h.heard = append(*h.heard, strings.Join([]string{h.name, call.BizType, call.Key, call.Caller.Name, string(err.Code), call.Reservation.ID}, " "))
	if h.fails {
		panic("deaf")
	}
}

// TestExpired checks that the rejection handlers, and the plugins that are one, hear of a
// reservation that expired, also if one of them panics. Nobody hears of it after Close.
func TestExpired(t *testing.T) {
	var heard []string
	l := &lender{}
	d := order(l,
		seqd.BoundPlugin{Name: "a", Order: 1, Quick: true, Plugin: &hearing{name: "a", heard: &heard, fails: true}},
		seqd.BoundPlugin{Name: "none", Order: 2, Quick: true, Plugin: seqd.NopPlugin{}},
		seqd.BoundPlugin{Name: "b", Order: 3, Quick: true, Plugin: &hearing{name: "b", heard: &heard}},
	)
	d.Rejected = &hearing{name: "handler", heard: &heard, fails: true}
	var log bytes.Buffer
	is := must.Get(issuer.New([]issuer.Definition{d}, issuer.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	expiry := seqd.Expiry{Reservation: seqd.Reservation{ID: "r1", Key: "k"}, Count: 3, Caller: "shop"}
	l.tell(expiry)
	if want := []string{"a order k shop reservation_expired r1", "b order k shop reservation_expired r1", "handler order k shop reservation_expired r1"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	for _, text := range []string{"plugin failed to handle an expiry", "rejection handler failed"} {
		must.Equal(t, strings.Count(log.String(), text), 1, "the times that the log says %q", text)
	}
	must.Do(t, is.Close(t.Context()))
	heard = nil
	l.tell(expiry)
	if heard != nil {
		t.Errorf("heard %q after Close", heard)
	}
}

// TestReclaim checks which biz types are asked to reclaim, and that those that are not are no
// error.
func TestReclaim(t *testing.T) {
	plain, keyed := &lender{}, &lender{fails: seqd.Errorf(seqd.CodeStoreUnavailable, "away")}
	var definitions []issuer.Definition
	for name, s := range map[string]seqd.Strategy{"plain": plain, "keyed": keyed, "counting": &counting{}, "disabled": &lender{}} {
		d := order(s)
		d.BizType.Name, d.BizType.Settings = name, keyedSettings{name == "keyed"}
		definitions = append(definitions, d)
	}
	is := newIssuer(t, issuer.Options{}, definitions...)
	must.Do(t, is.Remove(t.Context(), "disabled", seqd.Errorf(seqd.CodeDisabled, "no")))
	for _, test := range []struct {
		bizType, key string
		done         bool
		code         seqd.Code
	}{
		{"plain", "", true, ""}, {"plain", "k", false, ""}, {"keyed", "k", true, seqd.CodeStoreUnavailable}, {"keyed", "", false, ""},
		{"counting", "", false, ""}, {"disabled", "", false, ""}, {"none", "", false, ""}, {"no name", "", false, seqd.CodeInvalidBizType},
	} {
		done, err := is.Reclaim(t.Context(), test.bizType, test.key, 20260000)
		if done != test.done || seqd.CodeOf(err) != test.code {
			t.Errorf("%s/%s: done %v, %v", test.bizType, test.key, done, err)
		}
	}
	if want := []string{"@2026"}; !slices.Equal(plain.reclaimed, want) {
		t.Errorf("reclaimed %q, want %q", plain.reclaimed, want)
	}
	if want := []string{"k@2026"}; !slices.Equal(keyed.reclaimed, want) {
		t.Errorf("reclaimed %q, want %q", keyed.reclaimed, want)
	}
}
