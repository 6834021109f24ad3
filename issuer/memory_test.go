package issuer_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment"
)

// bizTypeName returns the name of the i-th biz type, in memory of its own.
func bizTypeName(i int) string { return fmt.Sprintf("biz-type-%07d", i) }

// TestMemoryOfAnIdleBizType: a biz type that nobody asks for takes little memory beyond its
// definition: its place in the issuer, and a strategy over a store on disk or elsewhere.
func TestMemoryOfAnIdleBizType(t *testing.T) {
	const many, most = 20_000, 1024
	settings := segment.DefaultSettings()
	store := memory.New(time.Now)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
	list := make([]seqd.BizType, many)
	for i := range list {
		list[i] = seqd.BizType{Name: bizTypeName(i), Strategy: segment.Name, Settings: &settings}
	}
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	definitions := make([]issuer.Definition, many)
	for i := range list {
		s := must.Get(segment.New(env, list[i]))(t)
		definitions[i] = issuer.Definition{BizType: list[i], Strategy: s}
	}
	strategies := heap()
	is := must.Get(issuer.New(definitions, issuer.Options{Log: quiet()}))(t)
	definitions = nil
	each := (heap() - before) / many
	t.Logf("%d bytes; of strategies and definitions %d", each, (strategies-before)/many)
	if each > most {
		t.Errorf("an idle biz type takes %d bytes, more than %d", each, most)
	}
	runtime.KeepAlive(is)
	runtime.KeepAlive(list)
}
