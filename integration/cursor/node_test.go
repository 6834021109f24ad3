package cursor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// guarded is a cursor on a real server whose calls a test can intercept.
type guarded struct {
	*rediscursor.Cursor
	cut     atomic.Bool
	looks   atomic.Int64
	install func(rediscursor.Install) // runs before each install; may be nil
}

func (c *guarded) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	if c.cut.Load() {
		return rediscursor.Taken{}, errors.New("cut")
	}
	taken, err := c.Cursor.Take(ctx, t)
	if t.Count == 0 {
		c.looks.Add(1)
	}
	return taken, err
}

func (c *guarded) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	if c.cut.Load() {
		return rediscursor.Answer{}, errors.New("cut")
	}
	if c.install != nil {
		c.install(in)
	}
	return c.Cursor.Install(ctx, in)
}

// issuer returns the strategy of a node that uses a server.
func issuer(t *testing.T, store persist.Store, server *testenv.Redis, name string, change func(*segment.Settings)) (*segment.Shared, *guarded) {
	t.Helper()
	settings := segment.DefaultSettings()
	if change != nil {
		change(&settings)
	}
	c := &guarded{Cursor: rediscursor.Open(rediscursor.Options{Client: connect(t, server.Addr(), second), Prefix: prefix, Cluster: clusterID}, name)}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
	s, err := segment.NewShared(env, seqd.BizType{Name: name, Strategy: segment.Name, Settings: &settings}, c)
	if err == nil {
		err = s.Init(t.Context(), true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func numbers(t *testing.T, s *segment.Shared, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	if err := s.Generate(t.Context(), n, &seq); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(seq.Numbers())
}

func readCounter(t *testing.T, store persist.Store, name string) persist.Counter {
	t.Helper()
	counter, err := store.Counters().Read(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return counter
}

// All nodes were stopped, the store was restored and raised above what was issued, and Redis kept
// its data. A new node learns the queue in Redis from its first take, and keeps a range above it
// for an outage.
func TestStandbyAfterARestore(t *testing.T) {
	ctx := t.Context()
	server, store, name := testenv.StartRedis(t), memory.New(time.Now), testenv.Unique()
	old, _ := issuer(t, store, server, name, nil)
	numbers(t, old, 10)
	if err := old.Close(ctx); err != nil {
		t.Fatal(err)
	}
	counter := readCounter(t, store, name)
	counter.Max = 500
	if err := errors.Join(store.Counters().Delete(ctx, name), store.Counters().Create(ctx, counter)); err != nil {
		t.Fatal(err)
	}

	a, link := issuer(t, store, server, name, nil)
	b, _ := issuer(t, store, server, name, func(s *segment.Settings) { s.OnRedisDown = segment.Reject })
	given := map[int64]bool{}
	for _, n := range numbers(t, a, 1) {
		given[n] = true
	}
	eventually(t, "a has its standby range", func() error {
		if max := readCounter(t, store, name).Max; link.looks.Load() == 0 || max == 500 {
			return errors.New("it has not")
		}
		return nil
	})
	for _, n := range numbers(t, b, 900) {
		given[n] = true
	}
	link.cut.Store(true)
	if n := numbers(t, a, 1)[0]; given[n] {
		t.Errorf("%d was issued twice", n)
	}
	if err := errors.Join(a.Close(ctx), b.Close(ctx)); err != nil {
		t.Error(err)
	}
}

// Redis runs out of memory while a refill for waiting callers is under way. The store is not asked
// repeatedly.
func TestOutOfMemoryBurnsNoRanges(t *testing.T) {
	server, store, name := testenv.StartRedis(t), memory.New(time.Now), testenv.Unique()
	s, c := issuer(t, store, server, name, func(s *segment.Settings) { s.ReserveSegments, s.OnRedisDown = 0, segment.Reject })
	numbers(t, s, 1)
	full := false
	c.install = func(rediscursor.Install) {
		if !full {
			full = true
			command(t, server.Client(), "CONFIG", "SET", "maxmemory", "1")
		}
	}
	before := readCounter(t, store, name)
	var seq seqd.Sequence
	if err := s.Generate(t.Context(), 1500, &seq); err == nil {
		t.Error("Redis without memory took a range")
	}
	after := readCounter(t, store, name)
	if burned := after.Max - before.Max; burned > 20*before.Step || !full {
		t.Errorf("one request skipped %d numbers, step %d → %d", burned, before.Step, after.Step)
	}
	command(t, server.Client(), "CONFIG", "SET", "maxmemory", "0")
	eventually(t, "numbers come again", func() error { return s.Generate(context.Background(), 1, &seqd.Sequence{}) })
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
