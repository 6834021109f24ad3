package gapless_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// open returns a strategy that learns what another one knew, nil for nothing.
func open(t *testing.T, store persist.Store, from any) *gapless.Strategy {
	t.Helper()
	s := newNode(t, strategy.Env{Store: store, Now: time.Now}, patient())
	if from != nil {
		s.Learn(from)
	}
	must.Do(t, s.Init(t.Context(), true))
	return s
}

// issued returns a strategy that has issued a number and is closed.
func issued(t *testing.T, store persist.Store) *gapless.Strategy {
	t.Helper()
	s := open(t, store, nil)
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), 1, &seq))
	must.Do(t, s.Close(t.Context()))
	return s
}

// Whoever learns refuses a store that has less than was issued.
func TestKnowledgeOfWhatWasIssued(t *testing.T) {
	s := issued(t, memory.New(time.Now))
	again := open(t, memory.New(time.Now), s.Knowledge())
	defer func() { _ = again.Close(t.Context()) }()
	for name, from := range map[string]any{"of the first": s.Knowledge(), "of the second": again.Knowledge()} {
		heir := open(t, memory.New(time.Now), from)
		var seq seqd.Sequence
		err := heir.Generate(t.Context(), 1, &seq)
		must.Equal(t, seqd.AsError(err).Code, seqd.CodeStoreFailedOver, "%s: an empty store was used", name)
		must.Report(t, heir.Close(t.Context()))
	}
	unused := newNode(t, strategy.Env{Store: memory.New(time.Now), Now: time.Now}, patient())
	must.Equal(t, unused.Knowledge(), nil, "what a strategy that issued nothing left")
	must.Report(t, unused.Close(t.Context()))
}

// The issuer keeps the knowledge of very many biz types, because one that nobody asks is closed.
func TestKnowledgeIsSmall(t *testing.T) {
	const many, most = 500, 320
	heap := func() int {
		runtime.GC()
		runtime.GC() // what had a finalizer
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	store := memory.New(time.Now)
	issued(t, store)
	all := make([]any, many)
	for i := range all {
		all[i] = issued(t, store)
	}
	with := heap()
	for i, s := range all {
		all[i] = s.(*gapless.Strategy).Knowledge()
	}
	condensed := heap()
	clear(all)
	got := (condensed - heap()) / many
	t.Logf("%d bytes", got)
	if got > most || with < condensed {
		t.Errorf("%d bytes are more than %d; %d bytes in all became %d", got, most, with, condensed)
	}
	runtime.KeepAlive(all)
}
