package ops

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// moves are two configurations. Their stores come from the context.
func moves(t *testing.T) (from, to *config.Config) {
	read := func(path string) *config.Config {
		return must.Get(config.LoadYAML([]byte("store: {driver: postgres, postgres: {url: 'postgres://u@"+path+"/seqd'}}\nbizTypes: [{name: order}]"), config.Sources{}))(t)
	}
	return read("from"), read("to")
}

// between returns a context in which commands move from one store to another, and fail after some
// writes.
func between(t *testing.T, from, to persist.Store, writes int) context.Context {
	left := new(atomic.Int64)
	left.Store(int64(writes))
	open := func(store persist.Store) func(context.Context, driver.How) (persist.Store, error) {
		return func(context.Context, driver.How) (persist.Store, error) { return cutOff{store, left}, nil }
	}
	return seams.With(t.Context(), seams.Seams{OpenStore: open(from), OpenTarget: open(to)})
}

// usable reports whether nodes can use a store.
func usable(t *testing.T, store persist.Store) bool {
	_, err := persist.ReadCluster(t.Context(), store.Documents())
	return err == nil
}

// A move can be cut off at any write. Nodes can never use both stores, and the same call goes on; or the
// former store is opened again, unless the new one may be open.
func TestMoveIsCutOff(t *testing.T) {
	cfg, target := moves(t)
	undone := 0
	for writes := 0; ; writes++ {
		for _, undo := range []bool{false, true} {
			from, to := issued(t), memory.New(time.Now)
			err := Move(between(t, from, to, writes), cfg, target, Moving{}, quietly)
			if err == nil {
				if writes < 10 || undone < 5 {
					t.Fatalf("it took only %d writes, and %d were undone", writes, undone)
				}
				checkMoved(t, from, to)
				return
			}
			must.Is(t, err, errCut)
			if usable(t, from) && usable(t, to) {
				t.Fatalf("both can be used after %d writes", writes)
			}
			if undo && !usable(t, from) {
				if _, err := UndoMove(between(t, from, to, endless), cfg); err == nil {
					undone++
					if !usable(t, from) || usable(t, to) {
						t.Fatalf("undone after %d writes: %v, %v", writes, usable(t, from), usable(t, to))
					}
					continue
				}
				must.Is(t, must.Err(UndoMove(between(t, from, to, endless), cfg)), ErrSnapshot)
			}
			must.Do(t, Move(between(t, from, to, endless), cfg, target, Moving{}, quietly))
			checkMoved(t, from, to)
			must.Do(t, Move(between(t, from, to, endless), cfg, target, Moving{}, quietly)) // it was done already
		}
	}
}

// checkMoved checks what [issued] became: nothing is skipped.
func checkMoved(t *testing.T, from, to persist.Store) {
	t.Helper()
	ctx := t.Context()
	for c, err := range persist.EveryCounter(ctx, from.Counters()) {
		must.Do(t, err)
		if c.Epoch != persist.StoreEpoch {
			c.Epoch = ""
		}
		must.Equal(t, must.Get(to.Counters().Read(ctx, c.BizTag))(t), c)
	}
	doc := must.Get(to.Documents().Read(ctx, persist.LedgerKind, "invoice"))(t)
	must.Equal(t, must.Get(ledger.Decode(&doc))(t).Last, 12)
	must.Equal(t, must.Get(to.Documents().Read(ctx, "token", "a"))(t).Revision, 7)
	was, is := must.Get(from.Slots().Look(ctx, "r"))(t), must.Get(to.Slots().Look(ctx, "r"))(t)
	must.Equal(t, *is.Set, *was.Set)
	must.Equal(t, is.Slots[0], was.Slots[0])
	_, err := persist.ReadCluster(ctx, from.Documents())
	must.Is(t, err, persist.ErrMoved)
	if m, _ := errors.AsType[persist.Moved](err); m.Cluster != must.Get(persist.ReadCluster(ctx, to.Documents()))(t).ID || !m.Opened {
		t.Errorf("%+v", m)
	}
	_, _, err = persist.ReadRestored(ctx, to.Documents())
	must.Is(t, err, persist.ErrNotFound)
}

// Every bad store is refused before anything is written.
func TestBadMoves(t *testing.T) {
	cfg, target := moves(t)
	other := issued(t)
	must.Is(t, Move(between(t, other, memory.New(time.Now), 5), cfg, target, Moving{}, quietly), errCut)
	moved := issued(t)
	must.Do(t, Move(between(t, moved, memory.New(time.Now), endless), cfg, target, Moving{}, quietly))
	elsewhere := must.Get(config.LoadYAML([]byte("store: {driver: postgres, postgres: {url: 'postgres://u@elsewhere/seqd'}}\nbizTypes: [{name: order}]"), config.Sources{}))(t)
	for name, test := range map[string]struct {
		from, to persist.Store
		target   *config.Config
		says     string
	}{
		"the same store":                    {issued(t), memory.New(time.Now), cfg, "same store"},
		"a target that knows a counter":     {issued(t), issued(t), target, "not empty"},
		"a target with a document only":     {issued(t), withDocument(t), target, "not empty"},
		"nothing to move":                   {memory.New(time.Now), memory.New(time.Now), target, "nothing to move"},
		"begun to another store":            {other, memory.New(time.Now), elsewhere, "being moved to postgres, the database seqd at to"},
		"moved to another store":            {moved, memory.New(time.Now), elsewhere, "was moved to postgres, the database seqd at to"},
		"the target of an interrupted move": {issued(t), half(t), target, "another move was begun"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Move(between(t, test.from, test.to, 0), cfg, test.target, Moving{}, quietly); !errors.Is(err, ErrSnapshot) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v", err)
			}
		})
	}
	must.Is(t, must.Err(UndoMove(between(t, issued(t), nil, 0), cfg)), ErrSnapshot)
	must.Is(t, must.Err(UndoMove(between(t, moved, nil, 0), cfg)), persist.ErrMoved)
}

// half is the target of another move, which was cut off.
func half(t *testing.T) persist.Store {
	cfg, target := moves(t)
	to := memory.New(time.Now)
	must.Is(t, Move(between(t, issued(t), to, 4), cfg, target, Moving{}, quietly), errCut)
	return to
}
