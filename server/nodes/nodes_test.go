package nodes

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
)

// hoarder is a store that removes no documents while full is true.
type hoarder struct {
	persist.Store
	full atomic.Bool
}

type hoarderDocuments struct {
	persist.Documents
	store *hoarder
}

func (h *hoarder) Documents() persist.Documents { return hoarderDocuments{h.Store.Documents(), h} }

func (d hoarderDocuments) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if d.store.full.Load() {
		return 0, errors.New("read only")
	}
	return d.Documents.Purge(ctx, kind, before, limit)
}

// A purge that fails is a warning, once for each row of failures: what is not removed fills the
// store.
func TestFailingPurgeIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hoarder{Store: memory.New(time.Now)}
		var log testlog.Text
		n := New(Options{
			Documents: store.Documents(), Shared: true, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 },
			Details: func(int) []issuer.Details { return nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); n.Beat(ctx) }()
		for row := 1; row <= 2; row++ {
			store.full.Store(true)
			time.Sleep(time.Hour)
			synctest.Wait()
			if n := strings.Count(log.String(), "\n"); n != row || strings.Count(log.String(), "level=WARN") != row || !strings.Contains(log.String(), "read only") {
				t.Errorf("after %d rows of failures the log has %d lines: %s", row, n, &log)
			}
			store.full.Store(false)
			time.Sleep(time.Hour)
		}
		cancel()
		<-ended
	})
}

// A node says if the store failed over, but not while it cannot be asked. It says why Redis cannot
// be used, also if only others use one.
func TestFailoverIsTold(t *testing.T) {
	var failedOver *seqd.Error
	used, trouble := false, "others use one"
	n := New(Options{
		Redis: func() (bool, string) { return used, trouble },
		Now:   time.Now, Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 },
		Details: func(int) []issuer.Details { return nil }, FailedOver: func() *seqd.Error { return failedOver },
	})
	for why, want := range map[*seqd.Error]string{nil: "ok", seqd.Errorf(seqd.CodeStoreFailedOver, "look"): "failed_over"} {
		failedOver = why
		must.Equal(t, n.self(nil).Backends["store"].State, want, "the store")
		must.Equal(t, n.self(errors.New("away")).Backends["store"].State, "away", "a store that is away")
	}
	for _, want := range []admin.Backend{{}, {State: "away", Detail: "others use one"}, {State: "ok"}} {
		must.Equal(t, n.self(nil).Backends["redis"], want, "Redis")
		if used, trouble = true, "others use one"; want.State == "away" {
			trouble = ""
		}
	}
}

// Documents that are damaged, huge or of somebody else change nothing for the other nodes.
func TestForeignDocuments(t *testing.T) {
	store := memory.New(time.Now)
	n := New(Options{
		Documents: store.Documents(), Shared: true, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 },
		Details: func(int) []issuer.Details { return nil },
	})
	n.opts.Leader = func() string { return n.id }
	for key, body := range map[string]string{
		"bare": `{"id":"bare","self":true,"leader":true}`, "null": `null`, "empty": `{}`, "list": `[]`, "text": `x`, "other": `{"id":"bare"}`,
		"types": `{"id":"types","backends":7}`, "huge": `{"id":"huge","host":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{
			Kind: kind, Key: key, Revision: 1, Body: body, Timestamp: 1, Expires: time.Now().Add(life).UnixMilli(),
		}))
	}
	list, complete := n.Nodes(t.Context())
	if len(list) != 2 || !complete {
		t.Fatalf("%+v", list)
	}
	for _, node := range list {
		if node.Self != (node.ID == n.id) || node.Leader != node.Self || node.Backends == nil || node.MachineIDs == nil {
			t.Errorf("%+v", node)
		}
	}
}

// Nodes whose definitions come from different places say so until all come from the same. A node
// that does not say counts as neither, and one that was killed for 20 s.
func TestMixedDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		var log testlog.Text
		begin := func(from string) (n *Nodes, end func()) {
			n = New(Options{
				Documents: store.Documents(), Shared: true, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil)), Addr: ":" + from, BizTypesFrom: from,
				Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 }, Details: func(int) []issuer.Details { return nil },
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); n.Beat(ctx) }()
			return n, func() { cancel(); <-ended }
		}
		a, endA := begin("store")
		_, endOld := begin("")
		defer endA()
		defer endOld()
		wants := func(mixed bool, warnings int) {
			t.Helper()
			time.Sleep(beatInterval + time.Second)
			inStore, err := MixedIn(t.Context(), store, "store")
			if got := a.Mixed(); (got != nil) != mixed || (inStore != nil) != mixed || err != nil {
				t.Errorf("it is said that %v, %v, %v", got, inStore, err)
			}
			must.Equal(t, strings.Count(log.String(), "level=WARN"), warnings, "the warnings in %s", &log)
		}
		wants(false, 0)
		b, endB := begin("config")
		wants(true, 3) // of every node
		if got := b.Mixed(); got == nil || !strings.Contains(got.Detail, "(:config), and store at") {
			t.Errorf("the other node says %v", got)
		}
		endB()
		wants(false, 3)
		killed := New(Options{
			Documents: store.Documents(), Shared: true, Now: time.Now, BizTypesFrom: "config",
			Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 }, Details: func(int) []issuer.Details { return nil },
		})
		must.Get(killed.Present(t.Context()))(t)
		wants(true, 5)
		time.Sleep(life)
		wants(false, 5)
	})
}

// A node says how often others began to count it: they do again after its machine or the store was
// away. Then it has asked the store for the time.
func TestPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, asked := memory.New(time.Now), 0
		n := New(Options{
			Documents: store.Documents(), Shared: true, Now: time.Now, Ask: func(context.Context) error { asked++; return nil },
			Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 }, Details: func(int) []issuer.Details { return nil },
		})
		wants := func(times int64) {
			t.Helper()
			if got := must.Get(n.Present(t.Context()))(t); got != times || int64(asked) != times {
				t.Errorf("counted %d times, asked for the time %d times, want %d", got, asked, times)
			}
		}
		wants(1)
		for range 5 {
			time.Sleep(2 * beatInterval)
			must.Do(t, n.write(t.Context()))
			wants(1)
		}
		time.Sleep(lapse)
		wants(2)
		time.Sleep(lapse)
		must.Do(t, n.write(t.Context())) // a beat comes before anybody asks
		wants(3)
	})
}

// The nodes see each other from the start, however far their own clocks are from that of the store.
func TestSeenByOthersWithAWrongClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		begin := func(ahead time.Duration, from string) (*Nodes, *Clock) {
			own := func() time.Time { return time.Now().Add(ahead) }
			clock := NewClock(store, own)
			return New(Options{
				Documents: store.Documents(), Shared: true, Now: own, Clock: clock.Now, ClockKnown: clock.Known, Ask: clock.Ask, BizTypesFrom: from,
				Changes: func() int64 { return 0 }, BizTypes: func() int { return 0 }, Details: func(int) []issuer.Details { return nil },
			}), clock
		}
		behind, _ := begin(-time.Hour, "config")
		must.Get(behind.Present(t.Context()))(t)
		for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
			n, clock := begin(ahead, "store")
			for _, known := range []string{"not known", "known"} {
				if list, err := n.Others(t.Context()); err != nil || len(list) != 1 || list[0].BizTypesFrom != "config" {
					t.Errorf("a clock %s ahead, that of the store %s: %v, %v", ahead, known, list, err)
				}
				must.Do(t, clock.Ask(t.Context()))
			}
		}
	})
}
